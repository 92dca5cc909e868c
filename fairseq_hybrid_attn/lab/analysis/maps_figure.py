"""Attention maps side by side: layers, branches, heads or models."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
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
    """Maps of the same tokens side by side, with a title to their left."""

    title: str
    queries: list[str]
    keys: list[str]
    panels: list[MapPanel]


def rows_of(map_: Map) -> list[MapRow]:
    """A row for each layer, a column for each head (MMA Fig. 3).

    If layers have several branches, a column is a branch, the mean of its heads.
    """
    return [
        MapRow(
            f"layer {layer.number}",
            map_.queries,
            map_.keys,
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
    """The rows of each layer, models below each other (HySAN Fig. 5); ``maps`` by model.

    One model may have more layers than another.
    """
    of_models = [
        [replace(row, title=f"{name}\n{row.title}") for row in rows_of(map_)]
        for name, map_ in maps.items()
    ]
    return [row for layer in zip_longest(*of_models) for row in layer if row]


def draw(rows: list[MapRow], theme: str = "light") -> style.Figure:
    """Draw maps in rows, all with the same colours; rows of other keys have labels of their own."""
    queries, keys = ([row.queries for row in rows], [row.keys for row in rows])
    most = [max(map(len, tokens)) for tokens in (keys, queries)]
    width, height = (min(max(_TOKEN * count, _SMALLEST), _LARGEST) for count in most)
    room = 72 * min(width / most[0], height / most[1])  # points for a token
    label = max(min(_LABEL, 0.8 * room), _SMALLEST_LABEL)
    beside, below = (
        _GAP + label / 72 * max(_ems(name) for tokens in side for name in _short(tokens))
        for side in (queries, keys)
    )
    labelled = [here != next_ for here, next_ in zip(keys, [*keys[1:], None], strict=True)]
    between = _TITLE + below * any(labelled[:-1])
    beside += 0.14 * max(len(row.title.split("\n")) for row in rows) + _GAP
    columns = max(len(row.panels) for row in rows)
    top = max(float(panel.weights.max()) for row in rows for panel in row.panels)
    texts = [*sum(queries + keys, []), *(row.title for row in rows)]
    with style.theme(theme, texts=texts) as colours:
        look = {"aspect": "auto", "interpolation": "nearest", "vmin": 0, "vmax": top or 1}
        look["cmap"] = style.scale(theme, colours.faint)
        # Laid out here: matplotlib's own layout takes longer than everything else.
        high = below + len(rows) * (height + between) - between + _TITLE
        whole = beside + columns * (width + _GAP) + _BAR, high
        figure = style.new_figure(*whole)
        figure.set_layout_engine(None)
        grid = figure.subplots(len(rows), columns, squeeze=False)
        figure.subplots_adjust(
            left=beside / whole[0],
            right=1 - (_GAP + _BAR) / whole[0],
            bottom=below / whole[1],
            top=1 - _TITLE / whole[1],
            wspace=_GAP / width,
            hspace=between / height,
        )
        for line, row, last in zip(grid, rows, labelled, strict=True):
            shown = line[: len(row.panels)]
            for axes in line[len(shown) :]:
                axes.axis("off")
            for axes, panel in zip(shown, row.panels, strict=True):
                weights = np.ma.masked_where(~panel.allowed, panel.weights)
                image = axes.imshow(weights, **look)
                axes.set_title(panel.title, fontsize=7.5)
                axes.grid(False)
                axes.spines[:].set_visible(False)
                axes.tick_params(length=0, labelsize=label)
                # Only the outer maps have labels, since the layout of each takes time.
                axes.set_yticks([])
                axes.set_xticks([])
                if last:
                    axes.set_xticks(range(len(row.keys)), _short(row.keys), rotation=90)
            line[0].set_yticks(range(len(row.queries)), _short(row.queries))
            line[0].set_ylabel(row.title, fontsize=8)
        bounds = (1 - _BAR / whole[0], below / whole[1], 0.12 / whole[0], height / whole[1])
        bar = figure.colorbar(image, cax=figure.add_axes(bounds))
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
    for name, rows in tqdm(list(figures_of(models, unit)), unit=" figures", file=sys.stderr):
        drawn = draw(rows, theme)
        for suffix in (".png", ".pdf"):
            style.save(drawn, folder / f"{name}{suffix}")


def figures_of(models: Sequence[ModelMaps], unit: str) -> Iterator[tuple[str, list[MapRow]]]:
    """Name and rows of maps of each figure."""
    for sentence in models[0].sentences:
        begin = f"sentence{sentence.number + 1}"
        encoders = {}
        for number, model in enumerate(models, start=1):
            maps = model.of(sentence.number)[unit]
            which = f".model{number}" if len(models) > 1 else ""
            for kind, map_ in maps.items():
                yield f"{begin}.{kind}{which}", rows_of(map_)
            if ENCODER in maps:
                encoders[model.name] = maps[ENCODER]
        if len(encoders) > 1:
            yield f"{begin}.compare", compared(encoders)
