"""Clean message pairs into plain text."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

MAX_WORDS = 60
MAX_LENGTH_RATIO = 2.5
#: Below this many characters a ratio says little ("Yes" / "Jawohl").
SHORT = 20

PLACEHOLDER = re.compile(
    r"%\(\w+\)[-+0-9.]*[a-zA-Z]"  # %(name)s
    r"|%[0-9.]*[sdif]\b"  # %s
    r"|\$?\{[^{}]*\}"  # {name}, {0}, {}, ${name}, {$ name $}
    r"|\$[A-Za-z_]\w*"  # $name
)
NAMES_OF_PLACEHOLDERS = "XYZ"

BLOCK_TAG = re.compile(r"</?(?:p|br|li|ul|ol|div|h[1-6]|dl|dt|dd|td|tr)\b[^<>]*>", re.IGNORECASE)
TAG = re.compile(r"</?[a-zA-Z][^<>]*>|<!--.*?-->", re.DOTALL)
#: What can still be markup, code or an address after cleaning.
RESIDUE = re.compile(r"[<>{}|\\`]|%[(a-zA-Z]|\$\w|https?:|www\.|\w@\w|\b\w+\(\)|\w_\w|[=~^#*]")
WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
LETTER = re.compile(r"[A-Za-zÄÖÜäöüß]")
FOREIGN_LETTER = re.compile(r"[^\W\d_A-Za-z\u00c0-\u017f]")

#: Frequent words of one language that are not words of the other.
_GERMAN = """
    aber als auf aus bei bitte dass das dem den der des diese diesem diesen dieser dieses durch ein
    eine einem einen einer eines für haben ist kann können mit müssen nach nicht oder sein sich sie
    sind und um von vor werden wenn wie wird wurde wurden zu zum zur über
"""
_ENGLISH = """
    a and are as be been by can could from has have if is it its not of on or should that the their
    these they this to when which will with you your
"""
GERMAN_WORDS = frozenset(_GERMAN.split())
ENGLISH_WORDS = frozenset(_ENGLISH.split())


@dataclass(frozen=True)
class CleanPair:
    """A pair as plain text, one line each.

    ``untouched``: cleaning changed only white space, so the text can serve as a reference.
    """

    german: str
    english: str
    untouched: bool


def clean(german: str, english: str) -> list[CleanPair]:
    """Return the pairs worth keeping of a message pair, possibly none.

    Paragraphs become separate pairs where they correspond.
    """
    cleaned = (
        clean_paragraph(*pair)
        for pair in zip(*corresponding_paragraphs(german, english), strict=True)
    )
    return [pair for pair in cleaned if pair is not None]


def clean_paragraph(german: str, english: str) -> CleanPair | None:
    """Return a cleaned pair of paragraphs; None if it is not worth keeping."""
    raw = one_line(german), one_line(english)
    named = name_placeholders(plain_text(german), plain_text(english))
    if named is None or not is_translation(*named):
        return None
    return CleanPair(*named, untouched=named == raw)


def corresponding_paragraphs(german: str, english: str) -> tuple[list[str], list[str]]:
    """Split at empty lines, if that gives the same number of paragraphs."""
    parts = tuple(
        [part for part in re.split(r"\n\s*\n", text) if part.strip()] for text in (german, english)
    )
    return parts if len(parts[0]) == len(parts[1]) else ([german], [english])


def one_line(text: str) -> str:
    """Normalise white space: single spaces, none at the ends."""
    return " ".join(text.split())


def plain_text(text: str) -> str:
    """Remove tags, resolve character references, join to one line."""
    without_tags = TAG.sub("", BLOCK_TAG.sub(" ", text))
    return one_line(html.unescape(without_tags).replace("%%", "%").replace("\u00ad", ""))


def name_placeholders(german: str, english: str) -> tuple[str, str] | None:
    """Replace placeholders by X, Y, Z, the same on both sides.

    None if a placeholder is missing on one side, or there are more than three.
    """
    placeholders = PLACEHOLDER.findall(english)
    if sorted(PLACEHOLDER.findall(german)) != sorted(placeholders):
        return None
    distinct = dict.fromkeys(placeholders)
    if len(distinct) > len(NAMES_OF_PLACEHOLDERS):
        return None
    names = dict(zip(distinct, NAMES_OF_PLACEHOLDERS, strict=False))
    return tuple(PLACEHOLDER.sub(lambda match: names[match[0]], side) for side in (german, english))


def is_translation(german: str, english: str) -> bool:
    """Whether the two lines look like German text and its English translation."""
    lengths = sorted((len(german), len(english)))
    return (
        english.casefold() != german.casefold()
        and all(LETTER.search(side) for side in (german, english))
        and not any(RESIDUE.search(side) for side in (german, english))
        and not any(FOREIGN_LETTER.search(side) for side in (german, english))
        and max(len(german.split()), len(english.split())) <= MAX_WORDS
        and lengths[1] <= max(MAX_LENGTH_RATIO * lengths[0], SHORT)
        and _reads_as(german, GERMAN_WORDS, ENGLISH_WORDS)
        and _reads_as(english, ENGLISH_WORDS, GERMAN_WORDS)
    )


def words(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation and numbers."""
    return [word.casefold() for word in WORD.findall(text)]


def _reads_as(text: str, expected: frozenset[str], other: frozenset[str]) -> bool:
    found = words(text)
    return sum(word in other for word in found) <= sum(word in expected for word in found)
