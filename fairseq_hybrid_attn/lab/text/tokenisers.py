r"""Tokenisers by name, and their inverses.

=================  ==============================================================================
moses              Moses' tokenizer.perl with its escaping (``&`` is ``&amp;``), by sacremoses
moses-aggressive   with ``-a``: splits at hyphens too, ``well-known`` is ``well @-@ known``
mecab              MeCab with IPAdic, for Japanese
kytea              KyTea, for Japanese, with a model file that the user supplies
jieba              jieba's algorithm and dictionary, for Chinese
none               text as it is but for white space and control characters
=================  ==============================================================================

Whatever the kind, tokens are separated by single spaces and contain no other white space:
fairseq splits at every character that Python takes for white space, subword-nmt at the space
alone, and they must see the same tokens.

Chinese is segmented by rjieba, jieba's algorithm in Rust.  jieba itself had its last release in
January 2020, comes as source alone, writes its dictionary to a shared temporary folder
and prints when it loads; rjieba is maintained, has wheels for every Python 3, carries the
dictionary within and does neither.
"""

from __future__ import annotations

import importlib
import itertools
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

from ...errors import UserError
from ..engine.processes import in_order
from ..files.text import decode, reading
from ..files.writing import atomic_write

#: Where the KyTea model is looked for if none is named.
KYTEA_MODEL = "KYTEA_MODEL"

#: Bytes that a worker tokenises at a time.
BLOCK = 1 << 20

#: Line to line: text to tokens, or tokens to text.
LineFunction = Callable[[str], str]


def tokeniser(kind: str, lang: str, model: Path | None = None) -> LineFunction:
    """The function that tokenises a line of ``lang``.

    Args:
        kind: one of :data:`KINDS`.
        lang: language code, e.g. de.
        model: for kytea, its model file; else that of the environment variable KYTEA_MODEL.

    Raises:
        UserError: if there is no such kind, it is not for this language, or it needs a package
            or a model that is not there.
    """
    tokenise = _kind(kind, lang).make(lang, model)
    return lambda line: " ".join(tokenise(_CONTROL.sub(" ", line)).split())


def detokeniser(kind: str, lang: str) -> LineFunction:
    """The function that makes text of a line of tokens: undoes :func:`tokeniser`, within limits.

    Of Chinese and Japanese it removes the spaces but those that stand between words of the
    Latin alphabet or numbers; the tokens do not tell where the original had others.  MeCab and
    KyTea separate letters from digits, so that ``CO 2`` may have been either: it becomes ``CO2``.

    Raises:
        UserError: if there is no such kind, it is not for this language, or sacremoses is
            missing.
    """
    return _kind(kind, lang).undo(lang)


def spelling(kind: str, lang: str) -> LineFunction:
    """The function that spells a word, which someone else has told apart, as the tokeniser does.

    Moses escapes some characters.  White space in a word, at which others would split it,
    becomes ``_``; so words stay as many as they are.

    Raises:
        UserError: as :func:`tokeniser`.
    """
    spell = _kind(kind, lang).spell(lang)
    return lambda word: spell(_SPACE.sub("_", word))


def tokenise_file(
    source: Path,
    destination: Path,
    kind: str,
    lang: str,
    workers: int,
    lowercase: bool = False,
    model: Path | None = None,
) -> None:
    r"""Tokenise a file line by line; line n of the result is line n of the source.

    Lines end at ``\n`` alone.  Memory is bounded whatever the size of the file, and the
    result is the same for any number of workers.

    Args:
        source: text, UTF-8.
        destination: the tokens; appears when complete.
        kind: see :func:`tokeniser`, as for ``lang`` and ``model``.
        workers: number of processes.
        lowercase: lower-case the tokens; afterwards, since tokenisers look at case.

    Raises:
        UserError: as :func:`tokeniser`, and if the source cannot be read, is not UTF-8 (with
            the line), or the destination cannot be written.
    """
    if kind == "kytea":
        model = kytea_model(model)
    # Here too, so that a mistake shows before work starts; forked workers inherit it.
    _cached_tokeniser(kind, lang, model)
    with reading(source) as file, atomic_write(destination) as output:
        tasks = (
            (source, first, lines, kind, lang, lowercase, model) for first, lines in _blocks(file)
        )
        output.writelines(in_order(_tokenise_block, tasks, workers))


def packages(kind: str) -> tuple[str, ...]:
    """The packages that ``kind`` is made of, by their names in the package index."""
    return KINDS[kind].packages


def kytea_model(model: Path | None = None) -> Path:
    """The KyTea model to use: ``model``, or the one that the environment names.

    Raises:
        UserError: if none is named or the file is not there, with the way to one.
    """
    named = model or os.environ.get(KYTEA_MODEL)
    if not named:
        raise UserError(
            "KyTea needs a model, which its package does not bring. Get data/model.bin of the "
            "source release at http://www.phontron.com/kytea/, or a model from "
            "http://www.phontron.com/kytea/model.html (unpacked), and name the file with "
            f"{KYTEA_MODEL}=/path/to/model; or use the tokenizer mecab"
        )
    path = Path(named)
    if not path.is_file():
        raise UserError(f"the KyTea model {path} is not a file; set {KYTEA_MODEL} to the model")
    return path


# -- The kinds --------------------------------------------------------------------------------


def _make_moses(lang: str, model: Path | None, aggressive: bool = False) -> LineFunction:
    moses = _import("sacremoses", KINDS["moses"]).MosesTokenizer(lang=lang)

    def tokenise(line: str) -> str:
        return moses.tokenize(line, aggressive_dash_splits=aggressive, return_str=True)

    return tokenise


