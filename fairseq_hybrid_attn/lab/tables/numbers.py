"""A table's numbers, the paper's and ours, as plain data to be printed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev

from ..config.paper_tables import AER
from ..scores import LENGTH_RATIO

#: Marks numbers of runs whose configuration or data have changed since.
STALE = "†"


def over_seeds(values: Sequence[float]) -> float | None:
    """Half the 95 % interval of a mean over seeds, by Student's t; None for fewer than three.

    With two seeds, t has one degree of freedom: 12.7 standard errors, which says nothing.
    """
    if len(values) < 3:
        return None
    from scipy.stats import t as student

    quantile = float(student.ppf(0.975, len(values) - 1))
    return quantile * stdev(values) / math.sqrt(len(values))


@dataclass(frozen=True)
class Measured:
    """Our number for a cell."""

    value: float  #: the mean over seeds
    by_seed: tuple[float, ...]  #: in the order of ``seeds``
    score: str  #: on the user's text, not always the column's
    over_seeds: float | None  #: half its 95 % interval, if there are three seeds or more
    over_sentences: float | None  #: half its 95 % interval by resampling the sentences
    seeds: tuple[int, ...]
    signature: str  #: how it was computed
    #: By the paired bootstrap against the baseline row, in the order of ``seeds``, None where the
    #: baseline has no run of that seed; empty if there is nothing to compare with.
    p_values: tuple[float | None, ...]
    stale: str  #: what has changed since its runs were made, if anything
    updates: float  #: the mean number of training updates
    parameters: int

    @property
    def interval(self) -> float | None:
        """Half the 95 % interval over seeds, or else over sentences."""
        return self.over_sentences if self.over_seeds is None else self.over_seeds


def differences(one: Measured, other: Measured) -> tuple[float, ...]:
    """One number minus the other, for each seed that both have."""
    theirs = dict(zip(other.seeds, other.by_seed, strict=True))
    ours = zip(one.seeds, one.by_seed, strict=True)
    return tuple(value - theirs[seed] for seed, value in ours if seed in theirs)


@dataclass(frozen=True)
class Line:
    """A row of a printed table."""

    row: str
    system: str  #: for display
    paper: float | None
    ours: Measured | None
    why_not: str  #: why there is no number of ours
    at: int | None = None  #: after how many updates, in a curve


@dataclass(frozen=True)
class RankAgreement:
    """Spearman's rank correlation between the paper's numbers of a column and ours."""

    value: float
    low: float | None  #: the ends of its 95 % interval, by resampling the test set
    high: float | None
    rows: int  #: how many are ranked: those with both numbers
    seeds: tuple[int, ...]  #: those that all of them have


@dataclass(frozen=True)
class Section:
    """One column of a paper's table, printed as a separate table."""

    name: str
    title: str
    score: str  #: the paper's
    curve: bool  #: whether there is a line for each checkpoint of a row
    group: str | None  #: the lengths of source sentences that it is restricted to, if any
    baseline: Line | None  #: what others are compared with, of this table or of another
    lines: tuple[Line, ...]
    #: By what the rows are called.
    ranks: dict[str, RankAgreement] = field(default_factory=dict, hash=False)

    @property
    def measured(self) -> list[Line]:
        return [line for line in self.lines if line.ours]

    @property
    def has_paper(self) -> bool:
        """Whether a paper reports any of its numbers."""
        return any(line.paper is not None for line in self.lines)

    def paper_difference(self, line: Line) -> float | None:
        base = self.baseline
        if base is None or base == line or base.paper is None or line.paper is None:
            return None
        return line.paper - base.paper

    def our_difference(self, line: Line) -> float | None:
        """Our number minus our baseline's, over the seeds that both have.

        None if they are of other signatures, or of other points of a curve, or length ratios,
        whose differences are not tested.
        """
        if self.score.startswith(LENGTH_RATIO):
            return None
        base = self.baseline
        if base is None or base == line or base.ours is None or line.ours is None:
            return None
        # That of an error rate names the head, which may differ.
        if not base.ours.score.startswith(AER) and base.ours.signature != line.ours.signature:
            return None
        # Points of a curve are compared after the same number of updates only.
        found = differences(line.ours, base.ours) if base.at == line.at else ()
        return fmean(found) if found else None

    def shared_seeds(self, line: Line) -> list[int]:
        return [seed for seed in line.ours.seeds if seed in self.baseline.ours.seeds]


@dataclass(frozen=True)
class Verdict:
    """What our numbers say about a claim."""

    claim: str
    paper: float | None  #: the sum of the paper's numbers, if it reports them all
    by_seed: dict[int, float]  #: the sum of ours for each seed that has all runs
    over_sentences: tuple[float, float] | None  #: the ends of its 95 % interval by resampling
    lacking: tuple[int, ...]  #: the seeds that it cannot be computed for
    stale: bool  #: whether one of its numbers is marked
    verdict: str
    after_results: bool = False  #: whether it was written when the first results were known

    @property
    def ours(self) -> float | None:
        """The mean over seeds."""
        return fmean(self.by_seed.values()) if self.by_seed else None

    @property
    def over_seeds(self) -> tuple[float, float] | None:
        """The ends of the 95 % interval over seeds; None for fewer than three."""
        half = over_seeds(tuple(self.by_seed.values()))
        return None if half is None else (self.ours - half, self.ours + half)


@dataclass(frozen=True)
class TableNumbers:
    table: str  #: ``paper/table``
    title: str
    notes: str
    not_used: tuple[str, ...]  #: trainings that failed, were stopped or are not used
    label: str  #: of scale and text
    profile: str  #: the scale
    text: str | None  #: the name of the user's text; None for the papers' corpora
    is_papers: bool  #: whether levels can be compared with the paper's
    columns: int  #: how many the table has, shown or not
    transposed: bool  #: whether it is printed with one line per column
    sections: tuple[Section, ...]
    verdicts: tuple[Verdict, ...]
    made_by: str  #: how its runs differ in code and versions, if they do

    @property
    def is_measured(self) -> bool:
        return any(section.measured for section in self.sections)
