"""The page of a report: parts made of paragraphs, and of what the macros of ``items.html.j2`` make.

Templates escape all texts.  Each figure is in the page twice, as images for a light and a dark
background.  They are images, since the names within two SVGs of matplotlib would clash in one
document.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from ..analysis import maps_page
from ..figures import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@cache
def _macros():
    return maps_page.templates(__package__).get_template("items.html.j2").module


def item(macro: str, *values: object) -> str:
    """The HTML that a macro of ``items.html.j2`` makes of values."""
    return getattr(_macros(), macro)(*values)


def figure(caption: str, draw: Callable[[str], Figure]) -> str:
    """A figure, drawn in a theme, with a caption below it."""
    images = {theme: style.render(draw(theme), "svg") for theme in style.THEMES}
    encoded = {theme: base64.b64encode(svg).decode() for theme, svg in images.items()}
    return item("figure", caption, encoded)


def page(title: str, about: str, parts: Mapping[str, Sequence[str]]) -> str:
    """The page of parts, by their headings; ``about`` is a line under its title."""
    look, code = (
        files(__package__).joinpath(name).read_text(encoding="utf-8")
        for name in ("page.css", "page.js")
    )
    template = maps_page.templates(__package__).get_template("page.html.j2")
    css = maps_page.style() + look
    return template.render(title=title, about=about, parts=parts, style=css, code=code)
