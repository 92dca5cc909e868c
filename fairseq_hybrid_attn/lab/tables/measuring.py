"""A table's numbers: the papers' and ours over seeds, beside the baseline, as plain data.

All tables are this: those of the papers, and those of your own systems, whose first system is the
baseline.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from ...errors import UserError
from ..config.paper_tables import Cell, CellName, Column
from ..files.provenance import trained_on
from ..runs.plan import Plan
from ..scores.counts import Score
from ..scores.statistics import Compared, Estimate, difference, estimate
from .stored_runs import StoredRuns

DONE = "done"


@dataclass(frozen=True)
class Number:
    row: str
    system: str  #: for display
    column: str
    score: str  #: on the user's text, not always the column's
    state: str  #: ``done``, or what has changed since, or why there is no number of ours
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

    @property
    def is_stale(self) -> bool:
        return self.ours is not None and self.state != DONE

    @property
    def compared(self) -> Compared | None:
        return Compared(self.ours, self.difference) if self.ours else None

    def as_dict(self) -> dict[str, Any]:
        ours, other = self.ours, self.difference
        shown = {
            "ours": ours and ours.as_dict(),
            "difference": other and other.as_dict(is_difference=True),
        }
        return vars(self) | shown


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

    def of(self, column: str) -> list[Number]:
        return [number for number in self.numbers if number.column == column]

    @property
    def measured(self) -> list[Number]:
        return [number for number in self.numbers if number.ours]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"numbers": [number.as_dict() for number in self.numbers]}


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
