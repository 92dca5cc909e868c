"""What came of a table: plain data, to be printed at once, or kept as JSON and printed later."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from ..scoring.combining import Combined


@dataclass(frozen=True)
class Measured:
    """Our number for a cell.

    Attributes:
        value: mean over seeds.
        by_seed: those that it is the mean of, in the order of ``seeds``.
        score: which score it is; on one's own text, not always the column's.
        interval: half the width of its 95 % interval; None where it could not be computed.
        over: what varies in the interval: ``seeds``, or ``test set`` with fewer than three.
        seeds: those it comes from.
        signature: how it was computed.
        p_values: of the paired bootstrap against the baseline row, in the order of ``seeds``, None
            where the baseline lacks that seed; none at all if there is nothing to compare with.
        stale: why it is not up to date, if so.
        updates: mean number of training updates.
        parameters: of the model.
    """

    value: float
    by_seed: tuple[float, ...]
    score: str
    interval: float | None
    over: str
    seeds: tuple[int, ...]
    signature: str
    p_values: tuple[float | None, ...]
    stale: str
    updates: float
    parameters: int


@dataclass(frozen=True)
class Line:
    """A row of a printed table.

    Attributes:
        row: its name.
        system: for people.
        paper: the paper's number.
        ours: our number, if there is one.
        why_not: why there is none.
        at: after how many updates it was measured, in a curve.
    """

    row: str
    system: str
    paper: float | None
    ours: Measured | None
    why_not: str
    at: int | None = None


@dataclass(frozen=True)
class Section:
    """One column of a paper's table, as a table of its own.

    Attributes:
        name: the column's key.
        title: for people.
        score: which score the paper has there.
        curve: whether there is a line for each checkpoint of a row.
        group: lengths of the source sentences that it is restricted to, if it is.
        baseline: the line that others are compared with, be it of this table or of another.
        lines: its rows.
    """

    name: str
    title: str
    score: str
    curve: bool
    group: str | None
    baseline: Line | None
    lines: tuple[Line, ...]

    @property
    def measured(self) -> list[Line]:
        """The lines that have a number of ours."""
        return [line for line in self.lines if line.ours]

    def paper_difference(self, line: Line) -> float | None:
        """The paper's number less its baseline's."""
        base = self.baseline
        if base is None or base == line or base.paper is None or line.paper is None:
            return None
        return line.paper - base.paper

    def our_difference(self, line: Line) -> float | None:
        """Our number less our baseline's, over the seeds that both have."""
        base = self.baseline
        if base is None or base == line or base.ours is None or line.ours is None:
            return None
        seeds = self.shared_seeds(line)
        # Another point of a curve differs by that as well.
        if not seeds or base.at != line.at:
            return None
        ours, theirs = (
            dict(zip(one.seeds, one.by_seed, strict=True)) for one in (line.ours, base.ours)
        )
        return fmean(ours[seed] - theirs[seed] for seed in seeds)

    def shared_seeds(self, line: Line) -> list[int]:
        """The seeds of a measured line that its measured baseline has as well."""
        return [seed for seed in line.ours.seeds if seed in self.baseline.ours.seeds]


@dataclass(frozen=True)
class Verdict:
    """What our numbers say of a claim.

    Attributes:
        claim: in words.
        paper: the sum of the paper's numbers; None where it does not report them all.
        ours: the sum of ours, a mean over seeds, with its interval; None without all runs.
        by_seed: the sum for each seed, as text, that has all runs.
        lacking: seeds that have not.
        stale: whether a run of it is not up to date.
        verdict: in words.
    """

    claim: str
    paper: float | None
    ours: Combined | None
    by_seed: dict[str, float]
    lacking: tuple[int, ...]
    stale: bool
    verdict: str


@dataclass(frozen=True)
class Comparison:
    """A table with the paper's numbers and ours.

    Attributes:
        table: ``paper/table``.
        title: for people.
        notes: differences from the paper, for people.
        label: of scale and text.
        profile: the scale.
        text: the name of one's own text; None for the papers' corpora.
        is_papers: whether levels can be compared with the paper's.
        columns: how many the table has, shown or not.
        transposed: whether it is printed with a line a column.
        sections: its columns that were asked for.
        verdicts: what became of its claims.
    """

    table: str
    title: str
    notes: str
    label: str
    profile: str
    text: str | None
    is_papers: bool
    columns: int
    transposed: bool
    sections: tuple[Section, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def is_measured(self) -> bool:
        """Whether it has any number of ours."""
        return any(section.measured for section in self.sections)


def comparison_of(content: dict) -> Comparison:
    """What ``dataclasses.asdict`` made plain, as it was.

    Raises:
        KeyError, TypeError, ValueError: if it is something else.
    """
    parts = {
        "sections": tuple(map(_section, content["sections"])),
        "verdicts": tuple(map(_verdict, content["verdicts"])),
    }
    return Comparison(**{**content, **parts})


def _section(content: dict) -> Section:
    base, lines = content["baseline"], content["lines"]
    parts = {"baseline": base and _line(base), "lines": tuple(map(_line, lines))}
    return Section(**{**content, **parts})


def _line(content: dict) -> Line:
    ours = content["ours"]
    if ours is None:
        return Line(**content)
    sequences = {key: tuple(ours[key]) for key in ("seeds", "by_seed", "p_values")}
    return Line(**{**content, "ours": Measured(**{**ours, **sequences})})


def _verdict(content: dict) -> Verdict:
    ours = content["ours"]
    parts = {"ours": ours and Combined(**ours), "lacking": tuple(content["lacking"])}
    return Verdict(**{**content, **parts})
