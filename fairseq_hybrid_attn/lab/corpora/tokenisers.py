r"""Tokenisers by name, and their inverses.

=================  ==============================================================================
moses              Moses' tokenizer.perl with its escaping (``&`` is ``&amp;``), as of today
moses-2018         as it was until November 2018: the last word of a line may keep its dot
moses-aggressive   with ``-a``: splits at hyphens too, ``well-known`` is ``well @-@ known``
mecab              MeCab with IPAdic, for Japanese
kytea              KyTea, for Japanese, with a model file that the user supplies
jieba              jieba's algorithm and dictionary, for Chinese
none               text unchanged, except white space and control characters
given              text that is tokenised already, unchanged to the last byte; of white space: empty
=================  ==============================================================================

All kinds but given separate tokens by single spaces, and tokens contain no other white space.
fairseq splits at every character that Python takes for white space, subword-nmt at the space alone;
both must see the same tokens.

Chinese is segmented by rjieba, jieba's algorithm in Rust.  jieba itself is not maintained, writes
its dictionary to a shared temporary folder and prints when it loads; rjieba does neither.
"""

from __future__ import annotations

import importlib
import itertools
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from types import ModuleType

from ...errors import UserError
from ..files.text import rewrite
from .moses import ESCAPE, moses
from .words import base_language

#: The environment variable that names the KyTea model.
KYTEA_MODEL = "KYTEA_MODEL"

#: Of lines, whose words may be split for good. Moses does so in 1 to 10 % of the lines of German,
#: Russian or Turkish, and in 20 to 100 % of Panjabi, Catalan, Persian, Hindi or Thai.
_SPLIT = 0.15

#: Line to line: text to tokens, or tokens to text.
LineFunction = Callable[[str], str]

#: Characters that end a C string or control a terminal; no language uses them.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")


def tokeniser(kind: str, lang: str, model: Path | None = None) -> LineFunction:
    """Return the function that tokenises a line of ``lang``; ``kind`` is one of :data:`KINDS`.

    Only kytea takes a model: the one given, or else that of the environment variable KYTEA_MODEL.
    """
    tokenise = _kind(kind, lang).make(base_language(lang), model)
    if kind in (*MOSES, "given"):
        return tokenise
    return lambda line: " ".join(tokenise(_CONTROL.sub(" ", line)).split())


def detokeniser(kind: str, lang: str) -> LineFunction:
    """Return the function that turns a line of tokens into text: the inverse, within limits.

    For Chinese and Japanese it removes the spaces, except between words of the Latin alphabet or
    numbers; the tokens do not show where the original had others.  MeCab and KyTea separate
    letters from digits, so that ``CO 2`` may have been either: it becomes ``CO2``.
    """
    return _kind(kind, lang).undo(base_language(lang))


def spelling(kind: str, lang: str) -> LineFunction:
    """Return the function that spells a single word as the tokeniser does.

    Moses escapes some characters.  White space in a word, at which others would split it,
    becomes ``_``; so the number of words stays the same.
    """
    spell = _kind(kind, lang).spell
    return lambda word: spell(_SPACE.sub("_", word))


def tokenise_file(
    source: Path, destination: Path, kind: str, lang: str, workers: int, lowercase: bool = False
) -> None:
    """Tokenise a file: line n of the result is line n of the source.

    Tokens are lower-cased at the end, since tokenisers look at case.
    """
    _cached_tokeniser.cache_clear()  # KYTEA_MODEL may be another by now
    # Here too, so that a mistake shows before work starts; forked workers inherit the result.
    _cached_tokeniser(kind, lang)
    rewrite(source, destination, _tokenise_line, (kind, lang, lowercase), workers)


def words_split_for_good(lines: Iterable[str], kind: str, lang: str) -> bool:
    """Whether a text has words whose tokens its detokeniser leaves apart: BLEU would be wrong.

    Moses splits at combining marks, as in Hindi, and at joiners.  Of most languages it leaves a few
    words apart, such as ``km / h``; so this looks at the share of lines in the first thousand.
    """
    tokenise, undo = tokeniser(kind, lang), detokeniser(kind, lang)
    first = list(itertools.islice(lines, 1000))
    split = sum(_words(undo(tokenise(line))) > _words(line) for line in first)
    return split > _SPLIT * len(first)


def _words(line: str) -> int:
    return sum(any(map(str.isalnum, word)) for word in line.split())


def kytea_model(model: Path | None = None) -> Path:
    """Return the KyTea model to use: ``model``, or the one named in the environment."""
    named = model or os.environ.get(KYTEA_MODEL)
    if not named:
        raise UserError(
            "KyTea needs a model, which its package does not include. Get data/model.bin of the "
            "source release at http://www.phontron.com/kytea/, or a model from "
            "http://www.phontron.com/kytea/model.html (unpacked), and name the file with "
            f"{KYTEA_MODEL}=/path/to/model; or use the tokenizer mecab"
        )
    path = Path(named)
    if not path.is_file():
        raise UserError(f"the KyTea model {path} is not a file; set {KYTEA_MODEL} to the model")
    return path


