"""Results of probing, for one or several models: what `probe --write` writes, tables, a figure."""

from __future__ import annotations

from collections.abc import Mapping

from ..figures import style
from ..files.tabular import Grid
from .tasks import GROUPS, TASKS

#: Inches per task, and the part of it that its bars share.
_TASK = 0.85
_SHARED = 0.75


def grid(models: Mapping[str, dict]) -> Grid:
    """A row for each task, then for each group that any of the named models has."""
    rows = []
    for task in TASKS.values():
        results = [model["tasks"].get(task.name) for model in models.values()]
        if any(results):
            majorities = dict.fromkeys(f"{result['majority']:.2f}" for result in results if result)
            rows.append([task.name, task.group, *map(_accuracy, results), " or ".join(majorities)])
    for group in GROUPS:
        results = [model["groups"].get(group) for model in models.values()]
        if any(results):
            rows.append([f"all {group}", group, *map(_accuracy, results), ""])
    return Grid(["task", "group", *models, "most common class"], rows, left=2)


def _accuracy(result: dict | None) -> str:
    if result is None:
        return ""
    deviation = result["deviation"]
    return f"{result['accuracy']:.2f}" + (
        "" if deviation is None else f" (deviation {deviation:.2f})"
    )


def notes(models: Mapping[str, dict]) -> list[str]:
    """Say how models were probed, and what cannot be compared."""
    lines = []
    for name, model in models.items():
        seeds = max((len(task["seeds"]) for task in model["tasks"].values()), default=0)
        settings = ", ".join(
            f"{key} {' or '.join(map(str, value)) if isinstance(value, list) else value}"
            for key, value in model["classifier"].items()
        )
        states = f"layer {model['layer']}, end symbol {model['end_symbol']}, seeds {seeds}"
        lines.append(f"{name}: {states}; {settings}")
    if len({line.partition(": ")[2] for line in lines}) > 1:
        lines.append(
            "The models were probed with different settings, which may explain differences."
        )
    for task in TASKS:
        files = {m["tasks"][task]["sha256"] for m in models.values() if task in m["tasks"]}
        if len(files) > 1:
            lines.append(f"{task}: the models were probed on different files: not comparable.")
    return lines


def draw(models: Mapping[str, dict], theme: str = "light") -> style.Figure:
    """Draw bars with the standard deviation over seeds, and a line at the most common class.

    ``models`` are results of `probe --write` by name.
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
            bars = [(at, by[name]) for at, by in enumerate(results.values()) if name in by]
            axes.bar(
                [at + width * (number + 0.5) - _SHARED / 2 for at, _ in bars],
                [result["accuracy"] for _, result in bars],
                width,
                yerr=[result["deviation"] or 0.0 for _, result in bars],
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
        axes.set_ylabel("accuracy and its deviation, %")
        style.legend_above(axes)
    return figure
