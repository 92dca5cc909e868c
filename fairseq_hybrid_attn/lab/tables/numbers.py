"""A table's numbers, the paper's and ours, as plain data: printed, or kept as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, is_dataclass
from statistics import fmean, stdev
from types import NoneType
from typing import get_args, get_origin, get_type_hints

from scipy.stats import t as student

from ..runs.run_scores import AER
from ..scores.lengths_measure import LENGTH_RATIO

#: Marks what is not up to date.
STALE = "†"
#: Marks what other code has made, and was accepted.
ACCEPTED = "‡"


def over_seeds(values: Sequence[float]) -> float | None:
    """Half the 95 % interval of a mean over seeds, by Student's t; None for fewer than three.

    With two seeds, t has one degree of freedom: 12.7 standard errors, which says nothing.
    """
    if len(values) < 3:
        return None
    quantile = float(student.ppf(0.975, len(values) - 1))
    return quantile * stdev(values) / math.sqrt(len(values))


@dataclass(frozen=True)
class Measured:
    """Our number for a cell."""

    value: float  #: the mean over seeds
    by_seed: tuple[float, ...]  #: in the order of ``seeds``
    score: str  #: on the user's text, not always the column's
    interval: float | None  #: half the width of its 95 % interval, if that could be computed
    #: What varies in the interval: ``seeds``, or with fewer than three ``test set``; ``test set,
    #: apart`` if it is the mean of intervals of seeds that were published apart.
    over: str
    seeds: tuple[int, ...]
    signature: str  #: how it was computed
    #: By the paired bootstrap against the baseline row, in the order of ``seeds``, None where the
    #: baseline has no run of that seed; empty if there is nothing to compare with.
    p_values: tuple[float | None, ...]
    stale: str  #: why it is not up to date, if so
    updates: float  #: the mean number of training updates
    parameters: int
    accepted: str = ""  #: which code made it and for which it was accepted, if they differ
    over_sentences: float | None = None  #: an interval by resampling, beside one over seeds

    @property
    def resampled(self) -> float | None:
        """Half the 95 % interval by resampling the test set."""
        return self.over_sentences if self.over == "seeds" else self.interval


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
    #: By seeds that were published apart, each with its own interval.
    apart: dict[str, RankAgreement] = field(default_factory=dict, hash=False)


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
    by_seed: dict[str, float]  #: the sum of ours for each seed that has all runs
    #: The ends of its 95 % interval by resampling the test set, with the width of ``resampled``.
    over_sentences: tuple[float, float] | None
    resampled: tuple[str, ...]  #: the seeds whose translations were resampled
    lacking: tuple[int, ...]  #: the seeds that it cannot be computed for
    stale: bool  #: whether one of its runs is not up to date
    verdict: str

    @property
    def ours(self) -> float | None:
        """The mean over seeds."""
        return fmean(self.by_seed.values()) if self.by_seed else None

    @property
    def width_of(self) -> str:
        """In words, the seeds that the interval over sentences has its width of, if not of all."""
        fewer = 0 < len(self.resampled) < len(self.by_seed)
        return f" (width of seed {', '.join(self.resampled)})" if fewer else ""

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
    label: str  #: of scale and text
    profile: str  #: the scale
    text: str | None  #: the name of the user's text; None for the papers' corpora
    is_papers: bool  #: whether levels can be compared with the paper's
    columns: int  #: how many the table has, shown or not
    transposed: bool  #: whether it is printed with one line per column
    sections: tuple[Section, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def is_measured(self) -> bool:
        return any(section.measured for section in self.sections)


def rebuilt(kind: type, content: object) -> object:
    """The inverse of ``dataclasses.asdict``, after JSON too.

    Other content raises KeyError, TypeError, ValueError or AttributeError.
    """
    if is_dataclass(kind):
        kinds = get_type_hints(kind)
        return kind(**{key: rebuilt(kinds[key], value) for key, value in content.items()})
    inner = get_args(kind)
    if get_origin(kind) is tuple:
        return tuple(rebuilt(inner[0], one) for one in content)
    if get_origin(kind) is dict:
        return {key: rebuilt(inner[1], one) for key, one in content.items()}
    if NoneType in inner and content is not None:
        return rebuilt(inner[0], content)
    return content
