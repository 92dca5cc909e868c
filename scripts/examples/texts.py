"""What the example scripts have in common: files of parallel text, plain or compressed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.files.text import pairs


def existing(prefix: Path, language: str | None = None) -> Path:
    """A file of a text, perhaps compressed.

    Raises:
        UserError: if there is none.
    """
    names = [f"{prefix}.{language}", f"{prefix}.{language}.gz"] if language else [str(prefix)]
    for name in names:
        if Path(name).is_file():
            return Path(name)
    raise UserError(f"there is no {' and no '.join(names)}")


def pairs_of(prefix: Path, languages: list[str]) -> Iterator[tuple[str, str]]:
    """The pairs of a text, source first.

    Raises:
        UserError: if a file is missing, or the two do not fit together.
    """
    yield from pairs(*(existing(prefix, language) for language in languages))


def letters(line: str) -> str:
    """What two ways of writing a sentence share: its letters and digits."""
    return "".join(filter(str.isalnum, line.lower()))
