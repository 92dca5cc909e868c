"""The page of a report: parts made of paragraphs, tables, figures and attention maps.

What a page says is built of the classes here, whatever it is about; ``report.html.j2`` shows it.
All texts are escaped there.  Figures are in the page twice, as SVG images for a light and a dark
background: images, since the names within two SVGs of matplotlib's would clash in one document.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..figures import style as figure_style
from ..maps.measure import ModelMaps
from ..maps.page import file_of, plotly_script, section, style, templates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Rows above which a table is folded away.
_LONG = 14


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    kind = "text"


@dataclass(frozen=True)
class Code:
    """Lines as they are, folded away under a caption."""

    caption: str
    text: str
    kind = "code"


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        headings: of its columns.
        rows: of cells: texts, numbers (floats get ``digits``), or None for an empty one.
        caption: above it.
        digits: after the point.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""
    digits: int = 3
    kind = "table"

    @property
    def is_long(self) -> bool:
        """Whether it is folded away."""
        return len(self.rows) > _LONG

    def is_number(self, column: int) -> bool:
        """Whether a column has numbers, which are to the right."""
        cells = [row[column] for row in self.rows if row[column] not in (None, "")]
        return bool(cells) and all(
            isinstance(cell, (int, float)) or cell.lstrip("-")[:1].isdigit() for cell in cells
        )

    def text(self, cell: object) -> str:
        """A cell, for people."""
        if cell is None:
            return ""
        return f"{cell:.{self.digits}f}" if isinstance(cell, float) else str(cell)


@dataclass(frozen=True)
class Drawing:
    """A figure.

    Attributes:
        caption: below it.
        images: SVG in base64, by theme.
    """

    caption: str
    images: dict[str, str]
    kind = "figure"

    @classmethod
    def of(cls, caption: str, draw: Callable[[str], Figure]) -> Drawing:
        """What ``draw`` draws in each theme.

        Raises:
            UserError: if matplotlib lacks.
        """
        return cls(
            caption,
            {
                theme: base64.b64encode(figure_style.render(draw(theme), "svg")).decode()
                for theme in figure_style.THEMES
            },
        )


@dataclass(frozen=True)
class Maps:
    """Interactive attention maps."""

    models: Sequence[ModelMaps]
    kind = "maps"

    @property
    def html(self) -> str:
        """As a part of the page."""
        return section(self.models)


@dataclass
class Part:
    """A part of a page, under a heading."""

    heading: str
    items: list[Text | Code | Table | Drawing | Maps] = field(default_factory=list)

    def add(self, *items: Text | Code | Table | Drawing | Maps) -> None:
        """Add what it shows, in order."""
        self.items += items


def report(title: str, parts: Sequence[Part]) -> str:
    """A whole page, as HTML.

    Raises:
        UserError: if a package lacks.
    """
    mapped = any(isinstance(item, Maps) for part in parts for item in part.items)
    template = templates().get_template("report.html.j2")
    return template.render(
        title=title,
        parts=parts,
        script=plotly_script() if mapped else "",
        style=style() + file_of("report.css"),
    )
