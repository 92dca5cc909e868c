"""What a model is: size, patterns, and its checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from torch import nn

from ..files.checksums import sha256
from ..inference.attentions import Layer


@dataclass(frozen=True)
class Summary:
    """What a report says of a model before it measures anything.

    Attributes:
        name: for display.
        description: architecture, and whether there are positions.
        patterns: a line for each kind of attention and equal layers.
        parameters: shared ones counted once.
        path: of the checkpoint.
        sha256: of that file.
    """

    name: str
    description: str
    patterns: list[str]
    parameters: int
    path: str
    sha256: str


def summary(
    name: str, description: str, model: nn.Module, layers: dict[str, list[Layer]], path: Path
) -> Summary:
    """Summarise a model with these attention layers, by kind."""
    return Summary(
        name=name,
        description=description,
        patterns=[line for kind in layers.values() for line in patterns_of(kind)],
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        path=str(path),
        sha256=sha256(path),
    )


def patterns_of(layers: list[Layer]) -> list[str]:
    """Return a line for each run of equal layers: the patterns of their branches or heads.

    ``encoder 1-6: global | fw`` are branches; of heads that differ, ``2 × global, 2 × local``.
    """
    lines = []
    for heads, alike in groupby(layers, key=lambda layer: (layer.heads, layer.gate)):
        alike = list(alike)
        first, last = alike[0].number, alike[-1].number
        where = str(first) if first == last else f"{first}-{last}"
        branches = " | ".join(map(_words, heads[0]))
        what = f" ({heads[1]} gates)" if heads[1] else ""
        lines.append(f"{alike[0].kind} {where}: {branches}{what}")
    return lines


def _words(heads: tuple[str, ...]) -> str:
    """Return a branch's pattern, or how many heads have which."""
    if len(set(heads)) == 1:
        return heads[0]
    return ", ".join(f"{heads.count(word)} × {word}" for word in dict.fromkeys(heads))
