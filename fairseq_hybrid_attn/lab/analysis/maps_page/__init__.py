"""The interactive page of attention maps: one HTML file that needs no network.

:func:`section` makes a part that other pages can include, which must contain :func:`style`.
``base.html.j2`` is what this page and that of reports share.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np

from ....errors import UserError
from .. import UNITS
from ..maps_measure import ModelMaps

#: A weight is written as a 16-bit number: 0 = the pattern forbids it, 1 = 0, 65535 = 1.
STEPS = 65534


def require() -> None:
    """Check that the packages that make pages are installed."""
    try:
        import jinja2  # noqa: F401
    except ImportError as error:
        raise UserError(
            f'pages need jinja2: pip install "fairseq-hybrid-attn[analysis]" ({error})'
        ) from None


def page(title: str, models: Sequence[ModelMaps]) -> str:
    template = templates().get_template("maps.html.j2")
    return template.render(title=title, style=style(), section=section(models))


def section(models: Sequence[ModelMaps]) -> str:
    """The maps as a part of a page, which must contain :func:`style`."""
    data = [model.as_dict(packed) for model in models]
    template = templates().get_template("section.html.j2")
    return template.render(data=data, units=UNITS, code=file_of("maps.js"))


def style() -> str:
    return file_of("maps.css")


def packed(weights: np.ndarray, allowed: np.ndarray) -> str:
    """Weights from 0 to 1 as 16-bit numbers, little-endian, exact to 0.00001, in base64.

    What is not ``allowed`` becomes 0.
    """
    steps = 1 + np.rint(np.clip(weights, 0, 1) * STEPS)
    return base64.b64encode(np.where(allowed, steps, 0).astype("<u2").tobytes()).decode()


def templates(*packages: str):
    """The templates of other packages and of this one, in an environment that escapes values."""
    require()
    import jinja2

    loaders = [jinja2.PackageLoader(package, ".") for package in (*packages, __name__)]
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders), autoescape=True, trim_blocks=True
    )


def file_of(name: str) -> str:
    from importlib.resources import files

    return files(__name__).joinpath(name).read_text(encoding="utf-8")
