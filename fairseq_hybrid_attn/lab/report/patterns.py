"""All attention maps of a sentence at once, as small multiples (HySAN Fig. 5, MMA Fig. 3).

Each map is a tiny image, a pixel for each weight, which the page enlarges.
"""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass

import numpy as np

from ..analysis.maps_figure import MapPanel, rows_of
from ..analysis.maps_measure import Map, ModelMaps
from ..figures import style
from ..models import CROSS, DECODER, ENCODER

LABELS = {
    ENCODER: "encoder self-attention",
    DECODER: "decoder self-attention",
    CROSS: "cross-attention",
}


@dataclass(frozen=True)
class SmallMap:
    """A small map: its title, its images by theme, and what choosing it shows in the large one."""

    title: str
    images: dict[str, str]
    shows: dict[str, object]


@dataclass(frozen=True)
class SmallMaps:
    """All maps of one kind: rows of layers, columns of heads or branches."""

    label: str
    columns: int
    rows: list[tuple[str, list[SmallMap]]]


def small_maps(number: int, model: ModelMaps, sentence: int) -> list[SmallMaps]:
    """The maps of a model (from 0) for a sentence (from 0), those of one kind on one scale."""
    maps = model.of(sentence)["words"]
    return [_of_kind(number, kind, map_) for kind, map_ in maps.items()]


def _of_kind(number: int, kind: str, map_: Map) -> SmallMaps:
    rows = rows_of(map_)
    top = max(float(panel.weights.max()) for row in rows for panel in row.panels) or 1.0

    def small(layer: int, at: int, panel: MapPanel) -> SmallMap:
        part: dict[str, object] = {"branch": 0, "head": at}
        if map_.branched:
            part = {"branch": at, "head": "mean"}
        shows = {"model": number, "kind": kind, "layer": layer, **part}
        images = {theme: _image(panel, top, theme) for theme in style.THEMES}
        title = panel.title.removeprefix("head ").replace("\n", " · ")
        return SmallMap(title, images, shows)

    return SmallMaps(
        label=LABELS[kind],
        columns=max(len(row.panels) for row in rows),
        rows=[
            (row.title, [small(layer, at, panel) for at, panel in enumerate(row.panels)])
            for layer, row in enumerate(rows)
        ],
    )


def _image(panel: MapPanel, top: float, theme: str) -> str:
    """A map as PNG in base64; what the pattern forbids is grey."""
    from matplotlib.image import imsave

    colours = style.scale(theme, style.THEMES[theme].faint)
    shares = np.ma.masked_where(~panel.allowed, panel.weights / top)
    content = io.BytesIO()
    imsave(content, colours(shares, bytes=True), format="png", metadata={"Software": None})  # type: ignore[dict-item]
    return base64.b64encode(content.getvalue()).decode()
