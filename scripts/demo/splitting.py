"""Split pairs into training, validation and test text that share no sentence."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from cleaning import CleanPair, words

#: Another value draws another validation and test set.
SALT = "fairseq_hybrid_attn demo 1"
#: A held-out string has at least this many words; a shorter sentence may be in several parts.
MIN_WORDS = 3
MAX_HELD_OUT_WORDS = 40
SENTENCE_END = re.compile(r"(?<=[.!?:;…])\s+")


@dataclass(frozen=True)
class Split:
    """The three parts; see :func:`split`."""

    train: list[CleanPair]
    valid: list[CleanPair]
    test: list[CleanPair]


def split(pairs: Iterable[CleanPair], valid_size: int, test_size: int) -> Split:
    """Draw test and validation sets; training gets the pairs that share no sentence with them.

    Whole strings and the sentences inside longer strings are compared, in both languages,
    ignoring case, punctuation and numbers.  The draw depends on the English text alone, not on
    the order of the pairs, the process or the machine.

    Raises:
        ValueError: if there are too few pairs to hold out.
    """
    pairs = deduplicate(pairs)
    candidates = sorted(filter(can_be_held_out, pairs), key=lambda pair: draw_key(pair.english))

    test, test_sentences = _draw(candidates, test_size, taken=set())
    valid, valid_sentences = _draw(candidates, valid_size, taken=test_sentences)
    if len(test) < test_size or len(valid) < valid_size:
        raise ValueError(
            f"{len(candidates)} pairs can be held out, too few for {valid_size} + {test_size}"
        )
    held_out = test_sentences | valid_sentences
    train = [pair for pair in pairs if held_out.isdisjoint(sentences(pair))]
    return Split(train=train, valid=valid, test=test)


def _draw(
    candidates: list[CleanPair], size: int, taken: set[str]
) -> tuple[list[CleanPair], set[str]]:
    """Return the first ``size`` candidates without a sentence of ``taken`` or of one another."""
    drawn: list[CleanPair] = []
    seen: set[str] = set()
    for pair in candidates:
        if len(drawn) == size:
            break
        own = sentences(pair)
        if own.isdisjoint(taken) and own.isdisjoint(seen):
            drawn.append(pair)
            seen |= own
    return drawn, seen


def deduplicate(pairs: Iterable[CleanPair]) -> list[CleanPair]:
    """Return each pair of texts once, sorted; of equal ones the untouched."""
    unique: dict[tuple[str, str], CleanPair] = {}
    for pair in pairs:
        known = unique.get((pair.english, pair.german))
        if known is None or pair.untouched > known.untouched:
            unique[pair.english, pair.german] = pair
    return [unique[texts] for texts in sorted(unique)]


def can_be_held_out(pair: CleanPair) -> bool:
    """Whether a pair can be a test sentence: untouched, and a few words long."""
    english, german = len(words(pair.english)), len(words(pair.german))
    return (
        pair.untouched
        and english >= MIN_WORDS
        and german >= MIN_WORDS - 1  # German writes compounds as one word
        and max(english, german) <= MAX_HELD_OUT_WORDS
    )


def sentences(pair: CleanPair) -> set[str]:
    """Return what must be in one part only: the normalised strings and sentences."""
    return {
        f"{language} {sentence}"
        for language, text in (("de", pair.german), ("en", pair.english))
        for sentence in _normalised_sentences(text)
    }


def _normalised_sentences(text: str) -> set[str]:
    whole = normalise(text)
    parts = (normalise(part) for part in SENTENCE_END.split(text))
    return {whole, *(part for part in parts if part.count(" ") + 1 >= MIN_WORDS)}


def normalise(text: str) -> str:
    """Return the words in lower case."""
    return " ".join(words(text)) or text


def draw_key(english: str) -> str:
    """Return a pseudo-random number that is the same everywhere, unlike Python's hash()."""
    return hashlib.sha256(f"{SALT}\n{normalise(english)}\n{english}".encode()).hexdigest()
