"""The probing figure: the accuracy of each task."""

from __future__ import annotations

from collections.abc import Mapping

from ..figures import style
from .tasks import TASKS

#: Inches per task, and the part of it that its bars share.
_TASK = 0.85
_SHARED = 0.75


def draw(models: Mapping[str, dict], theme: str = "light") -> style.Figure:
    """Draw bars with the standard deviation over seeds, and a line at the most common class.

    ``models`` are results of `probe --json` by name.
    """
    results = {
        task: {name: m["tasks"][task.name] for name, m in models.items() if task.name in m["tasks"]}
        for task in TASKS.values()
    }
    results = {task: by_model for task, by_model in results.items() if by_model}
    with style.theme(theme, texts=models) as colours:
        figure = style.new_figure(max(5.0, 1.2 + _TASK * len(results)), 3.4)
        axes = figure.subplots()
        axes.grid(axis="x", visible=False)
        width = _SHARED / len(models)
        for number, name in enumerate(models):
            own = [(at, by[name]) for at, by in enumerate(results.values()) if name in by]
            axes.bar(
                [at + width * (number + 0.5) - _SHARED / 2 for at, _ in own],
                [result["accuracy"] for _, result in own],
                width,
                yerr=[result["deviation"] or 0.0 for _, result in own],
                ecolor=colours.ink,
                capsize=2.0,
                color=style.series(number, colours)["color"],
                label=name,
            )
        for at, by_model in enumerate(results.values()):
            axes.hlines(
                sorted({result["majority"] for result in by_model.values()}),
                at - _SHARED / 2,
                at + _SHARED / 2,
                colors=colours.ink,
                linestyles="--",
                linewidth=1.0,
                label="_" if at else "most common class",  # once in the legend
            )
        axes.set_xticks(range(len(results)), [f"{task.name}\n{task.group}" for task in results])
        axes.tick_params(axis="x", length=0, labelsize=8)
        axes.set_ylim(0, 100)
        axes.set_ylabel("accuracy, %")
        style.legend_above(axes)
    return figure
