"""Measuring a table: the paper's numbers beside ours, over seeds, against the baseline row."""

from __future__ import annotations

import contextlib
import statistics
from dataclasses import replace

from ...errors import UserError
from ..config.paper_tables import Cell, Column
from ..runs.run_scores import AER
from ..runs.status import State
from ..runs.workspace import Run
from ..scores.lengths_measure import LENGTH_RATIO
from ..scores.metrics import METRICS, Score
from .claims import judge
from .numbers import Line, Measured, Section, TableNumbers, over_seeds
from .ranks import rank_agreement
from .run_results import RunResults, ScoredLengths, ScoredTranslations


def measure(results: RunResults, significance: bool = True) -> TableNumbers:
    """The numbers of a plan's cells by column, and the verdicts on the claims.

    With ``significance``, the test set is resampled for intervals, p-values and claims; that takes
    about a second for each row and each term of a claim.
    """
    plan = results.plan
    table, workspace = plan.table, plan.workspace
    sections = []
    for column in table.columns:
        cells = [cell for cell in plan.cells if cell.column.name == column.name]
        if not cells:
            continue
        lines = [line for cell in cells for line in _lines(results, cell, significance)]
        baseline = next((line for line in lines if line.row == table.baseline), None)
        if baseline is None and table.baseline is not None:  # compared with, but not shown
            baseline = _line(results, table.baseline_cell(column), significance=False)
        group = None if column.group is None else str(column.group)
        what = (column.name, column.title, column.score, column.curve, group)
        ranks = {}
        for among, rows in table.rank.items() if not column.curve else ():
            pairs = zip(cells, lines, strict=True)
            ranked = [(cell, line) for cell, line in pairs if rows is None or line.row in rows]
            if found := rank_agreement(results, ranked, significance):
                ranks[among] = found
        sections.append(Section(*what, baseline, tuple(lines), ranks))
    return TableNumbers(
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
        verdicts=tuple(judge(results)) if significance else (),
    )


def _lines(results: RunResults, cell: Cell, significance: bool) -> list[Line]:
    """One line, or one for each checkpoint of a curve."""
    line = _line(results, cell, significance and not cell.column.curve)
    if not cell.column.curve or line.ours is None:
        return [line]
    score = line.ours.score
    done = results.of_cell(cell)
    curves = [
        {point["updates"]: point["scores"] for point in result["curve"]} for _, result in done
    ]
    shared = sorted(set.intersection(*map(set, curves)))
    points = []
    for at in shared:
        scores = [curve[at].get(score) for curve in curves]
        if None not in scores:
            resampled = _resampled(results, cell, done, score, at) if significance else None
            points.append(replace(line, ours=_point(line.ours, at, scores, resampled), at=at))
    return points or [replace(line, ours=None, why_not="its runs have no checkpoint in common")]


def _point(end: Measured, at: int, scores: list[dict], resampled: float | None) -> Measured:
    """A point of a curve, given the number at its end."""
    values = [score["value"] for score in scores]
    return replace(
        end,
        value=statistics.fmean(values),
        by_seed=tuple(values),
        **_intervals(values, resampled),
        signature="; ".join(dict.fromkeys(score["signature"] for score in scores)),
        updates=at,
    )


def _line(results: RunResults, cell: Cell, significance: bool) -> Line:
    row = cell.row
    if row.cited:
        return Line(row.name, row.system, cell.paper, None, "cited by the paper")
    system, ours, why_not = row.system, None, ""
    try:
        system = system or cell.owner.row.system
        if cell.planned:
            raise UserError(f"not measured here: {cell.planned}")
        ours = _measured(results, cell, significance)
    except UserError as error:
        why_not = str(error)
    return Line(row.name, system, cell.paper, ours, why_not)


def _measured(results: RunResults, cell: Cell, significance: bool) -> Measured:
    """A cell's number, with its interval and significance; a UserError says why there is none."""
    done = results.of_cell(cell)
    if not done:
        states = {run.seed: results.status(run) for run in results.runs(cell)}
        begun = [seed for seed, found in states.items() if found.state is not State.NOT_BEGUN]
        raise UserError(f"seed {begun[0]}: {states[begun[0]]}" if begun else "not run")
    score, found = _values(results, cell, done)
    values = [one["value"] for one in found]
    resampled, p_values = None, ()
    if significance:
        resampled = _resampled(results, cell, done, score)
        # If the test set cannot be resampled, the number stands without them.
        with contextlib.suppress(UserError):
            p_values = _p_values(results, cell, done, score)
    states = [results.status(run) for run, _ in done]
    return Measured(
        value=statistics.fmean(values),
        by_seed=tuple(values),
        score=score,
        **_intervals(values, resampled),
        seeds=tuple(run.seed for run, _ in done),
        # Several, if different versions scored the seeds.
        signature="; ".join(dict.fromkeys(one["signature"] for one in found)),
        p_values=p_values,
        stale="; ".join(sorted({str(found) for found in states if found.state is State.STALE})),
        updates=statistics.fmean(result["updates"] for _, result in done),
        parameters=done[0][1]["parameters"],
        accepted="; ".join(dict.fromkeys(_accepted(result) for _, result in done)).strip("; "),
    )


