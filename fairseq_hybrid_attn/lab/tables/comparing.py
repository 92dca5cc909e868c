"""A table's numbers: the paper's beside ours, over seeds, against the baseline row."""

from __future__ import annotations

import contextlib
import logging
import math
import statistics
from collections.abc import Iterable
from dataclasses import replace

from scipy.stats import t as student

from ...errors import UserError
from ..configuration.tables import Cell, Column
from ..lengths.measure import LENGTH_RATIO
from ..runs.alignment_report import AER
from ..runs.planning import Plan, State, status
from ..runs.results import read_result
from ..runs.workspace import Run
from ..scoring.metrics import METRICS, Score
from .claims import judge
from .comparison import Comparison, Line, Measured, Section
from .evidence import Translations, evidence


def compare(plan: Plan, significance: bool = True) -> Comparison:
    """The numbers of a plan's cells, column by column, and what became of the claims.

    Args:
        plan: what to show.
        significance: whether to compute intervals and p-values on the test set, and to judge
            the claims by them; it takes a second or so for each row, and for each term of a claim.
    """
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)
    sections = []
    for column in plan.table.columns:
        cells = [cell for cell in plan.cells if cell.column.name == column.name]
        if not cells:
            continue
        lines = [line for cell in cells for line in _lines(plan, cell, significance)]
        baseline = next((line for line in lines if line.row == plan.table.baseline), None)
        if baseline is None and plan.table.baseline is not None:  # compared with, but not shown
            baseline = _line(plan, plan.table.baseline_cell(column), significance=False)
        group = None if column.group is None else str(column.group)
        sections.append(
            Section(
                *(column.name, column.title, column.score, column.curve, group),
                *(baseline, tuple(lines)),
            )
        )
    table, workspace = plan.table, plan.workspace
    return Comparison(
        table=table.name,
        title=table.title,
        notes=" ".join(table.notes.split()),
        label=workspace.label,
        profile=workspace.profile.name,
        text=workspace.own.folder.resolve().name if workspace.own else None,
        is_papers=workspace.is_papers,
        columns=len(table.columns),
        transposed=table.transposed,
        sections=tuple(sections),
        verdicts=tuple(judge(plan)) if significance else (),
    )


def _lines(plan: Plan, cell: Cell, significance: bool) -> list[Line]:
    """One line, or one for each checkpoint of a curve."""
    line = _line(plan, cell, significance and not cell.column.curve)
    if not cell.column.curve or line.ours is None:
        return [line]
    score = line.ours.score
    curves = [
        {point["updates"]: point["scores"] for point in result["curve"]}
        for _, result in _results(plan, cell)
    ]
    shared = sorted(set.intersection(*map(set, curves)))
    points = [(at, [curve[at].get(score) for curve in curves]) for at in shared]
    return [
        replace(line, ours=_point(line.ours, at, scores), at=at)
        for at, scores in points
        if None not in scores
    ] or [replace(line, ours=None, why_not="its runs have no checkpoint in common")]


def _point(end: Measured, at: int, scores: list[dict]) -> Measured:
    """What was measured after some updates, given what was in the end."""
    values = [score["value"] for score in scores]
    return replace(
        end,
        value=statistics.fmean(values),
        by_seed=tuple(values),
        interval=_over_seeds(values),
        over="seeds",
        signature=_signature(score["signature"] for score in scores),
        updates=at,
    )


def _line(plan: Plan, cell: Cell, significance: bool) -> Line:
    row = cell.row
    ours, why_not = None, ""
    if row.cited:
        why_not = "cited by the paper"
    elif cell.planned:
        why_not = f"not measured here: {cell.planned}"
    else:
        try:
            ours = _measured(plan, cell, significance)
        except UserError as error:
            why_not = str(error)
    system = row.system or (cell.owner.row.system if not row.cited else "")
    return Line(row.name, system, cell.paper, ours, why_not)


def _measured(plan: Plan, cell: Cell, significance: bool) -> Measured:
    """A cell's number, with its interval and significance.

    Raises:
        UserError: if there is none, and why.
    """
    done = _results(plan, cell)
    if not done:
        raise UserError(_why_not([plan.workspace.run(cell, seed) for seed in plan.seeds]))
    score, found = _values(plan, cell, done)
    values = [one["value"] for one in found]
    interval, over, p_values = _over_seeds(values), "seeds", ()
    if interval is None:
        over = "test set"
    if significance:
        # A number stands without them, where the test set cannot be resampled.
        with contextlib.suppress(UserError):
            p_values = _p_values(plan, cell, done, score)
        with contextlib.suppress(UserError):
            if interval is None:
                interval = _over_test_set([run for run, _ in done], score, cell.column)
    stale = {str(status(run)) for run, _ in done if status(run).state is State.STALE}
    return Measured(
        value=statistics.fmean(values),
        by_seed=tuple(values),
        score=score,
        interval=interval,
        over=over,
        seeds=tuple(run.seed for run, _ in done),
        signature=_signature(one["signature"] for one in found),
        p_values=p_values,
        stale="; ".join(sorted(stale)),
        updates=statistics.fmean(result["updates"] for _, result in done),
        parameters=done[0][1]["parameters"],
    )


