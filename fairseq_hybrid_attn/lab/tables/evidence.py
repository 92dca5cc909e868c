"""What of a run's test set can be resampled, to tell a difference from an accident.

A score of translations is resampled from the texts, an alignment error rate from the counts of
each sentence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from ...errors import UserError
from ..alignment import resampling
from ..alignment.error_rate import Counts
from ..configuration.tables import Column
from ..corpora import read_manifest
from ..files.text import read_lines
from ..lengths.measure import Group, cut_to, length_ratio, word_counts
from ..runs.alignment_report import read_rates
from ..runs.results import read_result
from ..runs.workspace import Run
from ..scoring.combining import combined
from ..scoring.metrics import METRICS, Score, build_metric
from ..scoring.significance import confidence_interval, paired_bootstrap
from ..text.test_sets import read_test_sets, slices
from ..text.words import WITHOUT_SPACES


class Evidence(Protocol):
    """A score's sentences."""

    def interval(self, *others: Evidence) -> float | None:
        """Half the 95 % interval of the mean of this and others, of the same sentences.

        None if there is none.
        """

    def p_value(self, baseline: Evidence) -> float | None:
        """Of the paired bootstrap; None if the baseline is not of the same test set."""


@dataclass(frozen=True)
class Translations:
    """The translations of a test set; ``score`` without its name."""

    score: str
    translations: list[str]
    references: list[str]
    target: str
    lowercase: bool

    def measure(self) -> Score:
        """The score itself."""
        metric = build_metric(self.score, self.target, self.lowercase)
        return metric.score(self.translations, self.references)

    def length_ratio(self) -> Score:
        """Words of the translations for each word of the references."""
        metric = build_metric(self.score, self.target, self.lowercase)
        return length_ratio(metric, self.translations, self.references)

    def cut(self) -> Translations:
        """The translations without the words that the reference has no place for.

        Raises:
            UserError: if there are no spaces between words, to cut at.
        """
        if self.target in WITHOUT_SPACES:
            raise UserError(f"text in {self.target} has no spaces between words to cut it at")
        pairs = zip(self.translations, self.references, strict=True)
        return replace(self, translations=[cut_to(*pair) for pair in pairs])

    def interval(self, *others: Translations) -> float | None:
        """See :class:`Evidence`."""
        how = self.target, self.lowercase
        if not others:
            return confidence_interval(
                self.score, self.translations, self.references, *how
            ).interval
        if len(self.references) < 2:  # nothing to resample
            return None
        if any(other.references != self.references for other in others):
            return None
        share = 1 / (1 + len(others))
        terms = [(share, one.translations) for one in (self, *others)]
        mean = combined(self.score, terms, self.references, *how)
        return (mean.high - mean.low) / 2

    def p_value(self, baseline: Translations) -> float | None:
        """See :class:`Evidence`."""
        if self.references != baseline.references:
            return None
        return paired_bootstrap(
            self.score,
            baseline.translations,
            {"ours": self.translations},
            self.references,
            self.target,
            self.lowercase,
        )["ours"].p_value


@dataclass(frozen=True)
class Alignments:
    """The counts of hand-aligned sentences."""

    counts: list[Counts]

    @property
    def gold(self) -> list[tuple[int, int]]:
        """Sure and possible links of each sentence, by which its text is known again."""
        return [(one.sure, one.possible) for one in self.counts]

    def interval(self, *others: Alignments) -> float | None:
        """See :class:`Evidence`."""
        if any(other.gold != self.gold for other in others):
            return None
        return resampling.interval([one.counts for one in (self, *others)])

    def p_value(self, baseline: Alignments) -> float | None:
        """See :class:`Evidence`."""
        same = self.gold == baseline.gold
        return resampling.p_value(self.counts, baseline.counts) if same else None


def evidence(run: Run, score: str, column: Column | None = None) -> Evidence | None:
    """What there is of a run that has a result; None if it is not here any more.

    Translations are of the text that they were made from: once the corpus has been prepared anew
    from another one, they are of no use.

    Args:
        run: the run.
        score: which of its scores.
        column: what of its translations is looked at: of sentences of some length alone, or cut;
            all of them as they are if None.

    Raises:
        UserError: if they cannot be looked at so.
    """
    folder, reference = run.folder, run.treatment.reference()
    result = read_result(folder.result)
    if result is None:
        return None
    metric = score.partition(".")[0]
    if metric not in METRICS:
        rate = read_rates(folder.alignment_score).get(score)
        return Alignments(rate.sentences) if rate and rate.sentences else None
    manifest = read_manifest(run.corpus_folder)
    if manifest is None or manifest.digest != result["corpus"]["digest"]:
        return None
    if not (folder.hypotheses.exists() and reference.exists()):
        return None
    translations, references = read_lines(folder.hypotheses), read_lines(reference)
    numbers = sentences(run, score, column and column.group, len(references))
    if numbers is None:
        return None
    translations, references = (
        [lines[number] for number in numbers] for lines in (translations, references)
    )
    found = Translations(
        metric, translations, references, run.treatment.target, run.recipe.lowercase
    )
    return found.cut() if column is not None and column.cut else found


def sentences(run: Run, score: str, group: Group | None, count: int) -> list[int] | None:
    """Which sentences of a run's test text a score is of; None if it has no such test set.

    Args:
        run: the run.
        score: ``bleu``, or ``bleu.NAME`` of the test set of that name.
        group: only the sentences whose source has so many words, if any.
        count: sentences of the whole text.
    """
    _, dot, test_set = score.partition(".")
    path = run.treatment.test_sets
    part = slices(read_test_sets(path, count) if path else {}, count).get(f"{dot}{test_set}")
    if part is None:
        return None
    numbers = list(range(count))[part]
    if group is None:
        return numbers
    wanted = set(group.sentences(source_lengths(run)))
    return [number for number in numbers if number in wanted]


def source_lengths(run: Run) -> list[int]:
    """Words of the source sentences of a run's test set.

    Raises:
        UserError: if they are not here any more, or its text is not split into words.
    """
    source, recipe = run.treatment.source, run.recipe
    if source in WITHOUT_SPACES and recipe.tokenizer[source] == "none":
        raise UserError(f"its corpus does not split {source} into words")
    return word_counts(read_lines(run.treatment.source_words))
