"""Reading the archives of a corpus: one module a corpus, known by its name.

A reader is ``read(corpus, archives, destination)``.  ``archives`` maps the recipe's file names
to places on disk; the reader writes ``{train,valid,test}.{source,target}`` to the folder
``destination`` (no valid where the recipe has ``valid-every``), and there may leave a
``dropped.json``: part -> reason -> how many pairs it left out.  It raises UserError, with the
file and line, if an archive is damaged.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from ..definition import Corpus

Reader = Callable[[Corpus, dict[str, Path], Path], None]


def _from_module(name: str) -> Reader:
    """The reader of a module, which is loaded when it is needed."""

    def read(corpus: Corpus, archives: dict[str, Path], destination: Path) -> None:
        import_module(f"{__name__}.{name}").read(corpus, archives, destination)

    return read


#: Every reader by its name in recipes.
READERS: dict[str, Reader] = {
    name: _from_module(name) for name in ("iwslt14", "wmt14", "wmt17", "aspec", "own")
}
