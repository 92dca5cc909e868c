"""The interactive page of attention maps: one HTML file that needs no network.

:func:`section` makes a part that other pages can include, which must contain :func:`style`.
``base.html.j2`` is what this page and that of reports share.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np

from ....errors import UserError
from ..maps_measure import UNITS, Map, ModelMaps

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
    return (
        templates()
        .get_template("section.html.j2")
        .render(data=page_data(models), units=UNITS, code=file_of("maps.js"))
    )


def style() -> str:
    return file_of("maps.css")


def page_data(models: Sequence[ModelMaps]) -> dict:
    """All data that the page shows, for JSON.

    ``weights`` of a map are all its numbers, layer after layer, as :func:`packed`.
    """
    return {
        "sentences": [
            {"number": sentence.number + 1, "source": sentence.source, "target": sentence.target}
            for sentence in models[0].sentences
        ],
        "models": [
            {
                "name": model.name,
                "description": model.description,
                "sentences": [
                    {
                        unit: {kind: _map_data(map_) for kind, map_ in maps.items()}
                        for unit, maps in sentence.units.items()
                    }
                    for sentence in model.sentences
                ],
            }
            for model in models
        ],
    }


def _map_data(map_: Map) -> dict:
    numbers = [packed(*pair) for pair in zip(map_.weights, map_.allowed, strict=True)]
    return {
        "queries": map_.queries,
        "keys": map_.keys,
        "layers": map_.described(),
        "weights": base64.b64encode(b"".join(numbers)).decode(),
    }


def packed(weights: np.ndarray, allowed: np.ndarray) -> bytes:
    """Weights from 0 to 1 as 16-bit numbers, little-endian, exact to 0.00001.

    What is not ``allowed`` becomes 0.
    """
    steps = 1 + np.rint(np.clip(weights, 0, 1) * STEPS)
    return np.where(allowed, steps, 0).astype("<u2").tobytes()


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
