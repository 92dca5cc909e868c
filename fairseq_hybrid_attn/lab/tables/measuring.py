"""A table's numbers: the papers' and ours over seeds, beside the baseline, as plain data.

All tables are this: those of the papers, those of your own systems, whose first system is the
baseline, and those of translations that were made elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations
from statistics import fmean
from typing import Any

from ...errors import UserError
from ..config.paper_tables import Cell, CellName, Column
from ..files.provenance import trained_on
from ..plan.plan import Plan
from ..scores.counts import Score, scores_as_dict
from ..scores.statistics import Estimate, difference, estimate
from .stored_runs import StoredRuns

DONE = "done"
#: Of translations that were made elsewhere, beside those of runs.
GIVEN = "given"


@dataclass(frozen=True)
class Number:
    row: str
    system: str  #: for display
    column: str
    score: str  #: on the user's text, not always the column's
    state: str  #: ``done``, ``given``, what has changed since, or why there is no number of ours
    paper: float | None = None
    paper_difference: float | None = None  #: from the baseline
    ours: Estimate | None = None
    difference: Estimate | None = None  #: from the baseline, over the seeds that both have
    signature: str = ""  #: how it was computed
    at: int | None = None  #: after how many updates, in a curve
    updates: float | None = None  #: of the training, the mean over seeds
    parameters: int | None = None
    training_seconds: float | None = None  #: the mean over seeds
    trained_on: tuple[str, ...] = ()  #: devices, precision and hardware: one, if seeds are alike
    scores: Mapping[int, Score] = field(default_factory=dict, compare=False)  #: by seed

    @property
    def is_stale(self) -> bool:
        return self.ours is not None and self.state not in (DONE, GIVEN)

    @property
    def sentences(self) -> int:
        """How many it is of; 0 where that is not known."""
        counts = next((one.counts for one in self.scores.values()), None)
        return 0 if counts is None else len(counts.rows)

    def as_dict(self) -> dict[str, Any]:
        ours, other = self.ours, self.difference
        shown: dict[str, Any] = {
            "sentences": self.sentences,
            "ours": ours and ours.as_dict(),
            "difference": other and other.as_dict(is_difference=True),
        }
        return {key: vars(self)[key] for key in vars(self) if key != "scores"} | shown


@dataclass(frozen=True)
class ColumnHead:
    name: str
    title: str
    score: str  #: the paper's
    curve: bool  #: whether there is a number for each checkpoint
    group: str | None  #: the lengths of source sentences that it is restricted to, if any
    baseline: str | None  #: the row that others are compared with
    baseline_changed: str = ""  #: what has changed since its runs were made; it may not be shown


@dataclass(frozen=True)
class TableNumbers:
    table: str  #: ``paper/table``
    title: str
    notes: str
    label: str  #: of scale and text
    profile: str  #: the scale
    text: str | None  #: the name of the user's text; None for the papers' corpora
    is_papers: bool  #: whether levels can be compared with the paper's
    is_own: bool  #: whether it is of the user's systems
    transposed: bool  #: whether it is printed with one line per column
    columns: tuple[ColumnHead, ...]
    numbers: tuple[Number, ...]
    made_by: str  #: how its runs differ in code and versions, if they do
    pairs: tuple[Number, ...] = ()  #: differences between two rows each, if they were asked for
    by_length: TableNumbers | None = None  #: the same systems on groups of sentences

    def of(self, column: str) -> list[Number]:
        return [number for number in self.numbers if number.column == column]

    @property
    def measured(self) -> list[Number]:
        return [number for number in self.numbers if number.ours]

    @property
    def systems(self) -> dict[str, list[dict]]:
        """The scores of each seed of its rows, not of curves, with counts, for JSON."""
        found: dict[str, dict[int, dict]] = {}
        for number in self.numbers:
            seeds = found.setdefault(number.row, {1: {}})
            for seed, score in number.scores.items():
                seeds.setdefault(seed, {})[number.column] = score
        return {row: list(map(scores_as_dict, of.values())) for row, of in found.items()}

    def as_dict(self) -> dict[str, Any]:
        parts: dict[str, Any] = {"columns": list(map(vars, self.columns))}
        for name in ("numbers", "pairs"):
            parts[name] = [number.as_dict() for number in getattr(self, name)]
        return vars(self) | parts | {"by_length": self.by_length and self.by_length.as_dict()}


def measure(plan: Plan, stored: StoredRuns | None = None) -> TableNumbers:
    """The numbers of a plan's cells, column by column, of the runs that are done."""
    stored, table, workspace = stored or StoredRuns(plan), plan.table, plan.workspace
    columns, numbers = [], []
    for column in table.columns:
        cells = [cell for cell in plan.cells if cell.column.name == column.name]
        if cells:
            baseline = table.baseline_cell(column)
            columns.append(_head(stored, column, baseline))
            numbers += [one for cell in cells for one in _numbers(stored, cell, baseline)]
    return TableNumbers(
        table=table.name,
        title=table.title,
        notes=" ".join(table.notes.split()),
        label=workspace.label,
        profile=workspace.profile.name,
        text=workspace.own.name if workspace.own else None,
        is_papers=workspace.is_papers,
        is_own=table.is_own,
        transposed=table.transposed,
        columns=tuple(columns),
        numbers=tuple(numbers),
        made_by=stored.made_by(),
    )


def _head(stored: StoredRuns, column: Column, baseline: Cell | None) -> ColumnHead:
    changed = ""
    with suppress(UserError):  # which its own row says
        changed = stored.changed(baseline) if baseline else ""
    return ColumnHead(
        *(column.name, column.title, column.score, column.curve),
        group=None if column.group is None else str(column.group),
        baseline=baseline.row.name if baseline else None,
        baseline_changed=changed,
    )


