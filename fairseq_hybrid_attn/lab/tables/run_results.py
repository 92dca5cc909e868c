"""Results of runs, and the sentences behind their scores.

These are resampled for intervals and p-values: texts, or for alignment error rates the counts of
each sentence.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

import numpy as np

from ...errors import UserError
from ..alignment import error_rate
from ..alignment.error_rate import Counts
from ..config.paper_tables import Cell, Column
from ..corpora import read_manifest
from ..corpora.test_sets import read_test_sets, slices
from ..corpora.words import has_spaces
from ..files.text import read_lines, require_equal
from ..runs.plan import Plan
from ..runs.results import read_result
from ..runs.run_scores import read_rates, scores_of
from ..runs.status import Status, status
from ..runs.workspace import Run
from ..scores.lengths_measure import Group, cut_to, length_ratio, word_counts
from ..scores.metrics import METRICS, Metric, Score, build_metric
from ..scores.significance import (
    confidence_interval,
    drawn_counts,
    ends,
    over_draws,
    paired_bootstrap,
)

#: Half of the last digit that tables print; files that differ by less are of the same run.
VISIBLE = 0.005


@dataclass(frozen=True)
class ScoredTranslations:
    """The translations of a test set; ``score`` without the test set's name."""

    score: str
    translations: list[str]
    references: list[str]
    target: str
    lowercase: bool

    @property
    def metric(self) -> Metric:
        return build_metric(self.score, self.target, self.lowercase)

    def measure(self) -> Score:
        return self.metric.score(self.translations, self.references)

    @property
    def value(self) -> float:
        return self.measure().value

    def cut(self) -> ScoredTranslations:
        """Each translation cut to the number of words of its reference."""
        if not has_spaces(self.target):
            raise UserError(f"text in {self.target} has no spaces between words to cut it at")
        pairs = zip(self.translations, self.references, strict=True)
        return replace(self, translations=[cut_to(*pair) for pair in pairs])

    @property
    def text(self) -> tuple:
        """What the scores of two systems are of, if they may be compared."""
        return self.references, self.target, self.lowercase

    def __len__(self) -> int:
        return len(self.references)

    def over_draws(self) -> np.ndarray | None:
        """The score on resampled test sets, ``[draws]``, the same ones for all systems of a text.

        None if it is undefined on one of them, or there are fewer than two sentences.
        """
        return over_draws(self.score, self.translations, *self.text) if len(self) > 1 else None

    def interval(self, *others: ScoredTranslations) -> float | None:
        """Half the 95 % interval of the mean over this and other systems of the same sentences."""
        if not others:
            return confidence_interval(self.score, self.translations, *self.text).interval
        return self._interval_of_mean(*others)

    def _interval_of_mean(self, *others: ScoredTranslations) -> float | None:
        if any(other.references != self.references for other in others) or len(self) < 2:
            return None
        drawn = [one.over_draws() for one in (self, *others)]
        if any(one is None for one in drawn):
            return None
        low, high = ends(np.mean(drawn, axis=0))
        return (high - low) / 2

    def p_value(self, baseline: ScoredTranslations) -> float | None:
        """By the paired bootstrap; None if the baseline is of different sentences."""
        if self.references != baseline.references:
            return None
        systems = {"ours": self.translations}
        found = paired_bootstrap(self.score, baseline.translations, systems, *self.text)
        return found["ours"].p_value


@dataclass(frozen=True)
class ScoredLengths(ScoredTranslations):
    """The same for their length ratio, in the words that ``score`` counts."""

    def measure(self) -> Score:
        return length_ratio(self.metric, self.translations, self.references)

    def over_draws(self) -> np.ndarray | None:
        ours, theirs = drawn_counts(self.metric, self.translations, self.references)[:, :2].T
        return ours / theirs if theirs.all() else None

    def interval(self, *others: ScoredLengths) -> float | None:
        return self._interval_of_mean(*others)


@dataclass(frozen=True)
class ScoredAlignments:
    """Hand-aligned sentences; :class:`ScoredTranslations` says what the methods return."""

    counts: list[Counts]

    @property
    def text(self) -> list[tuple[int, int]]:
        """Sure and possible links of each sentence, which identify the text."""
        return [(one.sure, one.possible) for one in self.counts]

    @property
    def value(self) -> float | None:
        return sum(self.counts, start=Counts()).aer

    def __len__(self) -> int:
        return len(self.counts)

    def over_draws(self) -> np.ndarray | None:
        return error_rate.over_draws(self.counts)

    def interval(self, *others: ScoredAlignments) -> float | None:
        if any(other.text != self.text for other in others):
            return None
        return error_rate.interval([one.counts for one in (self, *others)])

    def p_value(self, baseline: ScoredAlignments) -> float | None:
        same = self.text == baseline.text
        return error_rate.p_value(self.counts, baseline.counts) if same else None


ScoredSentences = ScoredTranslations | ScoredAlignments


