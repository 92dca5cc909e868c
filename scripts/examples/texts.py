"""Shared by the example scripts: files of parallel text, plain or compressed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.files.text import pairs


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


def letters(line: str) -> str:
    """Return the letters and digits of a sentence, the same for two ways of writing it."""
    return "".join(filter(str.isalnum, line.lower()))
