"""Attention maps side by side: layers, branches, heads or models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..maps import Map
from . import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Inches of a panel, by the inches that a token should have; and points of a token's label.
_TOKEN, _SMALLEST, _LARGEST = 0.11, 1.3, 4.5
_LABEL, _SMALLEST_LABEL = 7.0, 2.5
_LONGEST = 20  # characters of a label


@dataclass(frozen=True)
class Panel:
    """One map of a figure.

    Attributes:
        title: above it.
        weights: ``[n, m]``.
        allowed: likewise; what the pattern forbids is grey.
    """

    title: str
    weights: np.ndarray
    allowed: np.ndarray


def heads_of_layers(one: Map, branch: int = 0) -> list[list[Panel]]:
    """A row for each layer, a column for each head of a branch (MMA Fig. 3)."""
    return [
        [
            Panel(
                f"layer {layer.number}, head {head + 1}\n{word}", *_taken(one, place, branch, head)
            )
            for head, word in enumerate(layer.heads[branch])
        ]
        for place, layer in enumerate(one.layers)
        if branch < len(layer.heads)
    ]


def branches_of_layers(one: Map) -> list[list[Panel]]:
    """A row for each layer, a column for each branch, the mean of its heads."""
    return [branches(one, place, f"layer {layer.number}") for place, layer in enumerate(one.layers)]


def branches(one: Map, layer: int, title: str) -> list[Panel]:
    """The branches of a layer (from 0), each the mean of its heads: a row of HySAN's Fig. 5."""
    return [
        Panel(f"{title}\n{word}", *_taken(one, layer, branch, None))
        for branch, word in enumerate(one.layers[layer].branches)
    ]


def _taken(one: Map, layer: int, branch: int, head: int | None) -> tuple[np.ndarray, np.ndarray]:
    weights, allowed = one.weights[layer][branch], one.allowed[layer][branch]
    if head is None:
        return weights.mean(0), allowed.any(0)
    return weights[head], allowed[head]


def draw(
    panels: list[list[Panel]], queries: list[str], keys: list[str], theme: str = "light"
) -> Figure:
    """Maps in rows and columns, all with the same tokens and colours.

    Args:
        panels: rows of panels; rows may be of different length.
        queries: tokens of each map's rows.
        keys: those of its columns.
        theme: one of ``style.THEMES``.

    Raises:
        UserError: if matplotlib is not installed.
    """
    width, height = (
        min(max(_TOKEN * len(tokens), _SMALLEST), _LARGEST) for tokens in (keys, queries)
    )
    room = 72 * min(width / len(keys), height / len(queries))  # points for a token
    label = max(min(_LABEL, 0.8 * room), _SMALLEST_LABEL)
    labels = [_short(tokens) for tokens in (queries, keys)]
    beside, below = (label / 72 * 0.65 * max(map(len, names)) for names in labels)
    columns = max(map(len, panels))
    top = max(float(panel.weights.max()) for row in panels for panel in row)
    with style.theme(theme, texts=[*queries, *keys]) as colours:
        from matplotlib import colormaps

        scale = colormaps[colours.sequential].copy()
        scale.set_bad(colours.faint)
        figure = style.new_figure(
            columns * (width + 0.15) + beside + 0.9, len(panels) * (height + 0.5) + below + 0.3
        )
        grid = figure.subplots(len(panels), columns, squeeze=False, sharex=True, sharey=True)
        for row, shown in zip(grid, panels, strict=True):
            for axes in row[len(shown) :]:
                axes.axis("off")
            for axes, panel in zip(row, shown, strict=False):
                weights = np.ma.masked_where(~panel.allowed, panel.weights)
                image = axes.imshow(weights, cmap=scale, vmin=0, vmax=top or 1, aspect="auto")
                axes.set_title(panel.title, fontsize=7.5)
                axes.grid(False)
                axes.tick_params(length=0, labelsize=label)
        grid[0, 0].set_yticks(range(len(queries)), labels[0])
        grid[0, 0].set_xticks(range(len(keys)), labels[1])
        for axes in grid[-1]:
            axes.tick_params(axis="x", rotation=90)
        bar = figure.colorbar(image, ax=grid, aspect=30, fraction=0.03, shrink=1 / len(panels))
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=7)
    return figure


def _short(tokens: list[str]) -> list[str]:
    return [t if len(t) <= _LONGEST else f"{t[: _LONGEST - 1]}…" for t in tokens]
