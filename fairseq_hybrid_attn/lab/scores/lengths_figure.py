"""The figure of scores by the length of the source sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..figures import style
from .lengths_measure import GroupScores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Inches of a group, and the part of it that its systems' points share.
_GROUP = 0.95
_SHARED = 0.5


def draw(
    groups: Sequence[GroupScores], systems: Sequence[str], label: str, theme: str = "light"
) -> Figure:
    """Draw points with 95 % intervals, a line per system; a group without sentences is a gap."""
    with style.theme(theme, texts=[*systems, label]) as colours:
        figure = style.new_figure(max(4.5, 1.2 + _GROUP * len(groups)), 3.6)
        axes = figure.subplots()
        axes.grid(axis="x", visible=False)
        for number, system in enumerate(systems):
            # Side by side, so that intervals do not hide one another.
            shift = _SHARED * ((number + 0.5) / len(systems) - 0.5)
            found = [
                group.systems[system].estimate if system in group.systems else None
                for group in groups
            ]
            axes.errorbar(
                [place + shift for place in range(len(groups))],
                [float("nan") if one is None else one.value for one in found],
                yerr=[0.0 if one is None else one.half or 0.0 for one in found],
                label=system,
                capsize=2.5,
                elinewidth=1.0,
                **style.series(number, colours),
            )
        headings = [f"{group.label}\nn = {group.sentences:,}" for group in groups]
        axes.set_xticks(range(len(groups)), headings)
        axes.set_xlim(-0.6, len(groups) - 0.4)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("words of the source sentence (n: sentences)")
        axes.set_ylabel(label)
        style.legend_above(axes)
    return figure