def _make_moses_aggressive(lang: str, model: Path | None) -> LineFunction:
    return _make_moses(lang, model, aggressive=True)


def _spell_moses(lang: str) -> LineFunction:
    return _import("sacremoses", KINDS["moses"]).MosesTokenizer(lang=lang).escape_xml


def _make_mecab(lang: str, model: Path | None) -> LineFunction:
    mecab, ipadic = _import("MeCab", KINDS["mecab"]), _import("ipadic", KINDS["mecab"])
    try:
        return mecab.Tagger(f"{ipadic.MECAB_ARGS} -Owakati").parse
    except RuntimeError as error:
        raise UserError(f"MeCab cannot be started: {' '.join(str(error).split())}") from error


def _make_kytea(lang: str, model: Path | None) -> LineFunction:
    path = kytea_model(model)
    if re.search(r"\s", str(path)):  # KyTea takes its options as one string and splits it
        raise UserError(f"KyTea cannot read a model whose path has a space: {path}")
    module = _import("Mykytea", KINDS["kytea"])
    try:
        # Words alone, and no report of the loading.
        kytea = module.Mykytea(f"-model {path} -notags -debug 0")
    except RuntimeError as error:
        raise UserError(f"{path} is not a model that KyTea can read: {error}") from error

    def tokenise(line: str) -> str:
        # Part by part: to KyTea a space is a character that words may contain.
        return " ".join(word for part in line.split() for word in kytea.getWS(part))

    return tokenise


def _make_jieba(lang: str, model: Path | None) -> LineFunction:
    cut = _import("rjieba", KINDS["jieba"]).cut
    return lambda line: " ".join(cut(line))


def _make_none(lang: str, model: Path | None) -> LineFunction:
    return lambda line: line


def _undo_moses(lang: str) -> LineFunction:
    moses = _import("sacremoses", KINDS["moses"]).MosesDetokenizer(lang=lang)
    return lambda line: moses.detokenize(line.split())


def _undo_mecab(lang: str) -> LineFunction:
    # A digit of full width is a token to IPAdic, other numbers and Latin words are one token:
    # these only follow each other where there was a space.
    return lambda line: _join(line, ("[A-Za-zÀ-ÖØ-öø-ɏＡ-Ｚａ-ｚ]", "[0-9]"))


def _undo_jieba(lang: str) -> LineFunction:
    return lambda line: _join(line, ("[A-Za-z0-9]",))


def _join(line: str, classes: tuple[str, ...]) -> str:
    """Join tokens, with a space where characters of one class would meet."""
    tokens = line.split()
    text = tokens[:1]
    for left, right in itertools.pairwise(tokens):
        apart = any(re.match(one, left[-1]) and re.match(one, right[0]) for one in classes)
        text += [" ", right] if apart else [right]
    return "".join(text)


def _undo_none(lang: str) -> LineFunction:
    return lambda line: line


@dataclass(frozen=True)
class Kind:
    """A way of tokenising.

    Args:
        make: of language and model, the function that tokenises a line.
        undo: of language, the function that makes text of tokens.
        packages: what it needs, by the names in the package index.
        languages: those that it is for; all if empty.
        spell: of language, the function that spells a word as its tokens are spelt.
    """

    make: Callable[[str, Path | None], LineFunction]
    undo: Callable[[str], LineFunction]
    packages: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    spell: Callable[[str], LineFunction] = lambda lang: str


KINDS = {
    "moses": Kind(_make_moses, _undo_moses, ("sacremoses",), spell=_spell_moses),
    "moses-aggressive": Kind(
        _make_moses_aggressive, _undo_moses, ("sacremoses",), spell=_spell_moses
    ),
    "mecab": Kind(_make_mecab, _undo_mecab, ("mecab-python3", "ipadic"), ("ja",)),
    "kytea": Kind(_make_kytea, _undo_mecab, ("kytea",), ("ja",)),
    "jieba": Kind(_make_jieba, _undo_jieba, ("rjieba",), ("zh",)),
    "none": Kind(_make_none, _undo_none),
}

#: Characters that end a string in C, or do things to a terminal; none is a sign of a language.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")


def _kind(name: str, lang: str) -> Kind:
    if name not in KINDS:
        raise UserError(f"there is no tokenizer {name!r}; choose one of {', '.join(KINDS)}")
    kind = KINDS[name]
    if kind.languages and re.split("[-_]", lang.lower())[0] not in kind.languages:
        raise UserError(
            f"the tokenizer {name} is for {' and '.join(kind.languages)}, not for {lang}"
        )
    return kind


def _import(module: str, kind: Kind) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(
            f"this tokenizer needs a package that is not installed ({error}): "
            f"pip install {' '.join(kind.packages)}"
        ) from error


# -- Files ------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _cached_tokeniser(kind: str, lang: str, model: Path | None) -> LineFunction:
    return tokeniser(kind, lang, model)


def _blocks(file: BinaryIO) -> Iterator[tuple[int, list[bytes]]]:
    r"""Lines, about :data:`BLOCK` bytes of them at a time, with the number of the first."""
    first = 1
    while lines := file.readlines(BLOCK):  # a binary file has lines that end at \n alone
        yield first, lines
        first += len(lines)


def _tokenise_block(task: tuple) -> bytes:
    source, first, lines, kind, lang, lowercase, model = task
    tokenise = _cached_tokeniser(kind, lang, model)
    tokens = [tokenise(decode(line, source, number)) for number, line in enumerate(lines, first)]
    text = "".join(f"{line}\n" for line in tokens)
    return (text.lower() if lowercase else text).encode()
