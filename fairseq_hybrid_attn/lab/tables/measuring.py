"""Measuring a table: the paper's numbers beside ours, over seeds, against the baseline row."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np

from ...errors import UserError
from ..config.paper_tables import AER, Cell, Column
from ..runs.plan import Plan
from ..runs.status import State, status
from ..runs.workspace import Run
from ..scores import LENGTH_RATIO, NAMES
from ..scores.counts import ends, half_width, mean_drawn, p_value
from .claims import judge
from .numbers import Line, Measured, RankAgreement, Section, TableNumbers, over_seeds
from .stored_runs import StoredRuns


def measure(plan: Plan, significance: bool = True) -> TableNumbers:
    """The numbers of a plan's cells by column, and the verdicts on the claims.

    With ``significance``, sentences are resampled for intervals over them, p-values and claims.
    """
    stored = StoredRuns(plan)
    table, workspace = plan.table, plan.workspace
    sections = []
    for column in table.columns:
        cells = [cell for cell in plan.cells if cell.column.name == column.name]
        if not cells:
            continue
        lines = [line for cell in cells for line in _lines(stored, cell, significance)]
        baseline = next((line for line in lines if line.row == table.baseline), None)
        if baseline is None and table.baseline is not None:  # compared with, but not shown
            baseline = _line(stored, table.baseline_cell(column), significance=False)
        group = None if column.group is None else str(column.group)
        what = (column.name, column.title, column.score, column.curve, group)
        ranks = {}
        for among, rows in table.rank.items() if not column.curve else ():
            pairs = zip(cells, lines, strict=True)
            ranked = [(cell, line) for cell, line in pairs if rows is None or line.row in rows]
            if agreement := _rank_agreement(stored, ranked, significance):
                ranks[among] = agreement
        sections.append(Section(*what, baseline, tuple(lines), ranks))
    return TableNumbers(
        table=table.name,
        title=table.title,
        notes=" ".join(table.notes.split()),
        not_used=table.not_used,
        label=workspace.label,
        profile=workspace.profile.name,
        text=workspace.own.name if workspace.own else None,
        is_papers=workspace.is_papers,
        columns=len(table.columns),
        transposed=table.transposed,
        sections=tuple(sections),
        verdicts=tuple(judge(stored)) if significance else (),
        made_by=stored.made_by(),
    )


def _lines(stored: StoredRuns, cell: Cell, significance: bool) -> list[Line]:
    """One line, or one for each checkpoint of a curve that all seeds have."""
    line = _line(stored, cell, significance)
    if not cell.column.curve or line.ours is None:
        return [line]
    curves = [
        {p["updates"]: p["scores"] for p in result["curve"]} for _, result in stored.of_cell(cell)
    ]
    points = []
    for at in sorted(set.intersection(*map(set, curves))):
        scores = [curve[at].get(line.ours.score) for curve in curves]
        if None not in scores:
            ours = _measured(stored, cell, line.ours.score, scores, significance, at)
            points.append(Line(line.row, line.system, line.paper, ours, "", at))
    if points:
        return points
    return [Line(line.row, line.system, line.paper, None, "its runs have no checkpoint in common")]


def _line(stored: StoredRuns, cell: Cell, significance: bool) -> Line:
    row = cell.row
    if row.cited:
        return Line(row.name, row.system, cell.paper, None, "cited by the paper")
    system, ours, why_not = row.system, None, ""
    try:
        system = system or cell.owner.row.system
        if cell.planned:
            raise UserError(f"not measured here: {cell.planned}")
        ours = _measured(stored, cell, *_values(stored, cell), significance)
    except UserError as error:
        why_not = str(error)
    return Line(row.name, system, cell.paper, ours, why_not)


def _measured(
    stored: StoredRuns,
    cell: Cell,
    score: str,
    found: list[dict],
    significance: bool,
    at: int | None = None,
) -> Measured:
    """A cell's number with its intervals and p-values; ``at``: that of a point of its curve."""
    done, values = stored.of_cell(cell), [one["value"] for one in found]
    over_sentences, p_values = None, ()
    if significance and (at is not None or not cell.column.curve):
        counts = [stored.counts(run, score, cell.column.group, at) for run, _ in done]
        if None not in counts:
            over_sentences = half_width(mean_drawn(counts))
        if at is None:
            p_values = _p_values(stored, cell, score)
    updates = [at or result["updates"] for _, result in done]
    return Measured(
        value=statistics.fmean(values),
        by_seed=tuple(values),
        score=score,
        over_seeds=over_seeds(values),
        over_sentences=over_sentences,
        seeds=tuple(run.seed for run, _ in done),
        # Several, if different versions scored the seeds.
        signature="; ".join(dict.fromkeys(one["signature"] for one in found)),
        p_values=p_values,
        stale=stored.changed(cell),
        updates=statistics.fmean(updates),
        parameters=done[0][1]["parameters"],
    )


