"""Reading the archives of a corpus: one module for each kind.

A reader is ``read(corpus, archives, destination)``; ``archives`` are places by the recipe's file
names.  It writes ``{train,valid,test}.{source,target}`` (no valid where the recipe has
``valid-every``), and returns, where there are any, ``dropped``: part -> reason -> how many pairs it
left out; and ``tests``: names and sizes of the sets that make up the test text.
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
