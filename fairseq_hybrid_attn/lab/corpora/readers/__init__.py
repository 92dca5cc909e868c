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

#: The names of readers in recipes, and their modules.
READERS = {
    "iwslt14": "iwslt14",
    "wmt14": "wmt14",
    "wmt17": "wmt17",
    "aspec": "aspec",
    "own": "parallel",
}


def read(corpus: Corpus, archives: dict[str, Path], destination: Path) -> dict:
    reader = import_module(f"{__name__}.{READERS[corpus.reader]}")
    return reader.read(corpus, archives, destination) or {}
