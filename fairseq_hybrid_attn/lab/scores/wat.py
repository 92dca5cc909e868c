"""Words as the Workshop on Asian Translation's automatic evaluation counts them.

WAT (http://lotus.kuee.kyoto-u.ac.jp/WAT/) scores by multi-bleu.perl, after pipelines of small
scripts on its pages; overview papers of WAT name the tools: for Japanese Juman 7.0, KyTea 0.4.6
with its full SVM model, and MeCab 0.996 with IPA dictionary 2.7.0; for English tokenizer.perl.

Japanese, as participants quote the pipeline for KyTea: drop a bracketed number at the end of a
line; remove spaces, except beside Latin letters; replace ASCII characters by their full-width
forms; segment; join digits again, with a point between them, and Latin letters.  **[reading]** The
pipeline for MeCab, which segments here, ends in the same way: it must, since IPAdic splits
full-width numbers into digits.

English: replace full-width characters by ASCII, then apply tokenizer.perl.  **[reading]** That
script's table (z2h) is the inverse of the Japanese one's (h2z).  It also has the wide space, and
the full-width forms that Unicode has besides the table's own quotes, minus and tilde.
"""

from __future__ import annotations

import re

from ..corpora.tokenisers import LineFunction

_ASCII = "".join(map(chr, range(0x21, 0x7F)))
#: Quotes, minus and wave dash of the table are not the "fullwidth forms" of Unicode.
_FULL_WIDTH = "".join(chr(ord(character) + 0xFEE0) for character in _ASCII).translate(
    str.maketrans("\uff02\uff07\uff0d\uff5e", "\u201d\u2019\u2212\u301c")
)
_TO_FULL_WIDTH = str.maketrans(_ASCII, _FULL_WIDTH)
_TO_ASCII = {
    **str.maketrans(_FULL_WIDTH, _ASCII),
    **str.maketrans("\u3000\uff02\uff07\uff0d\uff5e", " \"'-~"),
}

_LATIN = "A-Za-zＡ-Ｚａ-ｚ"
_NOTE = re.compile(r"(.)［[０-９．]+］$")
_SPACE = re.compile(f"(?<![{_LATIN}]) (?![{_LATIN}])")


def japanese(segment: LineFunction) -> LineFunction:
    return lambda line: _rejoin(segment(normalise_japanese(line)))


def english(tokenise: LineFunction) -> LineFunction:
    return lambda line: tokenise(line.translate(_TO_ASCII))


def normalise_japanese(line: str) -> str:
    line = _NOTE.sub(r"\1", line)
    line = _SPACE.sub("", re.sub(" +", " ", line.replace("\u3000", " ")))
    return line.translate(_TO_FULL_WIDTH)


def _rejoin(words: str) -> str:
    """Join the numbers and the Latin words that the segmenter split."""
    words = re.sub(" +", " ", words).strip(" ")
    words = re.sub("(?<=[０-９]) (?=[０-９])", "", words)
    # No look-around: of "1 . 2 . 3" the procedure joins the first two only.
    words = re.sub("([０-９]) (．) ([０-９])", r"\1\2\3", words)
    words = re.sub("(?<=[Ａ-Ｚ]) (?=[Ａ-Ｚａ-ｚ])", "", words)
    return re.sub("(?<=[ａ-ｚ]) (?=[ａ-ｚ])", "", words)
