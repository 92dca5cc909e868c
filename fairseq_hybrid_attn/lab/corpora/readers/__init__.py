"""Readers of the archives of corpora, one module each.

A reader is ``read(corpus, archives, destination)``; ``archives`` are paths by the recipe's file
names.  It writes ``{train,valid,test}.{source,target}`` (no valid where the recipe has
``valid-every``), and returns, if there are any, ``dropped``: part -> reason -> number of dropped
pairs; and ``tests``: names and sizes of the sets that make up the test text.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from ..definition import Corpus


def read(corpus: Corpus, archives: dict[str, Path], destination: Path) -> dict:
    name = "parallel" if corpus.reader == "own" else corpus.reader
    return import_module(f"{__name__}.{name}").read(corpus, archives, destination) or {}
