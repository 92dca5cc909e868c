"""Shared by the example scripts: files of parallel text, plain or compressed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.files.text import pairs

_OURS = re.compile(r"(train|valid|test|text|gold)\..+")


def existing(prefix: Path, language: str | None = None) -> Path:
    """Return a file of a text, which may be compressed."""
    names = [f"{prefix}.{language}", f"{prefix}.{language}.gz"] if language else [str(prefix)]
    for name in names:
        if Path(name).is_file():
            return Path(name)
    raise UserError(f"there is no {' and no '.join(names)}")


def pairs_of(prefix: Path, languages: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a text, source first."""
    yield from pairs(*(existing(prefix, language) for language in languages))


@contextmanager
def new_folder(folder: Path, inputs: Iterable[Path]) -> Iterator[Path]:
    """Yield an empty folder that takes the place of ``folder`` once all its files are written.

    Nothing of another kind is lost with it, nor what the files are made of.
    """
    there = list(folder.iterdir()) if folder.exists() else []
    kept = {path.resolve().parent for path in inputs}
    if folder.resolve() in kept or not all(_OURS.fullmatch(path.name) for path in there):
        raise UserError(f"{folder} has other files, or those to read; name a folder of its own")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent) as place:
        complete = Path(place, "complete")
        complete.mkdir()
        yield complete
        if folder.exists():
            shutil.rmtree(folder)
        complete.rename(folder)