def _values(stored: StoredRuns, cell: Cell) -> tuple[str, list[dict]]:
    """Which score a cell shows, and its value and signature in each run.

    A UserError says why there is no number.
    """
    done, column = stored.of_cell(cell), cell.column
    if not done:
        raise UserError(state_of(stored.runs(cell)))
    scores = [_scores(result, column) for _, result in done]
    score = stored.score(cell, scores[0])
    metric, _, test_set = score.partition(".")
    if column.group is not None or metric == LENGTH_RATIO:
        return score, [_of_counts(stored, run, score, column) for run, _ in done]
    for (run, result), has in zip(done, scores, strict=True):
        if score in has:
            stored.counts(run, score)  # which checks that they agree
        elif metric == AER and result["corpus"].get("gold") is None:
            raise UserError("its text has no gold alignment")
        elif column.curve and not has:
            raise UserError("its run has no curve")
        elif test_set and metric in NAMES:
            raise UserError(f"its text has no test set {test_set}")
        else:
            raise UserError(f"{run.name} has no {score}")
    return score, [has[score] for has in scores]


def state_of(runs: list[Run]) -> str:
    """How far the runs of a cell are of which none has a result."""
    for run in runs:
        if run.folder.path.exists() and (state := status(run)).state is not State.NOT_BEGUN:
            return f"seed {run.seed}: {state}"
    return "not run"


def _scores(result: dict, column: Column) -> dict:
    """The scores of a run; of a curve, the last of each."""
    if not column.curve:
        return result["scores"]
    points = [point["scores"] for point in result.get("curve", [])]
    return {name: score for scores in points for name, score in scores.items()}


def _of_counts(stored: StoredRuns, run: Run, score: str, column: Column) -> dict:
    """A score that is in no result, computed from counts; its signature says of which sentences."""
    counts = stored.counts(run, score, column.group)
    if counts is None:
        raise UserError("the counts of its sentences are not here")
    if not len(counts.rows):
        raise UserError("no such sentences")
    how = "" if column.group is None else f"|source:{column.group}"
    signature = f"{counts.signature}{how}|sentences:{len(counts.rows)}"
    return {"value": counts.value, "signature": signature}


def _p_values(stored: StoredRuns, cell: Cell, score: str) -> tuple[float | None, ...]:
    """By the paired bootstrap against the baseline's run of the same seed, if there is one."""
    plan = stored.plan
    baseline = plan.table.baseline_cell(cell.column)
    if baseline is None or baseline.row is cell.row or score.startswith(LENGTH_RATIO):
        return ()
    # The baseline's number may be another score of its run, such as that of another head.
    theirs = baseline.score if score == cell.score else score
    if (baseline.run_name, theirs) == (cell.run_name, score):
        return ()
    p_values = []
    for run, _ in stored.of_cell(cell):
        base = plan.workspace.run(baseline, run.seed)
        ours = stored.counts(run, score, cell.column.group)
        other = stored.counts(base, theirs, cell.column.group) if stored.result(base) else None
        p_values.append(None if None in (ours, other) else p_value(ours, other))
    return tuple(p_values) if any(p is not None for p in p_values) else ()


def _rank_agreement(
    stored: StoredRuns, lines: list[tuple[Cell, Line]], significance: bool
) -> RankAgreement | None:
    """Spearman's rank correlation over the rows that have both numbers; None for fewer than three.

    Ours are means over the seeds that all of these rows have.  The interval is that of the same
    correlation on resampled sentences, the same ones for all rows.  Rows that are nearly equal
    change places there, which draws it towards zero; it may not contain the value.
    """
    ranked = [(cell, line) for cell, line in lines if line.ours and line.paper is not None]
    if len(ranked) < 3:
        return None
    seeds = sorted(set.intersection(*(set(line.ours.seeds) for _, line in ranked)))
    if not seeds:
        return None
    papers = [line.paper for _, line in ranked]
    by_seed = [dict(zip(line.ours.seeds, line.ours.by_seed, strict=True)) for _, line in ranked]
    ours = [statistics.fmean(of_row[seed] for seed in seeds) for of_row in by_seed]
    if np.ptp(papers) == 0 or np.ptp(ours) == 0:  # there is no order
        return None
    low = high = None
    counts = [
        stored.counts(run, line.ours.score, cell.column.group)
        for cell, line in ranked
        for run in stored.runs(cell)
        if run.seed in seeds
    ]
    if significance and None not in counts and mean_drawn(counts) is not None:
        drawn = np.reshape([one.drawn for one in counts], (len(ranked), len(seeds), -1))
        correlations = [_spearman(papers, scores) for scores in drawn.mean(axis=1).T]
        low, high = ends(np.array(correlations))
    return RankAgreement(_spearman(papers, ours), low, high, len(ranked), tuple(seeds))


def _spearman(papers: Sequence[float], ours: Sequence[float]) -> float:
    from scipy.stats import spearmanr

    return 0.0 if np.ptp(ours) == 0 else float(spearmanr(papers, ours).statistic)
