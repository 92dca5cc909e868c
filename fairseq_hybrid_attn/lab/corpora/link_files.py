"""Files of word alignments: Pharaoh format, and gold alignments with sure and possible links.

Pharaoh has a line for each sentence, with ``i-j`` for a link of source word i with target word j,
both counted from 0.  Gold files mark links in several ways, see :func:`read_gold`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import UserError
from ..files.text import pairs, read_lines
from ..files.writing import atomic_write
from .words import split_words

Links = frozenset[tuple[int, int]]
Lengths = Sequence[tuple[int, int]]  # the numbers of source and target words of each sentence

_PHARAOH = re.compile(r"(\d{1,9})-(\d{1,9})", re.ASCII)
_GOLD_LINK = re.compile(r"(\d{1,9})([-:pP?])(\d{1,9})(?:[-:/]?([SPsp])|[:/]([01]))?", re.ASCII)


def read_lengths(source: Path, target: Path) -> list[tuple[int, int]]:
    return [
        (len(split_words(one)), len(split_words(other))) for one, other in pairs(source, target)
    ]


def _lines(path: Path, sentences: int | None) -> list[str]:
    """The lines of a file of links, whose number is checked, if it is known."""
    lines = read_lines(path)
    if sentences not in (None, len(lines)):
        raise UserError(
            f"{path} has {len(lines):,} lines, but there are {sentences:,} sentences; give one "
            "for each, empty if it has no links"
        )
    return lines


def read_pharaoh(path: Path, lengths: Lengths | None = None) -> list[Links]:
    """Read alignments in Pharaoh format; links are checked against ``lengths`` of any tokens."""
    alignments = []
    lines = _lines(path, None if lengths is None else len(lengths))
    for number, line in enumerate(lines, start=1):
        links = set()
        for word in line.split():
            match = _PHARAOH.fullmatch(word)
            if not match:
                raise UserError(f"{path}, line {number}: {word!r} is not a link such as 0-2")
            link = int(match[1]), int(match[2])
            if lengths is not None and not _within(link, lengths[number - 1]):
                raise UserError(
                    f"{path}, line {number}: link {word} is beyond the sentence, which has "
                    f"{_of_lengths(lengths[number - 1])}, counted from 0"
                )
            links.add(link)
        alignments.append(frozenset(links))
    return alignments


def pharaoh(links: Iterable[tuple[int, int]]) -> str:
    return " ".join(f"{i}-{j}" for i, j in sorted(links))


def write_pharaoh(path: Path, alignments: Iterable[Iterable[tuple[int, int]]]) -> None:
    with atomic_write(path) as file:
        file.writelines(f"{pharaoh(links)}\n".encode() for links in alignments)


@dataclass(frozen=True)
class GoldSentence:
    """The links of a sentence in a gold alignment."""

    sure: Links = frozenset()  # S: an alignment must have them
    possible: Links = frozenset()  # P: it may have them; contains S


@dataclass
class Gold:
    sentences: list[GoldSentence]
    remarks: list[str] = field(default_factory=list)  # oddities of the file
    left_out: int = 0  # number of links beyond their sentence


def read_gold(
    path: Path,
    *,
    base: int,
    reverse: bool = False,
    lengths: Lengths | None = None,
    sentences: int | None = None,
) -> Gold:
    """Read a gold alignment.

    It has a line for each sentence and, for source word i and target word j,

    * ``i-j`` or ``i:j`` for a sure link,
    * ``ipj``, ``i?j``, ``i-jP``, ``i-j-P``, ``i-j:P``, ``i-j/P``, ``i-j/0``, ``i:j/0`` for a link
      that is only possible; likewise S and 1 for a sure one.

    Args:
        base: the number of the first word, 0 or 1, which no file states.
        reverse: the file has the target word before the source word.
        lengths: the numbers of words; links beyond them are left out, with a remark.
        sentences: their number, which is checked, unless there are lengths.
    """
    lines = _lines(path, sentences if lengths is None else len(lengths))
    gold = Gold(sentences=[])
    zero_seen = False
    for number, line in enumerate(lines, start=1):
        sure: set[tuple[int, int]] = set()
        possible: set[tuple[int, int]] = set()
        for text in line.split():
            words, is_sure = _gold_link(f"{path}, line {number}", text)
            if 0 in words and base == 1:
                raise UserError(
                    f"{path}, line {number}: link {text} has a word 0, but words count "
                    "from 1; should they count from 0 (--gold-base 0)?"
                )
            zero_seen |= 0 in words
            i, j = (word - base for word in (reversed(words) if reverse else words))
            if lengths is not None and not _within((i, j), lengths[number - 1]):
                gold.left_out += 1
                gold.remarks.append(
                    f"{path}, line {number}: sentence {number}, link {text} is beyond the "
                    f"sentence ({_of_lengths(lengths[number - 1])}, counted from {base}); left out"
                )
                continue
            possible.add((i, j))
            if is_sure:
                sure.add((i, j))
        gold.sentences.append(GoldSentence(frozenset(sure), frozenset(possible)))
    if base == 0 and not zero_seen and any(links.possible for links in gold.sentences):
        gold.remarks.append(f"{path}: no link has a word 0; do words count from 1 (--gold-base 1)?")
    return gold


def _gold_link(location: str, text: str) -> tuple[tuple[int, int], bool]:
    """The two words of a link as in the file, and whether it is sure."""
    match = _GOLD_LINK.fullmatch(text)
    if not match:
        raise UserError(
            f"{location}: {text!r} is not a link such as 1-2 (sure), 1p2 or 1-2P (possible)"
        )
    first, between, second, letter, digit = match.groups()
    mark = (letter or digit or "").upper()
    if between in "pP?" and mark in ("S", "1"):
        raise UserError(f"{location}: link {text} is sure and possible at once")
    return (int(first), int(second)), between in "-:" and mark not in ("P", "0")


def _within(link: tuple[int, int], lengths: tuple[int, int]) -> bool:
    return 0 <= link[0] < lengths[0] and 0 <= link[1] < lengths[1]


def _of_lengths(lengths: tuple[int, int]) -> str:
    return f"{lengths[0]} source and {lengths[1]} target tokens"