def scored_sentences(
    run: Run, score: str, column: Column | None = None, at: int | None = None
) -> ScoredSentences | None:
    """The sentences behind a score of a run; None if there is no result, or they are gone.

    They are also gone if the corpus has since been prepared from another text.  ``at``: of this
    point of its curve.
    """
    folder, reference = run.folder, run.prepared_corpus.reference()
    result = read_result(folder.result)
    if result is None:
        return None
    if at is not None:
        folder = folder.point(at)
        reference = run.prepared_corpus.reference(run.settings.checkpoints.curve_on)
    metric = score.partition(".")[0]
    if metric not in METRICS:
        rate = read_rates(folder.alignment_score).get(score)
        return ScoredAlignments(rate.sentences) if rate and rate.sentences else None
    manifest = read_manifest(run.corpus_folder)
    if manifest is None or manifest.digest != result["corpus"]["digest"]:
        return None
    if not (folder.hypotheses.exists() and reference.exists()):
        return None
    translations, references = read_lines(folder.hypotheses), read_lines(reference)
    require_equal({str(folder.hypotheses): len(translations), str(reference): len(references)})
    if at is None or run.settings.checkpoints.curve_on == "test":
        numbers = sentence_numbers(run, score, column and column.group, len(references))
        if numbers is None:
            return None
        translations, references = (
            [lines[number] for number in numbers] for lines in (translations, references)
        )
    found = ScoredTranslations(
        metric, translations, references, run.prepared_corpus.target, run.recipe.lowercase
    )
    return found.cut() if column and column.cut else found


def check_score(run: Run, score: str, stored: float, again: bool = True) -> None:
    """Refuse a score in a run's result if the files that it was made from contradict it.

    ``again``: translations that are still there are scored again, and alignments counted.
    """
    # It warns of texts in tokens, which some corpora are.
    logging.getLogger("sacrebleu").setLevel(logging.ERROR)
    beside = scores_of(run.folder)["scores"].get(score)
    found = {"the files that it was made from say": beside and beside["value"]}
    sentences = scored_sentences(run, score) if again else None
    if isinstance(sentences, ScoredAlignments) or (sentences and can_measure(sentences)):
        what = "alignments have" if isinstance(sentences, ScoredAlignments) else "translations have"
        found[f"its {what}"] = sentences.value
    for what, value in found.items():
        if value is not None and not abs(stored - value) < VISIBLE:
            raise UserError(
                f"{run.name}: its result says {stored:.2f}, but {what} {value:.2f}; if "
                f"{run.folder.result} was changed, delete it, and `reproduce` makes it again"
            )


def can_measure(sentences: ScoredTranslations) -> bool:
    """Whether what splits its text into words is installed, and there is any."""
    try:
        return sentences.metric is not None and bool(sentences.references)
    except UserError:
        return False


def sentence_numbers(run: Run, score: str, group: Group | None, count: int) -> list[int] | None:
    """The sentences that a score is of, out of ``count``; None if there is no such test set.

    A score ``bleu.NAME`` is of the test set NAME, a ``group`` of a range of source lengths.
    """
    _, dot, test_set = score.partition(".")
    path = run.prepared_corpus.test_sets
    part = slices(read_test_sets(path, count) if path else {}, count).get(f"{dot}{test_set}")
    if part is None:
        return None
    numbers = list(range(count))[part]
    if group is None:
        return numbers
    wanted = set(group.sentences(source_lengths(run)))
    return [number for number in numbers if number in wanted]


def source_lengths(run: Run) -> list[int]:
    """Words of each source sentence of a run's test text."""
    source, recipe = run.prepared_corpus.source, run.recipe
    if not has_spaces(source) and recipe.tokenizer[source] == "none":
        raise UserError(f"its corpus does not split {source} into words")
    return word_counts(read_lines(run.prepared_corpus.source_words))


@dataclass(frozen=True)
class RunResults:
    """The runs of a plan in its workspace."""

    plan: Plan
    #: Score translations again, where there are any, and refuse results that say something else.
    again: bool = field(default=True, kw_only=True)
    #: Judge claims about the plan's runs alone; the table's others are neither checked nor kept.
    of_plan: bool = field(default=False, kw_only=True)

    def score(self, cell: Cell, has: dict[str, dict]) -> str:
        """The score that a cell shows of a run that ``has`` these.

        That of the paper may not exist for the language of the user's text; BLEU stands for it.
        """
        metric, dot, test_set = cell.score.partition(".")
        if self.plan.workspace.own is None or metric not in METRICS or cell.score in has:
            return cell.score
        return f"bleu{dot}{test_set}"

    def check_score(self, run: Run, score: str, stored: float) -> None:
        check_score(run, score, stored, self.again)

    def result(self, run: Run) -> dict | None:
        return read_result(run.folder.result)

    def status(self, run: Run) -> Status:
        return status(run)

    def sentences(
        self, run: Run, score: str, column: Column, at: int | None = None
    ) -> ScoredSentences | None:
        return scored_sentences(run, score, column, at)

    def runs(self, cell: Cell) -> list[Run]:
        """The run of each seed that gives a cell's number."""
        return [self.plan.workspace.run(cell, seed) for seed in self.plan.seeds]

    def of_cell(self, cell: Cell) -> list[tuple[Run, dict]]:
        """The runs of a cell that have a result, with it."""
        results = [(run, self.result(run)) for run in self.runs(cell)]
        return [(run, result) for run, result in results if result is not None]