def _values(plan: Plan, cell: Cell, done: list[tuple[Run, dict]]) -> tuple[str, list[dict]]:
    """Which score stands in a cell, and its value and signature in each run.

    Raises:
        UserError: if a run has it not.
    """
    score = cell.score
    metric, dot, test_set = score.partition(".")
    if metric == LENGTH_RATIO:
        if f"bleu{dot}{test_set}" not in done[0][1]["scores"]:
            of = f"its text has no test set {test_set}" if test_set else "it has no translations"
            raise UserError(of)
        found = _translations(done, f"bleu{dot}{test_set}", cell.column)
        how = _what_of(cell.column, found[0])
        return score, [_plain(one.length_ratio(), how) for one in found]
    scores = [_scores(result, cell.column) for _, result in done]
    if plan.workspace.own is not None and metric in METRICS and score not in scores[0]:
        # One's own text need not be in a language that has the paper's score.
        score = f"bleu{dot}{test_set}"
    lacking = [run for (run, _), has in zip(done, scores, strict=True) if score not in has]
    if lacking:
        if metric == AER and lacking[0].recipe.gold is None:
            raise UserError("its text has no gold alignment")
        if cell.column.curve and not all(scores):
            raise UserError("its run has no curve")
        if test_set and metric in METRICS:
            raise UserError(f"its text has no test set {test_set}")
        raise UserError(f"{lacking[0].name} has no {score}")
    if cell.column.group is None and not cell.column.cut:
        return score, [has[score] for has in scores]
    found = _translations(done, score, cell.column)
    how = _what_of(cell.column, found[0])
    return score, [_plain(one.measure(), how) for one in found]


def _signature(of_seeds: Iterable[str]) -> str:
    """How a number was computed: more than one way, if seeds were scored by other versions."""
    return "; ".join(dict.fromkeys(of_seeds))


def _scores(result: dict, column: Column) -> dict:
    """The scores of a run; of a curve, the last of each."""
    if not column.curve:
        return result["scores"]
    points = [point["scores"] for point in result.get("curve", [])]
    return {name: score for scores in points for name, score in scores.items()}


def _translations(done: list[tuple[Run, dict]], score: str, column: Column) -> list[Translations]:
    """What a column looks at of each run's translations.

    Raises:
        UserError: if they are gone, or there are none of that kind.
    """
    found = [evidence(run, score, column) for run, _ in done]
    if None in found:
        raise UserError("its translations or its test set are not here any more")
    if not found[0].references:
        raise UserError("no such sentences")
    return found


def _what_of(column: Column, found: Translations) -> str:
    """What a column looks at, in a signature."""
    how = "" if column.group is None else f"|source:{column.group}"
    cut = "|cut:reference" if column.cut else ""
    return f"{how}|sentences:{len(found.references)}{cut}"


def _plain(score: Score, how: str = "") -> dict:
    """A score as result files have it."""
    return {"value": score.value, "signature": score.signature + how}


def _results(plan: Plan, cell: Cell) -> list[tuple[Run, dict]]:
    """The runs of a cell that have a result, with it."""
    runs = [plan.workspace.run(cell, seed) for seed in plan.seeds]
    results = [(run, read_result(run.folder.result)) for run in runs]
    return [(run, result) for run, result in results if result is not None]


def _why_not(runs: list[Run]) -> str:
    begun = [run for run in runs if status(run).state is not State.NOT_BEGUN]
    return f"seed {begun[0].seed}: {status(begun[0])}" if begun else "not run"


def _over_seeds(values: list[float]) -> float | None:
    """Half the 95 % interval of a mean over seeds, by Student's t; None for fewer than three.

    With two seeds, t has one degree of freedom: 12.7 standard errors, which says nothing.
    """
    if len(values) < 3:
        return None
    quantile = float(student.ppf(0.975, len(values) - 1))
    return quantile * statistics.stdev(values) / math.sqrt(len(values))


def _over_test_set(runs: list[Run], score: str, column: Column) -> float | None:
    """Half the 95 % interval of a mean over seeds, by resampling the test set."""
    found = [evidence(run, score, column) for run in runs]
    return None if None in found else found[0].interval(*found[1:])


def _p_values(
    plan: Plan, cell: Cell, done: list[tuple[Run, dict]], score: str
) -> tuple[float | None, ...]:
    """Of the paired bootstrap against the baseline's run of the same seed, where there is one."""
    baseline = plan.table.baseline_cell(cell.column)
    if baseline is None or baseline.row is cell.row:
        return ()
    # The baseline's number may be another one of its run: of another head.
    theirs = baseline.score if score == cell.score else score
    if (baseline.run_name, theirs) == (cell.run_name, score):
        return ()
    p_values = []
    for run, _ in done:
        ours = evidence(run, score, cell.column)
        other = evidence(plan.workspace.run(baseline, run.seed), theirs, cell.column)
        p_values.append(None if None in (ours, other) else ours.p_value(other))
    return tuple(p_values) if any(p is not None for p in p_values) else ()
