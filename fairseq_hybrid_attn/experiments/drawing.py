"""Drawing a table: learning curves, or scores by the length of the source sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..analysis.curves import CHECKPOINTS, Curve
from ..analysis.figures import curves, lengths
from ..analysis.lengths import GroupScores, SystemScore
from ..errors import UserError
from .comparing import Line, Section
from .evidence import source_lengths
from .planning import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check_drawable(plans: list[Plan]) -> None:
    """See to it, before the work, that there is one table, of a kind that can be drawn.

    Raises:
        UserError: if not.
    """
    if len(plans) != 1:
        raise UserError("--figure: draw one table at a time")
    columns = [cell.column for cell in plans[0].cells]
    if not (all(c.curve for c in columns) or all(c.group is not None for c in columns)):
        raise UserError(
            f"--figure: {plans[0].table.name} has columns that are neither learning curves nor "
            "scores by source length; choose others by --columns"
        )


def draw(plan: Plan, sections: list[Section], theme: str = "light") -> Figure:
    """A table's figure, of what is measured.

    Args:
        plan: of the table, see :func:`check_drawable`.
        sections: its numbers.
        theme: one of ``style.THEMES``.

    Raises:
        UserError: if nothing is measured, or matplotlib is not installed.
    """
    if not any(line.ours for section in sections for line in section.lines):
        raise UserError(f"--figure: nothing of {plan.table.name} is measured yet")
    if sections[0].column.curve:
        return curves.draw([_panel(section) for section in sections if _measured(section)], theme)
    systems = list(dict.fromkeys(_name(line) for s in sections for line in _measured(s)))
    label = next(line.ours.score for s in sections for line in _measured(s))
    return lengths.draw(_groups(plan, sections), systems, label, theme)


def _measured(section: Section) -> list[Line]:
    return [line for line in section.lines if line.ours]


def _name(line: Line) -> str:
    return line.system or line.row


def _panel(section: Section) -> curves.Panel:
    """A column of curves, as one of the plots above one another."""
    lines = _measured(section)
    found = []
    for name in dict.fromkeys(map(_name, lines)):
        points = [line for line in lines if _name(line) == name]
        found.append(
            Curve(
                run=name,
                what=section.column.name,
                source=CHECKPOINTS,
                subset="",
                updates=tuple(line.at for line in points),
                values=tuple(line.ours.value for line in points),
            )
        )
    return curves.Panel(lines[0].ours.score, found)


def _groups(plan: Plan, sections: list[Section]) -> list[GroupScores]:
    """The columns as groups of one test set, each with the scores of its rows."""
    done = next(run for run in plan.runs if run.folder.result.exists())
    words = source_lengths(done)
    groups = []
    for section in sections:
        members = section.column.group.sentences(words)
        scores = {
            _name(line): SystemScore(line.ours.value, None, line.ours.interval)
            for line in _measured(section)
        }
        size = sum(words[number] for number in members)
        groups.append(GroupScores(str(section.column.group), len(members), size, scores))
    return groups
