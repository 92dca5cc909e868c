"""The page of a report: parts made of paragraphs, tables, figures, sentences and attention maps.

``page.html.j2`` shows the classes here, and escapes all texts.  Each figure is in the page twice,
as images for a light and a dark background.  They are images, since the names within two SVGs of
matplotlib would clash in one document.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from ..files.tabular import Grid
from ..look import maps_page
from ..look import style as figure_style
from ..look.maps_measure import ModelMaps
from .findings import SentenceScores
from .patterns import SmallMaps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Number of rows above which a table is folded away.
_LONG = 14


@dataclass(frozen=True)
class Code:
    """Verbatim lines, folded away under a caption."""

    caption: str
    text: str
    kind = "code"


@dataclass(frozen=True)
class PageTable:
    """A table, with a caption above it; one that is folded sorts at a click on a heading."""

    grid: Grid
    caption: str = ""
    folded: bool | None = None  #: None: if it is long
    kind = "table"

    @property
    def is_folded(self) -> bool:
        return len(self.grid.rows) > _LONG if self.folded is None else self.folded


@dataclass(frozen=True)
class Cards:
    """Numbers side by side under what they are of: each with a label before, details after it."""

    caption: str
    cards: Sequence[tuple[str, str, str]]
    kind = "cards"


@dataclass(frozen=True)
class Patterns:
    """All maps of a sentence at once, perhaps under the name of a model."""

    caption: str
    kinds: Sequence[SmallMaps]
    kind = "patterns"


@dataclass(frozen=True)
class SentenceList:
    """Sentences with their translations, under a caption."""

    caption: str
    examples: Sequence[SentenceScores]
    kind = "sentences"


@dataclass(frozen=True)
class Drawing:
    """A figure, with a caption below it; ``images``: SVG in base64, by theme."""

    caption: str
    images: dict[str, str]
    kind = "figure"

    @classmethod
    def of(cls, caption: str, draw: Callable[[str], Figure]) -> Drawing:
        images = {theme: figure_style.render(draw(theme), "svg") for theme in figure_style.THEMES}
        return cls(caption, {key: base64.b64encode(svg).decode() for key, svg in images.items()})


@dataclass(frozen=True)
class Maps:
    models: Sequence[ModelMaps]
    kind = "maps"

    @property
    def html(self) -> str:
        return maps_page.section(self.models)


#: A text is a paragraph.
Item = str | Code | PageTable | Cards | Patterns | SentenceList | Drawing | Maps


@dataclass(frozen=True)
class Part:
    heading: str
    items: Sequence[Item]


def report(title: str, parts: Sequence[Part], about: str = "") -> str:
    """The page; ``about`` is a line under its title."""
    look, code = (
        files(__package__).joinpath(name).read_text(encoding="utf-8")
        for name in ("page.css", "page.js")
    )
    template = maps_page.templates(__package__).get_template("page.html.j2")
    style = maps_page.style() + look
    return template.render(title=title, about=about, parts=parts, style=style, code=code)
