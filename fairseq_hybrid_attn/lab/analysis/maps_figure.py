"""Attention maps side by side: layers, branches, heads or models."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

from ..figures import style
from ..models import ENCODER
from .maps_measure import Map, ModelMaps

#: Inches for a token, least and most inches of a panel; most and least points of a token's label.
_TOKEN, _SMALLEST, _LARGEST = 0.11, 1.3, 4.5
_LABEL, _SMALLEST_LABEL = 7.0, 2.5
_LONGEST = 20  # characters of a label
#: Inches between panels, of a panel's title, and of the scale with its numbers.
_GAP, _TITLE, _BAR = 0.12, 0.42, 0.6


@dataclass(frozen=True)
class MapPanel:
    """One map ``[n, m]`` of a figure; what is not ``allowed`` is grey."""

    title: str
    weights: np.ndarray
    allowed: np.ndarray


@dataclass(frozen=True)
class MapRow:
    """Maps side by side, with a title to their left."""

    title: str
    panels: list[MapPanel]


def rows_of(map_: Map) -> list[MapRow]:
    """A row for each layer, a column for each head (MMA Fig. 3).

    If layers have several branches, a column is a branch, the mean of its heads.
    """
    return [
        MapRow(
            f"layer {layer.number}",
            [
                MapPanel(word, weights[branch].mean(0), allowed[branch].any(0))
                for branch, word in enumerate(layer.branches)
            ]
            if map_.branched
            else [
                MapPanel(f"head {head + 1}\n{word}", weights[0, head], allowed[0, head])
                for head, word in enumerate(layer.heads[0])
            ],
        )
        for layer, weights, allowed in zip(map_.layers, map_.weights, map_.allowed, strict=True)
    ]


def compared(maps: dict[str, Map]) -> list[MapRow]:
    """The rows of each layer, models below each other (HySAN Fig. 5); ``maps`` by model."""
    of_models = [
        [replace(row, title=f"{name}\n{row.title}") for row in rows_of(map_)]
        for name, map_ in maps.items()
    ]
    return [row for layer in zip(*of_models, strict=False) for row in layer]


def draw(
    rows: list[MapRow], queries: list[str], keys: list[str], theme: str = "light"
) -> style.Figure:
    """Draw maps in rows, all with the same colours and the same tokens as queries and keys."""
    width, height = (
        min(max(_TOKEN * len(tokens), _SMALLEST), _LARGEST) for tokens in (keys, queries)
    )
    room = 72 * min(width / len(keys), height / len(queries))  # points for a token
    label = max(min(_LABEL, 0.8 * room), _SMALLEST_LABEL)
    labels = [_short(tokens) for tokens in (queries, keys)]
    beside, below = (_GAP + label / 72 * max(map(_ems, names)) for names in labels)
    beside += 0.14 * max(len(row.title.split("\n")) for row in rows) + _GAP
    columns = max(len(row.panels) for row in rows)
    top = max(float(panel.weights.max()) for row in rows for panel in row.panels)
    with style.theme(theme, texts=[*queries, *keys, *(row.title for row in rows)]) as colours:
        look = {"aspect": "auto", "interpolation": "nearest", "vmin": 0, "vmax": top or 1}
        look["cmap"] = style.scale(theme, colours.faint)
        # Laid out here: matplotlib's own layout takes longer than everything else.
        whole = beside + columns * (width + _GAP) + _BAR, below + len(rows) * (height + _TITLE)
        figure = style.new_figure(*whole)
        figure.set_layout_engine(None)
        grid = figure.subplots(len(rows), columns, squeeze=False)
        figure.subplots_adjust(
            left=beside / whole[0],
            right=1 - (_GAP + _BAR) / whole[0],
            bottom=below / whole[1],
            top=1 - _TITLE / whole[1],
            wspace=_GAP / width,
            hspace=_TITLE / height,
        )
        for line, row in zip(grid, rows, strict=True):
            for axes in line[len(row.panels) :]:
                axes.axis("off")
            for axes, panel in zip(line, row.panels, strict=False):
                weights = np.ma.masked_where(~panel.allowed, panel.weights)
                image = axes.imshow(weights, **look)
                axes.set_title(panel.title, fontsize=7.5)
                axes.grid(False)
                axes.spines[:].set_visible(False)
                axes.tick_params(length=0, labelsize=label)
                # Only the outer maps have labels, since the layout of each takes time.
                axes.set_xticks([])
                axes.set_yticks([])
            line[0].set_yticks(range(len(queries)), labels[0])
            line[0].set_ylabel(row.title, fontsize=8)
        for axes in grid[-1]:
            axes.set_xticks(range(len(keys)), labels[1], rotation=90)
        place = (1 - _BAR / whole[0], below / whole[1], 0.12 / whole[0], height / whole[1])
        bar = figure.colorbar(image, cax=figure.add_axes(place))
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=7)
    return figure


def _short(tokens: list[str]) -> list[str]:
    return [t if len(t) <= _LONGEST else f"{t[: _LONGEST - 1]}…" for t in tokens]


def _ems(text: str) -> float:
    """The approximate width of a text, in units of its font size."""
    return sum(1.0 if unicodedata.east_asian_width(c) in "WF" else 0.65 for c in text)


def write(models: Sequence[ModelMaps], unit: str, folder: Path, theme: str) -> None:
    """Write PNG and PDF files of each sentence, kind and model, and of the encoders compared."""
    for name, rows, map_ in tqdm(list(figures_of(models, unit)), unit=" figures", file=sys.stderr):
        drawn = draw(rows, map_.queries, map_.keys, theme)
        for suffix in (".png", ".pdf"):
            style.save(drawn, folder / f"{name}{suffix}")


def figures_of(models: Sequence[ModelMaps], unit: str) -> Iterator[tuple[str, list[MapRow], Map]]:
    """Name, rows of maps and a map with the tokens of each figure."""
    for place, first in enumerate(models[0].sentences):
        begin = f"sentence{first.number + 1}"
        encoders = {}
        for number, model in enumerate(models, start=1):
            maps = model.sentences[place].units[unit]
            which = f".model{number}" if len(models) > 1 else ""
            for kind, map_ in maps.items():
                yield f"{begin}.{kind}{which}", rows_of(map_), map_
            if ENCODER in maps:
                encoders[model.name] = maps[ENCODER]
        if len(encoders) > 1:
            (map_, *_) = encoders.values()
            yield f"{begin}.compare", compared(encoders), map_
