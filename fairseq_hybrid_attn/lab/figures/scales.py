"""Colours for weights: from the background's to one far from it, as on the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import style

if TYPE_CHECKING:
    from matplotlib.colors import Colormap

#: On a dark background; those of ``page/maps.css``.  A scale with grey in it would be taken for
#: what a pattern forbids.
_DARK = ("#15181c", "#12405f", "#1c7fb5", "#6cc4ee", "#f2fbff")


def scale(theme: str, bad: str) -> Colormap:
    """The colours of a theme's weights, with ``bad`` where there is none."""
    from matplotlib import colormaps
    from matplotlib.colors import LinearSegmentedColormap

    if theme == "dark":
        return LinearSegmentedColormap.from_list("dark", _DARK).with_extremes(bad=bad)
    return colormaps[style.THEMES[theme].sequential].with_extremes(bad=bad)