def _numbers(stored: StoredRuns, cell: Cell, baseline: Cell | None) -> list[Number]:
    """One number, or one for each checkpoint of a curve that all seeds have."""
    row = cell.row
    if baseline is not None and baseline.row is row and baseline.table.name == cell.table.name:
        baseline = None
    gap = None
    if baseline is not None and baseline.paper is not None and cell.paper is not None:
        gap = cell.paper - baseline.paper
    name, state = row.system, "cited by the paper"
    try:
        if not row.cited:
            name = name or cell.owner.row.system
            if cell.planned:
                raise UserError(f"not measured here: {cell.planned}")
            return _measured(stored, cell, baseline, name, gap)
    except UserError as error:
        state = str(error)
    return [Number(row.name, name, cell.column.name, cell.score, state, cell.paper, gap)]


def _measured(
    stored: StoredRuns, cell: Cell, baseline: Cell | None, system: str, gap: float | None
) -> list[Number]:
    name, points = stored.scores(cell)
    theirs = _of_baseline(stored, baseline, (cell.run_name, name))
    results = [result for _, result in stored.of_cell(cell)]
    return [
        Number(
            row=cell.row.name,
            system=system,
            column=cell.column.name,
            score=name,
            state=stored.changed(cell) or DONE,
            paper=cell.paper,
            paper_difference=gap,
            ours=estimate((1, scores)),
            difference=difference(scores, theirs) if at is None else None,
            # Several, if different versions scored the seeds.
            signature="; ".join(dict.fromkeys(one.signature for one in scores.values())),
            at=at,
            updates=fmean(result["updates"] for result in results),
            parameters=results[0]["parameters"],
            training_seconds=fmean(result["training_seconds"] for result in results),
            trained_on=tuple(dict.fromkeys(map(trained_on, results))),
            scores=scores,
        )
        for at, scores in points.items()
    ]


def _of_baseline(
    stored: StoredRuns, baseline: Cell | None, ours: tuple[CellName, str]
) -> dict[int, Score]:
    """The baseline's scores; none if it has none, or is the same run and score as ours."""
    if baseline is None or baseline.column.curve:
        return {}
    try:
        name, points = stored.scores(baseline)
    except UserError:  # which its own row says
        return {}
    return {} if (baseline.run_name, name) == ours else points[None]


def numbers_of(
    system: str, by_seed: Mapping[int, Mapping[str, Score]], state: str = DONE
) -> list[Number]:
    """The numbers of translations, a column for each of their scores."""
    return [
        number_of(system, name, {seed: scores[name] for seed, scores in by_seed.items()}, state)
        for name in next(iter(by_seed.values()))
    ]


def number_of(
    row: str, column: str, scores: Mapping[int, Score], state: str = DONE, score: str | None = None
) -> Number:
    """A row's number of these scores, by seed; of none, ``state`` says why."""
    system = f"{row} ({state})" if state == GIVEN else row
    number = Number(row, system, column, score or column, state)
    if not scores:
        return number
    signature = next(iter(scores.values())).signature
    return replace(number, ours=estimate((1, scores)), signature=signature, scores=scores)


def table_of(title: str, columns: Mapping[str, str], numbers: Iterable[Number]) -> TableNumbers:
    """A table of these numbers; ``columns``: the title of each score."""
    heads = (ColumnHead(key, shown, key, False, None, None) for key, shown in columns.items())
    return TableNumbers(
        table="scores",
        title=title,
        notes="",
        label="",
        profile="",
        text=None,
        is_papers=True,
        is_own=True,
        transposed=False,
        columns=tuple(heads),
        numbers=tuple(numbers),
        made_by="",
    )


def compared(
    numbers: TableNumbers, baseline: str | None = None, pairs: bool = False
) -> TableNumbers:
    """The same with differences from the row ``baseline``, or the first; perhaps of all pairs."""
    rows = list(dict.fromkeys(number.row for number in numbers.numbers))
    if baseline is None:
        baseline = rows[0]
    if baseline not in rows:
        raise UserError(f"--baseline {baseline}: there is no such row; there are {', '.join(rows)}")
    columns, found, of_pairs = [], {}, []
    for column in numbers.columns:
        by_row = {number.row: number for number in numbers.of(column.name) if number.ours}
        base = by_row.get(baseline)
        columns.append(replace(column, baseline=baseline, baseline_changed=""))
        for row, number in by_row.items():
            other = None if row == baseline or base is None else _difference(number, base)
            found[row, column.name] = replace(number, difference=other)
        for first, second in combinations(by_row.values(), 2) if pairs else ():
            name = f"{second.row} - {first.row}"
            of_pair = Number(name, name, column.name, second.score, DONE)
            of_pairs.append(replace(of_pair, difference=_difference(second, first)))
    return replace(
        numbers,
        columns=tuple(columns),
        numbers=tuple(found.get((n.row, n.column), n) for n in numbers.numbers),
        pairs=tuple(of_pairs),
    )


def _difference(ours: Number, theirs: Number) -> Estimate | None:
    return difference(_beside(ours, theirs), _beside(theirs, ours))


def _beside(number: Number, other: Number) -> Mapping[int, Score]:
    """Its scores by seed; a single translation, of no run, stands beside every seed of another."""
    if len(number.scores) == 1 and number.parameters is None:
        return dict.fromkeys(other.scores, next(iter(number.scores.values())))
    return number.scores
