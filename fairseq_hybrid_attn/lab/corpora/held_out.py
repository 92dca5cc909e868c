"""Which sentences stand in held-out text, in either language and however they are written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from unicodedata import category


def letters(line: str) -> str:
    """Return letters, their marks and digits of a sentence: the same for two ways of writing it."""
    return "".join(one for one in line.lower() if one.isalnum() or category(one)[0] == "M")


class HeldOut:
    """Pairs of sentences; a pair is ``in`` them if one of its sides is a side of one of them."""

    def __init__(self, pairs: Iterable[Sequence[str]]):
        self.sides: tuple[set[str], set[str]] = (set(), set())
        for pair in pairs:
            for side, line in zip(self.sides, pair, strict=True):
                side.add(_key(line))

    def __contains__(self, pair: Sequence[str]) -> bool:
        return any(_key(line) in side for side, line in zip(self.sides, pair, strict=True))


def _key(line: str) -> str:
    return letters(line) or line.strip()  # a full stop alone is not every other mark
