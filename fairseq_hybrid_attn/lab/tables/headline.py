"""The figure at the top of the document of results: systems with and without something.

On the left are their levels in each column, on the right what they lose: ours beside the paper's.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from ..look import style
from .grids import name_of
from .kept_tables import KeptTable
from .numbers import Section, differences, over_seeds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Between the lines of one system, in units of those between systems.
_STEP = 0.25
#: Of all text, to be read in a page at half its width.
_POINTS = 13


def headline_table(tables: list[KeptTable]) -> KeptTable | None:
    """The measured table that says that it is the headline; one on the papers' corpora first."""
    found = [one for one in tables if one.numbers.is_measured and _pairs(one)]
    return min(found, key=lambda one: one.numbers.text is not None, default=None)


def save(tables: list[KeptTable], folder: Path) -> None:
    """Write the figure for light and for dark pages, if there is a headline table."""
    table = headline_table(tables)
    for theme in style.THEMES if table else ():
        style.save(draw(table, theme), folder / f"headline-{theme}.svg")


def draw(table: KeptTable, theme: str = "light") -> Figure:
    """Rows from top to bottom; what has not been measured is left out."""
    pairs = _pairs(table)
    first = next(iter(pairs.values()))
    rows = [line.row for line in first.lines]
    names = [name_of(line).partition(" (")[0].replace(" ", "\n", 1) for line in first.lines]
    with style.theme(theme, names) as colours:
        figure = style.new_figure(8, 1.9 + 0.85 * len(rows))
        levels, losses = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
        for number, section in enumerate((first, *pairs)):
            _levels(levels, section, rows, number, colours.palette[number])
        for number, (without, whole) in enumerate(pairs.items(), 1):
            _losses(losses, without, (first, whole), rows, number, colours.palette[number])
        _legend(figure, [first, *pairs], colours)
        score = first.measured[0].ours.score if first.measured else first.score
        name = score.partition(".")[0].upper().replace("_", " ")
        seeds = max((len(line.ours.seeds) for line in first.measured), default=0)
        levels.set_xlabel(f"{name} ({seeds} seed{'s' * (seeds != 1)})", size=_POINTS)
        losses.set_xlabel(f"{name} lost", size=_POINTS)
        levels.set_yticks(range(len(rows)), names)
        levels.set_ylim(len(rows) - 0.5, -0.5)
        losses.axvline(0, color=colours.ink, linewidth=0.8)
        for axes in (levels, losses):
            axes.grid(axis="y", visible=False)
            for between in range(1, len(rows)):
                axes.axhline(between - 0.5, color=colours.faint, linewidth=0.8)
            axes.tick_params(axis="y", length=0)
            axes.tick_params(labelsize=_POINTS)
            axes.margins(x=0.06)
        figure.get_layout_engine().set(wspace=0.06)
    return figure


def _pairs(table: KeptTable) -> dict[Section, Section]:
    """Columns without something, each with the column that has it, where both were published."""
    sections = {section.name: section for section in table.numbers.sections}
    return {
        sections[without]: sections[whole]
        for without, whole in table.plan.table.headline.items()
        if without in sections and whole in sections
    }


def _legend(figure: Figure, sections: list[Section], colours: style.Theme) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [
        Patch(color=colour, label=section.title.partition(" (")[0])
        for section, colour in zip(sections, colours.palette, strict=False)
    ]
    kinds = {line.ours.over for section in sections for line in section.measured}
    interval = f"95 % interval{' over seeds' if kinds == {'seeds'} else ''}"
    ink = {"color": colours.ink, "linestyle": "none"}
    handles += [
        Line2D([], [], marker="o", markersize=5, label="a seed", **ink),
        Line2D([], [], color=colours.ink, linewidth=6, alpha=0.35, label=interval),
        Line2D([], [], marker="D", markersize=9, mfc="none", mew=1.8, label="the paper", **ink),
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=2, fontsize=_POINTS)


def _levels(axes: Axes, section: Section, rows: list[str], number: int, colour: str) -> None:
    for line in section.measured:
        if line.row in rows:
            at = rows.index(line.row) + _STEP * (number - 1)
            half = line.ours.interval
            _mark(axes, line.ours.by_seed, half, at, colour)


def _losses(
    axes: Axes,
    without: Section,
    wholes: tuple[Section, Section],
    rows: list[str],
    number: int,
    colour: str,
) -> None:
    """Ours can be measured from the first column, too: its runs are the same."""
    first, whole = ({line.row: line for line in section.lines} for section in wholes)
    for line in without.lines:
        if line.row not in rows:
            continue
        at, paper = rows.index(line.row) + _STEP * (number - 1), whole.get(line.row)
        if paper and paper.paper is not None and line.paper is not None:
            lost = paper.paper - line.paper
            axes.plot([lost], [at], marker="D", markersize=10, mfc="none", mew=2, color=colour)
        before = (paper or first[line.row]).ours
        if line.ours and before and (lost := differences(before, line.ours)):
            _mark(axes, lost, over_seeds(lost), at, colour)


def _mark(
    axes: Axes, by_seed: tuple[float, ...], half: float | None, at: float, colour: str
) -> None:
    """The mean as a bar's middle with its interval, and a dot for each seed."""
    mean = fmean(by_seed)
    if half is not None:
        axes.plot([mean - half, mean + half], [at, at], color=colour, linewidth=6, alpha=0.35)
    axes.plot([mean], [at], marker="|", markersize=15, markeredgewidth=2.5, color=colour)
    axes.plot(by_seed, [at] * len(by_seed), "o", markersize=5, color=colour)
