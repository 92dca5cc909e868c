"""Where heads look: distance, entropy, and how much they differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..figures import style
from .heads_measure import ModelHeads

#: What is drawn of each head, and its title.
_MEASURES = {"distance": "mean distance, tokens", "relative_entropy": "entropy / largest possible"}

_CELL, _MOST_CELLS = 0.38, 16  # inches of a column; columns for which a panel grows


def draw(models: Sequence[ModelHeads], theme: str = "light") -> style.Figure:
    """Draw distance and entropy of each head, and how much the heads of each layer differ.

    There is a row for each model and kind of attention.  Distances of all have one scale.
    """
    distances = [row["distance"] for model in models for row in model.heads]
    longest = max((distance for distance in distances if distance is not None), default=0.0) or 1.0
    shown = [
        (model, kind, [row for row in model.heads if row["kind"] == kind])
        for model in models
        for kind in dict.fromkeys(row["kind"] for row in model.heads)
    ]
    columns = max(len(_columns(rows)) for _, _, rows in shown)
    heights = [1.3 + 0.3 * max(row["layer"] for row in rows) for _, _, rows in shown]
    with style.theme(theme, texts=[model.name for model in models]) as colours:
        width = 2 * max(2.6, 0.9 + _CELL * min(columns, _MOST_CELLS)) + 2.8
        figure = style.new_figure(width, sum(heights))
        grid = figure.subplots(len(shown), 3, squeeze=False, height_ratios=heights)
        for (model, kind, rows), axes in zip(shown, grid, strict=True):
            for place, (measure, title) in zip(axes, _MEASURES.items(), strict=False):
                ends = longest if measure == "distance" else 1.0
                _heatmap(place, rows, measure, style.scale(theme, colours.background), ends)
                place.set_title(f"{model.name}: {kind}\n{title}", fontsize=8)
            _lines(axes[2], [row for row in model.layers if row["kind"] == kind], colours)
    return figure


def _columns(rows: list[dict]) -> list[tuple[str, int, str]]:
    return list(dict.fromkeys((row["branch"], row["head"], row["pattern"]) for row in rows))


def _heatmap(axes, rows: list[dict], measure: str, colours: style.Colormap, top: float) -> None:
    columns = _columns(rows)
    layers = sorted({row["layer"] for row in rows})
    values = np.full((len(layers), len(columns)), np.nan)
    for row in rows:
        place = columns.index((row["branch"], row["head"], row["pattern"]))
        if row[measure] is not None:
            values[layers.index(row["layer"]), place] = row[measure]
    if np.isnan(values).all():
        axes.axis("off")
        axes.text(0.5, 0.5, "queries and keys are\ndifferent sentences", ha="center", va="center")
        return
    image = axes.imshow(values, cmap=colours, vmin=0, vmax=top, aspect="auto")
    axes.grid(False)
    axes.tick_params(length=0, labelsize=7)
    axes.set_yticks(range(len(layers)), [f"layer {number}" for number in layers])
    axes.set_xticks(
        range(len(columns)), [f"{word} {head}" for _, head, word in columns], rotation=90
    )
    bar = axes.figure.colorbar(image, ax=axes, fraction=0.03, pad=0.01)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=7)


def _lines(axes, differences: list[dict], colours: style.Theme) -> None:
    layers = [row["layer"] for row in differences]
    for number, what in enumerate(("heads", "branches")):
        values = [row[f"divergence_of_{what}"] for row in differences]
        if any(value is not None for value in values):
            numbers = [float("nan") if value is None else value for value in values]
            label = "heads of a branch" if what == "heads" else "branches"
            axes.plot(layers, numbers, label=label, **style.series(number, colours))
    axes.set_ylim(0, 1)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("layer")
    axes.set_ylabel("difference, bits")
    if len(axes.lines) > 1:
        axes.legend(fontsize=7)
    axes.set_title("Jensen-Shannon divergence", fontsize=8)