def _intervals(values: list[float], resampled: float | None) -> dict[str, object]:
    """The interval over seeds, with that over sentences beside it; or the latter alone."""
    interval = over_seeds(values)
    if interval is None:
        return {"interval": resampled, "over": "test set"}
    return {"interval": interval, "over": "seeds", "over_sentences": resampled}


def _resampled(
    results: RunResults,
    cell: Cell,
    done: list[tuple[Run, dict]],
    score: str,
    at: int | None = None,
) -> float | None:
    """Half the interval of a cell's mean over seeds, by resampling the test set.

    None if that cannot be done; the number stands without.  ``at``: of this point of its curve.
    """
    if cell.column.curve and at is None:
        return None
    with contextlib.suppress(UserError):
        if score.partition(".")[0] == LENGTH_RATIO:
            found = _lengths(results, cell, done)
        else:
            found = [results.sentences(run, score, cell.column, at) for run, _ in done]
        return None if None in found else found[0].interval(*found[1:])
    return None


def _accepted(result: dict) -> str:
    if not result.get("accepted"):
        return ""
    codes = (result["accepted"][0]["made_with"], result["accepted"][-1]["for"])
    made, now = (str(code).rpartition(":")[2][:12] for code in codes)
    return f"made by other code (digest {made}) and accepted for digest {now}"


def _values(
    results: RunResults, cell: Cell, done: list[tuple[Run, dict]]
) -> tuple[str, list[dict]]:
    """Which score a cell shows, and its value and signature in each run."""
    score, column = cell.score, cell.column
    metric, dot, test_set = score.partition(".")
    if metric == LENGTH_RATIO:
        found = _lengths(results, cell, done)
        return score, [_with_view(one.measure(), column, one) for one in found]
    scores = [_scores(result, column) for _, result in done]
    score = results.score(cell, scores[0])
    lacking = [run for (run, _), has in zip(done, scores, strict=True) if score not in has]
    if lacking:
        if metric == AER and lacking[0].recipe.gold is None:
            raise UserError("its text has no gold alignment")
        if column.curve and not all(scores):
            raise UserError("its run has no curve")
        if test_set and metric in METRICS:
            raise UserError(f"its text has no test set {test_set}")
        added = score in lacking[0].recipe.scores
        remedy = "; delete its result.json and reproduce it, which scores it again" * added
        raise UserError(f"{lacking[0].name} has no {score}{remedy}")
    if column.group is None and not column.cut:
        for (run, _), has in zip(done, scores, strict=True):
            if not column.curve:
                results.check_score(run, score, has[score]["value"])
        return score, [has[score] for has in scores]
    found = _translations(results, done, score, column)
    return score, [_with_view(one.measure(), column, one) for one in found]


def _lengths(results: RunResults, cell: Cell, done: list[tuple[Run, dict]]) -> list[ScoredLengths]:
    """The translations whose length ratio a cell shows, in the words that its BLEU counts."""
    _, dot, test_set = cell.score.partition(".")
    counted = (f"{bleu}{dot}{test_set}" for bleu in ("given_bleu", "bleu"))
    words = next((one for one in counted if one in done[0][1]["scores"]), None)
    if words is None:
        of = f"its text has no test set {test_set}" if test_set else "it has no translations"
        raise UserError(of)
    found = _translations(results, done, words, cell.column)
    return [ScoredLengths(**vars(one)) for one in found]


def _scores(result: dict, column: Column) -> dict:
    """The scores of a run; of a curve, the last of each."""
    if not column.curve:
        return result["scores"]
    points = [point["scores"] for point in result.get("curve", [])]
    return {name: score for scores in points for name, score in scores.items()}


def _translations(
    results: RunResults, done: list[tuple[Run, dict]], score: str, column: Column
) -> list[ScoredTranslations]:
    found = [results.sentences(run, score, column) for run, _ in done]
    if None in found:
        raise UserError("its translations or its test set no longer exist")
    if not found[0].references:
        raise UserError("no such sentences")
    return found


def _with_view(score: Score, column: Column, found: ScoredTranslations) -> dict:
    """A score as result files have it, its signature saying what the column looks at."""
    how = "" if column.group is None else f"|source:{column.group}"
    cut = "|cut:reference" if column.cut else ""
    signature = f"{score.signature}{how}|sentences:{len(found.references)}{cut}"
    return {"value": score.value, "signature": signature}


def _p_values(
    results: RunResults, cell: Cell, done: list[tuple[Run, dict]], score: str
) -> tuple[float | None, ...]:
    """By the paired bootstrap against the baseline's run of the same seed, if there is one."""
    plan = results.plan
    baseline = plan.table.baseline_cell(cell.column)
    if baseline is None or baseline.row is cell.row:
        return ()
    # The baseline's number may be another score of its run, such as that of another head.
    theirs = baseline.score if score == cell.score else score
    if (baseline.run_name, theirs) == (cell.run_name, score):
        return ()
    p_values = []
    for run, _ in done:
        ours = results.sentences(run, score, cell.column)
        other = results.sentences(plan.workspace.run(baseline, run.seed), theirs, cell.column)
        p_values.append(None if None in (ours, other) else ours.p_value(other))
    return tuple(p_values) if any(p is not None for p in p_values) else ()
