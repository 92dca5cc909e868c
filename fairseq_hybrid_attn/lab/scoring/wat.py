"""Words as the Workshop on Asian Translation's automatic evaluation counts them.

WAT (http://lotus.kuee.kyoto-u.ac.jp/WAT/) scores by multi-bleu.perl, after a procedure per
language that its pages give as pipelines of small scripts; overview papers of WAT name
the tools: for Japanese Juman 7.0, KyTea 0.4.6 with its full SVM model, and MeCab 0.996 with IPA
dictionary 2.7.0; for English Moses' tokenizer.perl.

Japanese, as participants quote the pipeline for KyTea: a bracketed number at the end of a line
is dropped; spaces are removed but beside Latin letters; ASCII characters become their full-width
forms; the segmenter splits; digits are put together again, with a point between them, and so
are Latin letters.  Read here: that the pipeline for MeCab ends in the same way (it must, since
IPAdic splits full-width numbers into digits), and that a space that is left separates words
for KyTea too.

English: full-width characters become ASCII, then tokenizer.perl.  Read here: that script's table
(z2h) is the inverse of the Japanese one's (h2z), with the wide space, and with the
full-width forms that stand beside the table's own quotes, minus and tilde in Unicode.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

Words = Callable[[str], str]

_ASCII = "".join(map(chr, range(0x21, 0x7F)))
#: Four of the table's are not the "fullwidth forms" of Unicode: quotes, minus and wave dash.
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


def japanese(segment: Words) -> Words:
    """The procedure for Japanese around a segmenter."""
    return lambda line: _rejoin(segment(normalise_japanese(line)))


def english(tokenise: Words) -> Words:
    """The procedure for English around a tokeniser."""
    return lambda line: tokenise(line.translate(_TO_ASCII))


def kytea(model: Path) -> Words:
    """KyTea with a model.

    Raises:
        UserError: if KyTea is not installed or cannot read the model.
    """
    from ..text.tokenisers import tokeniser

    return tokeniser("kytea", "ja", model)


def fingerprint(model: Path) -> str:
    """A model in a signature: its name and the start of its SHA-256."""
    with open(model, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return f"{model.name}-{digest[:8]}"


def normalise_japanese(line: str) -> str:
    """Japanese as the segmenter gets it."""
    line = _NOTE.sub(r"\1", line)
    line = _SPACE.sub("", re.sub(" +", " ", line.replace("\u3000", " ")))
    return line.translate(_TO_FULL_WIDTH)


def _rejoin(words: str) -> str:
    """Put together what the segmenter split of numbers and of words in Latin letters."""
    words = re.sub(" +", " ", words).strip(" ")
    words = re.sub("(?<=[０-９]) (?=[０-９])", "", words)
    # Not by looking around: of "1 . 2 . 3" the procedure joins the first two only.
    words = re.sub("([０-９]) (．) ([０-９])", r"\1\2\3", words)
    words = re.sub("(?<=[Ａ-Ｚ]) (?=[Ａ-Ｚａ-ｚ])", "", words)
    return re.sub("(?<=[ａ-ｚ]) (?=[ａ-ｚ])", "", words)