_cached_tokeniser = lru_cache(maxsize=4)(tokeniser)


def _tokenise_line(line: str, kind: str, lang: str, lowercase: bool) -> str:
    tokens = _cached_tokeniser(kind, lang)(line)
    return tokens.lower() if lowercase else tokens


# -- The kinds --------------------------------------------------------------------------------


def _make_moses(lang: str, model: Path | None, aggressive: bool, split_last: bool) -> LineFunction:
    lists = _import("sacremoses", "moses").corpus.NonbreakingPrefixes()
    return moses(lang, list(lists.words(lang)), aggressive, split_last)


def _undo_moses(lang: str) -> LineFunction:
    moses = _import("sacremoses", "moses").MosesDetokenizer(lang=lang)
    return lambda line: moses.detokenize(line.split())


def _make_mecab(lang: str, model: Path | None) -> LineFunction:
    mecab, ipadic = _import("MeCab", "mecab"), _import("ipadic", "mecab")
    try:
        return mecab.Tagger(f"{ipadic.MECAB_ARGS} -Owakati").parse
    except RuntimeError as error:
        raise UserError(f"MeCab cannot be started: {' '.join(str(error).split())}") from error


def _make_kytea(lang: str, model: Path | None) -> LineFunction:
    path = kytea_model(model)
    if re.search(r"\s", str(path)):  # KyTea takes its options as one string and splits it
        raise UserError(f"KyTea cannot read a model whose path has a space: {path}")
    module = _import("Mykytea", "kytea")
    try:
        # Words only, and no message on loading.
        kytea = module.Mykytea(f"-model {path} -notags -debug 0")
    except RuntimeError as error:
        raise UserError(f"{path} is not a model that KyTea can read: {error}") from error
    # Part by part: to KyTea a space is a character that words may contain.
    return lambda line: " ".join(word for part in line.split() for word in kytea.getWS(part))


def _make_jieba(lang: str, model: Path | None) -> LineFunction:
    cut = _import("rjieba", "jieba").cut
    return lambda line: " ".join(cut(line))


def _undo_japanese(lang: str) -> LineFunction:
    # A digit of full width is a token to IPAdic, other numbers and Latin words are one token:
    # these only follow each other where there was a space.
    return lambda line: _join(line, ("[A-Za-zÀ-ÖØ-öø-ɏＡ-Ｚａ-ｚ]", "[0-9]"))


def _join(line: str, classes: tuple[str, ...]) -> str:
    """Join tokens, with a space where characters of one class would meet."""
    tokens = line.split()
    text = tokens[:1]
    for left, right in itertools.pairwise(tokens):
        apart = any(re.match(kind, left[-1]) and re.match(kind, right[0]) for kind in classes)
        text += [" ", right] if apart else [right]
    return "".join(text)


@dataclass(frozen=True)
class Kind:
    make: Callable[[str, Path | None], LineFunction]  # from language and model: tokenises a line
    undo: Callable[[str], LineFunction]  # from the language: turns tokens into text
    packages: tuple[str, ...] = ()  # required packages, by their PyPI names
    languages: tuple[str, ...] = ()  # supported languages; all if empty
    spell: LineFunction = str  # spells a word as in tokens


def _moses_kind(aggressive: bool = False, split_last: bool = True) -> Kind:
    make = partial(_make_moses, aggressive=aggressive, split_last=split_last)
    packages = ("sacremoses", "regex")
    return Kind(make, _undo_moses, packages, spell=lambda word: word.translate(ESCAPE))


def _as_it_is(lang: str, model: Path | None = None) -> LineFunction:
    return lambda line: line if line.strip() else ""


MOSES = {
    "moses": _moses_kind(),
    "moses-2018": _moses_kind(split_last=False),
    "moses-aggressive": _moses_kind(aggressive=True),
}
KINDS = {
    **MOSES,
    "mecab": Kind(_make_mecab, _undo_japanese, ("mecab-python3", "ipadic"), ("ja",)),
    "kytea": Kind(_make_kytea, _undo_japanese, ("kytea",), ("ja",)),
    "jieba": Kind(
        _make_jieba, lambda lang: partial(_join, classes=("[A-Za-z0-9]",)), ("rjieba",), ("zh",)
    ),
    "none": Kind(_as_it_is, _as_it_is),
    "given": Kind(_as_it_is, _as_it_is),
}


def _kind(name: str, lang: str) -> Kind:
    if name not in KINDS:
        raise UserError(f"there is no tokenizer {name!r}; choose one of {', '.join(KINDS)}")
    kind = KINDS[name]
    if kind.languages and base_language(lang) not in kind.languages:
        raise UserError(
            f"the tokenizer {name} is for {' and '.join(kind.languages)}, not for {lang}"
        )
    return kind


def _import(module: str, kind: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(
            f"this tokenizer needs a package that is not installed ({error}): "
            f"pip install {' '.join(KINDS[kind].packages)}"
        ) from error
