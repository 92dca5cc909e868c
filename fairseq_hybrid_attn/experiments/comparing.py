"""A table's numbers: the paper's beside ours, over seeds, against the baseline row."""

from __future__ import annotations

import contextlib
import logging
import math
import statistics
from dataclasses import dataclass

from scipy.stats import t as student

from ..errors import UserError
from ..files import read_lines
from ..scoring.significance import confidence_interval, paired_bootstrap
from .planning import Plan, State, status
from .results import read_result
from .tables import Cell, Column
from .workspace import Run


@dataclass(frozen=True)
class Measured:
    """Our number for a cell.

    Attributes:
        value: mean over seeds.
        score: which score it is; on one's own text, not always the column's.
        interval: half the width of its 95 % interval; None where it could not be computed.
        over: what varies in the interval: ``seeds``, or ``test set`` with a single seed.
        seeds: those it comes from.
        signature: how it was computed.
        p_values: of the paired bootstrap against the baseline row, by seed.
        stale: why it is not up to date, if so.
        updates: mean number of training updates.
        parameters: of the model.
    """

    value: float
    score: str
    interval: float | None
    over: str
    seeds: tuple[int, ...]
    signature: str
    p_values: tuple[float, ...]
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
    """

    row: str
    system: str
    paper: float | None
    ours: Measured | None
    why_not: str


@dataclass(frozen=True)
class Section:
    """One column of a paper's table, as a table of its own."""

    column: Column
    baseline: Line | None
    lines: tuple[Line, ...]


def compare(plan: Plan, significance: bool = True) -> list[Section]:
    """The numbers of a plan's cells, column by column.

    Args:
        plan: what to show.
        significance: whether to compute intervals and p-values on the test set; it takes a
            second or so for each row.
    """
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)
    sections = []
    for column in plan.table.columns:
        cells = [cell for cell in plan.cells if cell.column.name == column.name]
        if not cells:
            continue
        lines = [_line(plan, cell, significance) for cell in cells]
        baseline = next((line for line in lines if line.row == plan.table.baseline), None)
        if baseline is None and plan.table.baseline is not None:  # compared with, but not shown
            row = plan.table.row(plan.table.baseline)
            baseline = _line(plan, Cell(plan.table, row, column), significance=False)
        sections.append(Section(column, baseline, tuple(lines)))
    return sections


def _line(plan: Plan, cell: Cell, significance: bool) -> Line:
    row = cell.row
    why_not = "not run"
    ours = None
    if row.cited:
        why_not = "cited by the paper"
    elif cell.planned:
        why_not = f"not in this version: {cell.planned}"
    else:
        try:
            ours, why_not = _measured(plan, cell, significance)
        except UserError as error:
            why_not = str(error)
    system = row.system or (cell.owner.row.system if not row.cited else "")
    return Line(row.name, system, cell.paper, ours, why_not)


def _measured(plan: Plan, cell: Cell, significance: bool) -> tuple[Measured | None, str]:
    runs = [plan.workspace.run(cell, seed) for seed in plan.seeds]
    results = [(run, read_result(run.folder.result)) for run in runs]
    done = [(run, result) for run, result in results if result is not None]
    if not done:
        return None, _why_not(runs)
    score = cell.column.score
    if plan.workspace.own is not None and score not in done[0][1]["scores"]:
        score = "bleu"  # one's own text need not be in a language that has the paper's score
    lacking = [run.name for run, result in done if score not in result["scores"]]
    if lacking:
        return None, f"{lacking[0]} has no {score}"
    values = [result["scores"][score]["value"] for _, result in done]
    interval, over, p_values = _over_seeds(values), "seeds", ()
    if interval is None:
        over = "test set"
    if significance:
        # A number stands without them, where the test set cannot be resampled.
        with contextlib.suppress(UserError):
            p_values = _p_values(plan, cell, done, score)
            if interval is None:
                interval = _over_test_set(*done[0], score)
    stale = {str(status(run)) for run, _ in done if status(run).state is State.STALE}
    return (
        Measured(
            value=statistics.fmean(values),
            score=score,
            interval=interval,
            over=over,
            seeds=tuple(run.seed for run, _ in done),
            signature=done[0][1]["scores"][score]["signature"],
            p_values=p_values,
            stale="; ".join(sorted(stale)),
            updates=statistics.fmean(result["updates"] for _, result in done),
            parameters=done[0][1]["parameters"],
        ),
        "",
    )


def _why_not(runs: list[Run]) -> str:
    begun = [run for run in runs if status(run).state is not State.NOT_BEGUN]
    return f"seed {begun[0].seed}: {status(begun[0])}" if begun else "not run"


def _over_seeds(values: list[float]) -> float | None:
    """Half the 95 % interval of a mean over seeds, by Student's t; None for a single seed."""
    if len(values) < 2:
        return None
    quantile = float(student.ppf(0.975, len(values) - 1))
    return quantile * statistics.stdev(values) / math.sqrt(len(values))


def _over_test_set(run: Run, result: dict, score: str) -> float | None:
    """Half the 95 % interval by resampling the test set; None if its text is not here."""
    texts = _texts(run)
    if texts is None:
        return None
    translations, references = texts
    recipe = run.recipe
    return confidence_interval(
        score, translations, references, result["corpus"]["target"], recipe.lowercase
    ).interval


def _p_values(plan: Plan, cell: Cell, done: list[tuple[Run, dict]], score: str):
    """Of the paired bootstrap against the baseline's run of the same seed, where there is one."""
    if plan.table.baseline in (None, cell.row.name):
        return ()
    baseline = Cell(plan.table, plan.table.row(plan.table.baseline), cell.column)
    if baseline.run_name == cell.run_name:
        return ()
    p_values = []
    for run, result in done:
        other = plan.workspace.run(baseline, run.seed)
        ours, theirs = _texts(run), _texts(other)
        if ours is None or theirs is None or ours[1] != theirs[1]:
            continue
        comparison = paired_bootstrap(
            score,
            theirs[0],
            {"ours": ours[0]},
            ours[1],
            result["corpus"]["target"],
            run.recipe.lowercase,
        )
        p_values.append(comparison["ours"].p_value)
    return tuple(p_values)


def _texts(run: Run) -> tuple[list[str], list[str]] | None:
    """A run's translations and their references, if both are here."""
    folder, reference = run.folder, run.treatment.reference
    if not (folder.result.exists() and folder.hypotheses.exists() and reference.exists()):
        return None
    return read_lines(folder.hypotheses), read_lines(reference)
