"""From subwords to words: which pieces are a word, and the attention between words.

Attention between words is **summed** over the pieces of the source word and **averaged** over the
pieces of the target word.  So it still adds up to 1 over the source words and the end symbol.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence

import numpy as np

from ...errors import UserError

#: How words are split: not at all, with ``@@`` after each piece but a word's last, with U+2581
#: before a word's first piece.
SUBWORDS = ("none", "subword-nmt", "sentencepiece")

#: Languages whose words mteval-v13a does not separate; some for which sacrebleu has no words.
LETTERS_ALONE = ("th", "lo", "km", "my", "bo", "dz")
_WITHOUT_SPACES = ("zh", "ja", "ko", *LETTERS_ALONE)
#: Their other codes, of ISO 639-2 and 639-3, and what is taken for one.
_ALSO = {
    **dict.fromkeys(("zho", "chi", "cmn", "yue", "cn"), "zh"),
    **{"jpn": "ja", "jp": "ja", "kor": "ko"},
    **{"tha": "th", "lao": "lo", "khm": "km", "mya": "my", "bur": "my"},
    **{"bod": "bo", "tib": "bo", "dzo": "dz"},
}

MOSES_WORDS = "words of Moses"

_CONTINUED = "@@"
_BEGINS = "\u2581"

Words = list[list[int]]  # for each word, the places of its pieces in the sentence


def base_language(code: str) -> str:
    """Return ``zh`` of ``zh_CN``, ``zh-Hant``, ``ZH`` and ``zho``."""
    base = re.split("[-_]", code.lower())[0]
    return _ALSO.get(base, base)


def has_spaces(language: str) -> bool:
    """Return whether a language, by its code, is written with spaces between words."""
    return base_language(language) not in _WITHOUT_SPACES


def words_of(pieces: Sequence[str], kind: str) -> Words:
    """Return the pieces of each word, counted from 0; together they are all pieces, in order.

    A mark without text (a lone ``@@`` or U+2581) belongs to the word that follows it, at the end
    to the one before it.  Only a sentence without any text has pieces but no words.  ``pieces``
    are a sentence without the end symbol, ``kind`` is one of :data:`SUBWORDS`.
    """
    words: Words = []
    fresh = True  # the next piece begins a word
    for index, piece in enumerate(pieces):
        if kind == "sentencepiece":
            fresh = fresh or piece.startswith(_BEGINS)
        if fresh and not (words and not text_of(words[-1], pieces, kind)):
            words.append([])
        words[-1].append(index)
        fresh = kind == "none" or (kind == "subword-nmt" and not piece.endswith(_CONTINUED))
    if words and not text_of(words[-1], pieces, kind):
        rest = words.pop()
        if words:
            words[-1] += rest
    return words


def kinds_of(sentences: Iterable[Sequence[str]]) -> list[str]:
    """The kinds of subwords whose marks some of the pieces of sentences have."""
    continued = begins = False
    for pieces in sentences:
        continued = continued or any(piece.endswith(_CONTINUED) for piece in pieces)
        begins = begins or any(piece.startswith(_BEGINS) for piece in pieces)
        if continued and begins:
            break
    return ["subword-nmt"] * continued + ["sentencepiece"] * begins


def looks_of(lines: Sequence[str]) -> list[str]:
    """What lines look like that should be text: subwords, or words of Moses."""
    looks = [f"subwords of {kind}" for kind in kinds_of(map(split_words, lines))]
    marked = any(mark in line for line in lines for mark in ("&apos;", "&quot;", " @-@ "))
    return looks + [MOSES_WORDS] * marked


def check_kind(sentences: Iterable[Sequence[str]], kind: str) -> None:
    """Refuse sentences that have only the marks of another kind: words would be wrong.

    With the kind ``none`` there is only a warning, since pieces may be meant as words.
    """
    seen = kinds_of(sentences)
    if kind == "none" and seen:
        print(
            f"warning: --subwords none, but the text looks like {' and '.join(seen)}",
            file=sys.stderr,
        )
    elif seen and kind not in seen:
        others = " and ".join(seen)
        raise UserError(f"--subwords {kind}: the text has no such marks, but those of {others}")


def text_of(word: Sequence[int], pieces: Sequence[str], kind: str) -> str:
    text = [pieces[index] for index in word]
    if kind == "subword-nmt":
        text = [piece.removesuffix(_CONTINUED) for piece in text]
    joined = "".join(text)
    return joined.replace(_BEGINS, "") if kind == "sentencepiece" else joined


def join_subwords(tokens: str, kind: str) -> str:
    """Join subwords (one of :data:`SUBWORDS`) into words as fairseq's ``--post-process`` does."""
    if kind == "sentencepiece":
        return tokens.replace(" ", "").replace(_BEGINS, " ").strip()
    return f"{tokens} ".replace(f"{_CONTINUED} ", "").rstrip() if kind == "subword-nmt" else tokens


def word_attention(attention: np.ndarray, source: Words, target: Words) -> np.ndarray:
    """Return the attention between words: summed over source pieces, averaged over target pieces.

    ``attention`` is ``[..., t, s]``: row t belongs to target piece t, and pieces of no word (the
    end symbol) are left out.  The result is ``[..., len(target), len(source)]``.
    """
    rows = _membership(target, attention.shape[-2], attention.dtype)
    columns = _membership(source, attention.shape[-1], attention.dtype)
    sizes = np.array([len(word) for word in target], attention.dtype).reshape(-1, 1)
    return (rows / sizes) @ attention @ columns.T


def _membership(words: Words, pieces: int, dtype) -> np.ndarray:
    """Return 1 where a piece belongs to a word, ``[words, pieces]``."""
    belongs = np.zeros((len(words), pieces), dtype)
    for number, word in enumerate(words):
        belongs[number, word] = 1
    return belongs


def piece_links(
    links: frozenset[tuple[int, int]], source: Words, target: Words
) -> frozenset[tuple[int, int]]:
    """Return links between all pieces of linked words: attention to any of them is right."""
    return frozenset(
        (i, j)
        for source_word, target_word in links
        for i in source[source_word]
        for j in target[target_word]
    )


def split_words(line: str) -> list[str]:
    """Return the words of a line, split at the space alone: U+3000 is a word of Japanese texts.

    A line of white space alone, of any kind, is empty.
    """
    return [word for word in line.split(" ") if word] if line.strip() else []
