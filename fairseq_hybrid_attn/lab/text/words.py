"""From subwords to words: which pieces are a word, and the attention between words.

A model attends from pieces to pieces; people align words.  The attention that a target word pays
to a source word is the **sum** over the pieces of the source word (the shares of one distribution
add up), **averaged** over the pieces of the target word (each has a distribution of its own).  So
the attention of a target word still adds up to 1 over the source words and the end symbol.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import numpy as np

from ...errors import UserError

#: How words are split: not at all, with ``@@`` after a piece that goes on, with U+2581 before a
#: piece that begins a word.
SUBWORDS = ("none", "subword-nmt", "sentencepiece")

#: Languages written without spaces, which neither Moses nor mteval-v13a splits into words.
WITHOUT_SPACES = ("zh", "ja", "ko")

_GOES_ON = "@@"
_BEGINS = "\u2581"

Words = list[list[int]]  # of each word, its pieces' places in the sentence


def words_of(pieces: Sequence[str], kind: str) -> Words:
    """Which pieces are a word.

    Args:
        pieces: a sentence, without the end symbol.
        kind: one of ``SUBWORDS``.

    Returns:
        of each word its pieces, counted from 0; together all pieces, in order.  A mark without
        text (a lone ``@@`` or U+2581) belongs to the word that follows it, at the end to the one
        before it.  Only a sentence without any text has pieces but no words.
    """
    words: Words = []
    fresh = True  # the next piece begins a word
    for place, piece in enumerate(pieces):
        if kind == "sentencepiece":
            fresh = fresh or piece.startswith(_BEGINS)
        if fresh and not (words and not text_of(words[-1], pieces, kind)):
            words.append([])
        words[-1].append(place)
        fresh = kind == "none" or (kind == "subword-nmt" and not piece.endswith(_GOES_ON))
    if words and not text_of(words[-1], pieces, kind):
        rest = words.pop()
        if words:
            words[-1] += rest
    return words


def check_kind(sentences: Iterable[Sequence[str]], kind: str) -> None:
    """See to it that text is split as it is said to be: words would be wrong without a word.

    Args:
        sentences: their pieces.
        kind: one of ``SUBWORDS``.

    Raises:
        UserError: if the text has the marks of another kind, and none of this.  Whose kind is
            ``none`` may want subwords for words, and is but warned.
    """
    goes_on = begins = False
    for pieces in sentences:
        goes_on = goes_on or any(piece.endswith(_GOES_ON) for piece in pieces)
        begins = begins or any(piece.startswith(_BEGINS) for piece in pieces)
        if goes_on and begins:
            break
    seen = {"subword-nmt": goes_on, "sentencepiece": begins}
    others = " and ".join(other for other, found in seen.items() if found)
    if kind == "none" and others:
        print(f"warning: --subwords none, but the text looks like {others}", file=sys.stderr)
    elif others and not seen.get(kind):
        raise UserError(f"--subwords {kind}: the text has no mark of that, but those of {others}")


def text_of(word: Sequence[int], pieces: Sequence[str], kind: str) -> str:
    """A word as text, its pieces joined."""
    return "".join(bare(pieces[place], kind) for place in word)


def bare(piece: str, kind: str) -> str:
    """A piece without its mark."""
    if kind == "subword-nmt":
        return piece.removesuffix(_GOES_ON)
    return piece.replace(_BEGINS, "") if kind == "sentencepiece" else piece


def word_attention(attention: np.ndarray, source: Words, target: Words) -> np.ndarray:
    """The attention between words: summed over source pieces, averaged over target pieces.

    Args:
        attention: of target pieces to source pieces, ``[..., t, s]``; row t is the attention that
            belongs to target piece t, and pieces of no word (the end symbol) are left out.
        source: of each source word its pieces.
        target: of each target word its pieces.

    Returns:
        of target words to source words, ``[..., len(target), len(source)]``.
    """
    rows = _membership(target, attention.shape[-2], attention.dtype)
    columns = _membership(source, attention.shape[-1], attention.dtype)
    sizes = np.array([len(word) for word in target], attention.dtype).reshape(-1, 1)
    return (rows / sizes) @ attention @ columns.T


def _membership(words: Words, pieces: int, dtype) -> np.ndarray:
    """1 where a piece is of a word, ``[words, pieces]``."""
    belongs = np.zeros((len(words), pieces), dtype)
    for number, word in enumerate(words):
        belongs[number, word] = 1
    return belongs


def piece_links(
    links: frozenset[tuple[int, int]], source: Words, target: Words
) -> frozenset[tuple[int, int]]:
    """Links between pieces for links between words: every piece of one with every of the other.

    It is the counterpart of :func:`word_attention`: attention that falls on any pieces of the
    right source words is right.
    """
    return frozenset(
        (i, j)
        for source_word, target_word in links
        for i in source[source_word]
        for j in target[target_word]
    )


def split_words(line: str) -> list[str]:
    """The words of a line, split at the space alone.

    ``str.split`` would split at further characters, such as U+3000, that are words of some
    Japanese text, and all later words would have other numbers than in a gold file.
    """
    return [word for word in line.split(" ") if word]
