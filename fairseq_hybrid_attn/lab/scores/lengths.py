"""Groups of sentences by their words, and counts of words."""

from __future__ import annotations

from collections.abc import Iterable

from ..corpora.words import kinds_of, split_words
from . import Group
from .generate_output import warn

#: The upper bounds of MMA's groups; the last group has none.
BOUNDS = (10, 20, 30, 40, 50)
#: Average length of a word, in characters, above which text seems to have no spaces.
_LONG = 15


def groups_of(bounds: Iterable[int] = BOUNDS) -> list[Group]:
    """Groups with these rising upper bounds, and one for all longer sentences."""
    edges = [0, *bounds]
    return [Group(low, high) for low, high in zip(edges, [*edges[1:], None], strict=True)]


def word_counts(lines: Iterable[str]) -> list[int]:
    return [len(line.split()) for line in lines]


def count_words(lines: list[str], where: str) -> list[int]:
    """Count the words of each line; warn of subwords, and if there seem to be no spaces."""
    counts = word_counts(lines)
    for kind in kinds_of(map(split_words, lines)):
        warn(f"{where} looks like subwords of {kind}, which are counted as words")
    characters = sum(len("".join(line.split())) for line in lines)
    if characters > _LONG * sum(counts):
        warn(
            f"words of {where} have {characters / max(1, sum(counts)):.0f} characters on average; "
            "are there spaces between words?"
        )
    return counts
