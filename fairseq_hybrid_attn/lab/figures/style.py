"""Style of all figures: colours, themes and fonts; and writing them.

Draw within :func:`theme`, on a :func:`new_figure`; write with :func:`save`.  There is no pyplot:
no window, no backend and no shared state.  matplotlib is an extra, imported when needed.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import UserError
from ..files.writing import atomic_write

if TYPE_CHECKING:
    from matplotlib.colors import Colormap as Colormap
    from matplotlib.figure import Figure as Figure


DOTS_PER_INCH = 150


@dataclass(frozen=True)
class Theme:
    """Colours for one kind of background."""

    background: str
    ink: str  #: text and axes
    faint: str  #: grid lines and hints
    #: Of series; distinct with common colour blindness, with a contrast of 3 to the background.
    palette: tuple[str, ...]


#: After Okabe and Ito (2008): blue, vermilion, green, purple, orange, and grey; darker on a light
#: background and brighter on a dark one, where contrast requires it.
THEMES = {
    "light": Theme(
        background="#ffffff",
        ink="#1f2328",
        faint="#d8dce1",
        palette=("#0072b2", "#d55e00", "#008f6b", "#b5578f", "#a87000", "#4d5761"),
    ),
    "dark": Theme(
        background="#15181c",
        ink="#e4e7eb",
        faint="#3a4049",
        palette=("#56b4e9", "#f0803c", "#1fc298", "#e08bbd", "#e6b422", "#b8bfc8"),
    ),
}

#: Amounts on a dark background, as in ``maps.css``; without grey, which is what a pattern forbids.
_DARK = ("#15181c", "#12405f", "#1c7fb5", "#6cc4ee", "#f2fbff")

#: Series beyond the palette repeat its colours with other lines and markers.
_LINES = ("-", "--", ":", "-.")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

#: Fonts with Japanese or Chinese characters, best first.
_JAPANESE = (
    *("Noto Sans CJK JP", "Noto Sans JP", "Source Han Sans JP", "Source Han Sans", "IPAexGothic"),
    *("IPAGothic", "TakaoGothic", "VL Gothic", "Hiragino Sans", "Yu Gothic", "Meiryo"),
)
_CHINESE = (
    *("Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "Source Han Sans"),
    *("WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "PingFang SC", "Microsoft YaHei", "SimHei"),
)


def require() -> None:
    # fairseq makes the root logger print everything, such as each font that matplotlib tries.
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise UserError(
            f'figures need matplotlib: pip install "fairseq-hybrid-attn[analysis]" ({error})'
        ) from None


@contextmanager
def theme(name: str = "light", texts: Iterable[str] = ()) -> Iterator[Theme]:
    """Draw in the colours of one of :data:`THEMES`, in fonts for the characters of ``texts``."""
    require()
    import matplotlib
    from cycler import cycler

    colours = THEMES[name]
    settings: dict[Any, Any] = {
        "figure.facecolor": colours.background,
        "axes.facecolor": colours.background,
        "savefig.facecolor": colours.background,
        **dict.fromkeys(
            "text.color axes.labelcolor axes.edgecolor xtick.color ytick.color".split(),
            colours.ink,
        ),
        "axes.prop_cycle": cycler(color=colours.palette),
        "grid.color": colours.faint,
        "grid.linewidth": 0.6,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.8,
        "axes.titlesize": "medium",
        "legend.frameon": False,
        "lines.linewidth": 1.6,
        "lines.markersize": 4.5,
        "font.family": fonts("".join(texts)),
        "font.size": 9.5,
        "axes.unicode_minus": False,
        # A "$" in a name does not begin a formula.
        "text.parse_math": False,
    }
    with matplotlib.rc_context(settings):
        yield colours


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", dpi=DOTS_PER_INCH)


def series(number: int, colours: Theme) -> dict:
    """Colour, line and marker of the ``number``-th series (from 0), for matplotlib's ``plot``."""
    again, index = divmod(number, len(colours.palette))
    return {
        "color": colours.palette[index],
        "linestyle": _LINES[again % len(_LINES)],
        "marker": _MARKERS[number % len(_MARKERS)],
    }


def scale(theme: str, bad: str) -> Colormap:
    """The colours of a theme's attention weights, with ``bad`` where there is no weight."""
    from matplotlib import colormaps
    from matplotlib.colors import LinearSegmentedColormap

    if theme == "dark":
        return LinearSegmentedColormap.from_list("dark", _DARK).with_extremes(bad=bad)
    return colormaps["Blues"].with_extremes(bad=bad)


def legend_above(axes, handles: list | None = None) -> None:
    """A legend above the axes, where it hides nothing, with a line for each name."""
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1.0), borderaxespad=0.2)


def render(figure: Figure, form: str) -> bytes:
    """The content of a png, pdf or svg; the same figure gives the same bytes."""
    import matplotlib

    # Metadata that would be the time of writing.
    undated = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}[form]
    content = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "fairseq_hybrid_attn"}):
        figure.savefig(content, format=form, metadata=undated, dpi=DOTS_PER_INCH)
    return content.getvalue()


def save(figure: Figure, path: Path) -> None:
    """Write a figure atomically, in the format of the file's suffix."""
    content = render(figure, path.suffix.lower().removeprefix("."))
    with atomic_write(path) as file:
        file.write(content)


def fonts(text: str) -> list[str]:
    """Installed fonts to draw a text in, matplotlib's own first."""
    from matplotlib import font_manager, rcParamsDefault

    kana = any("\u3040" <= character <= "\u30ff" for character in text)
    preferred = (*_JAPANESE, *_CHINESE) if kana else (*_CHINESE, *_JAPANESE)
    installed = {font.name for font in font_manager.fontManager.ttflist}
    first = rcParamsDefault["font.sans-serif"][0]
    return [first, *(family for family in preferred if family in installed)]
