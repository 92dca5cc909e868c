"""Readers of the archives of corpora, one module each.

A reader is ``read(corpus, archives, destination)``; ``archives`` are paths by the recipe's file
names.  It writes ``{train,valid,test}.{source,target}`` (no valid where the recipe has
``valid-every``), and returns, if there are any, ``dropped``: part -> reason -> number of dropped
pairs; and ``tests``: names and sizes of the sets that make up the test text.

``takes(corpus, file)`` says whether it reads an archive, by the recipe's name of its file.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

from ....errors import UserError
from ..definition import Corpus


def read(corpus: Corpus, archives: dict[str, Path], destination: Path) -> dict:
    return _module(corpus).read(corpus, archives, destination) or {}


def refuse_unread(corpus: Corpus) -> None:
    """Refuse archives that the reader would skip: their text would be missing."""
    takes, gold = _module(corpus).takes, corpus.gold.files if corpus.gold else ()
    files = (archive.file for archive in corpus.archives)
    if unread := [file for file in files if file not in gold and not takes(corpus, file)]:
        raise UserError(
            f"{corpus.title}: the reader {corpus.reader} reads no {' and no '.join(unread)}; "
            "correct its name under archives, or take it out"
        )


def _module(corpus: Corpus) -> ModuleType:
    name = "parallel" if corpus.reader == "own" else corpus.reader
    return import_module(f"{__name__}.{name}")
