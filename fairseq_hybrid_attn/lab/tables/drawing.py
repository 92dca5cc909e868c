"""Drawing a table: learning curves, or scores by the length of the source sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...errors import UserError
from ..report import curves_figure as curves
from ..report.curves_measure import CHECKPOINTS, LABELS, Curve
from ..runs.plan import Plan
from ..scores import lengths_figure as lengths
from ..scores.lengths_measure import GroupScores, SystemScore
from .numbers import Section
from .stored_runs import StoredRuns

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check_drawable(plans: list[Plan]) -> None:
    """Check, before the work, that there is one table, of a kind that can be drawn."""
    if len(plans) != 1:
        raise UserError("--figure: draw one table at a time")
    if not is_drawable(plans[0]):
        raise UserError(
            f"--figure: {plans[0].table.name} has columns that are neither learning curves nor "
            "scores by source length; choose others with --columns"
        )


def is_drawable(plan: Plan) -> bool:
    """Whether the table is one of learning curves, or of one score by the source's length."""
    columns = [cell.column for cell in plan.cells]
    if all(column.curve for column in columns):
        return True
    of_one_kind = len({cell.score for cell in plan.cells}) == 1
    return of_one_kind and all(column.group is not None for column in columns)


def draw(plan: Plan, sections: Sequence[Section], theme: str = "light") -> Figure:
    """Draw the measured numbers of a table (see :func:`check_drawable`)."""
    measured = [section for section in sections if section.measured]
    if not measured:
        raise UserError(f"--figure: nothing in {plan.table.name} is measured yet")
    names = _names(measured)
    scores = [section.measured[0].ours.score for section in measured]
    scores = [LABELS.get(score, score) for score in scores]
    if sections[0].curve:
        # Panels of one score, of several columns, are told apart by the columns' titles.
        panels = [
            _panel(section, names, section.title if scores.count(score) > 1 else score, score)
            for section, score in zip(measured, scores, strict=True)
        ]
        return curves.draw(panels, theme)
    return lengths.draw(_groups(plan, sections, names), list(names.values()), scores[0], theme)


def _names(sections: Sequence[Section]) -> dict[str, str]:
    """The display names of measured rows: their systems, if no two have the same."""
    systems = {line.row: line.system for section in sections for line in section.measured}
    told_apart = all(systems.values()) and len(set(systems.values())) == len(systems)
    return systems if told_apart else {row: row for row in systems}


def _panel(section: Section, names: dict[str, str], label: str, score: str) -> curves.CurvePanel:
    points: dict[str, dict[int, float]] = {}
    for line in section.measured:
        points.setdefault(line.row, {})[line.at] = line.ours.value
    found = [
        Curve(names[row], section.name, CHECKPOINTS, "", tuple(values), tuple(values.values()))
        for row, values in points.items()
    ]
    return curves.CurvePanel(label, found, measure=score)


def _groups(plan: Plan, sections: Sequence[Section], names: dict[str, str]) -> list[GroupScores]:
    """The columns as groups of one test set, each with the scores of its rows."""
    stored = StoredRuns(plan)
    done = next(run for cell in plan.cells for run, _ in stored.of_cell(cell))
    groups = []
    for section in sections:
        group = plan.table.column(section.name).group
        score = section.measured[0].ours.score if section.measured else section.score
        counts = stored.counts(done, score, group)
        scores = {
            names[line.row]: SystemScore(line.ours.value, line.ours.interval)
            for line in section.measured
        }
        groups.append(GroupScores(str(group), len(counts.rows) if counts else 0, scores))
    return groups
