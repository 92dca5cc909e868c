"""Drawing a table: learning curves, or scores by the length of the source sentence."""

from __future__ import annotations

from ...errors import UserError
from ..figures import style
from ..plan.plan import Plan
from . import by_length, curves
from .curves import CHECKPOINTS, LABELS, Curve
from .measuring import ColumnHead, TableNumbers


def check_drawable(plan: Plan) -> None:
    """Check, before the work, that the table is of a kind that can be drawn."""
    if not is_drawable(plan):
        raise UserError(
            f"no figure: {plan.table.name} has columns that are neither learning curves nor "
            "scores by source length; choose others with --columns"
        )


def is_drawable(plan: Plan) -> bool:
    """Whether the table is one of learning curves, or of one score by the source's length."""
    columns = {cell.column.name: cell.column for cell in plan.cells}.values()
    if all(column.curve for column in columns):
        return True
    groups = [column.group for column in columns]
    of_one_kind = len({cell.score for cell in plan.cells}) == 1
    return of_one_kind and None not in groups and len(set(groups)) == len(groups)


def draw(plan: Plan, numbers: TableNumbers, theme: str = "light") -> style.Figure:
    """Draw the measured numbers of a table (see :func:`check_drawable`)."""
    measured = numbers.measured
    if not measured:
        raise UserError(f"no figure: nothing in {plan.table.name} is measured yet")
    # The systems' names, if no two rows have the same.
    names = {number.row: number.system for number in measured}
    if not all(names.values()) or len(set(names.values())) < len(names):
        names = {row: row for row in names}
    labels = {n.column: LABELS.get(n.score, n.score) for n in measured}
    if numbers.columns[0].curve:
        shown = [column for column in numbers.columns if column.name in labels]
        return curves.draw([_panel(numbers, column, names, labels) for column in shown], theme)
    label = next(iter(labels.values()))
    columns = [plan.table.column(column.name) for column in numbers.columns]
    groups = {str(column.group): numbers.of(column.name) for column in columns}
    return by_length.draw(groups, names, label, theme)


def _panel(
    numbers: TableNumbers, column: ColumnHead, names: dict[str, str], labels: dict[str, str]
) -> curves.CurvePanel:
    """Panels of one score, of several columns, are told apart by the columns' titles."""
    points: dict[str, dict[int, float]] = {}
    for number in numbers.of(column.name):
        if number.ours and number.at is not None:
            points.setdefault(number.row, {})[number.at] = number.ours.value
    found = [
        Curve(names[row], column.name, CHECKPOINTS, "", tuple(values), tuple(values.values()))
        for row, values in points.items()
    ]
    label = labels[column.name]
    several = list(labels.values()).count(label) > 1
    return curves.CurvePanel(column.title if several else label, found, measure=label)
