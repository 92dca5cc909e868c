"""What a model is: size, patterns, and the file that it comes from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

from torch import nn

from ..files.checksums import sha256
from ..inference.attentions import Layer


@dataclass(frozen=True)
class Summary:
    """What a report says of a model before it looks.

    Attributes:
        name: for people.
        description: architecture, and whether there are positions.
        patterns: a line for each kind of attention and layers that are alike.
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

    def as_dict(self) -> dict:
        """For JSON."""
        return asdict(self)


def summary(
    name: str, description: str, model: nn.Module, layers: dict[str, list[Layer]], path: Path
) -> Summary:
    """The summary of a model.

    Args:
        name: for people.
        description: of one line.
        model: of which.
        layers: its attentions, by kind.
        path: its checkpoint.

    Raises:
        UserError: if the file cannot be read.
    """
    return Summary(
        name=name,
        description=description,
        patterns=[line for kind in layers.values() for line in patterns_of(kind)],
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        path=str(path),
        sha256=sha256(path),
    )


def patterns_of(layers: list[Layer]) -> list[str]:
    """A line for each run of layers that are alike: where their branches or heads look.

    ``encoder 1-6: global, fw`` are branches; of heads that differ, ``2 × global, 2 × local``.
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
    """A branch: its word, or how many heads have which."""
    if len(set(heads)) == 1:
        return heads[0]
    return ", ".join(f"{heads.count(word)} × {word}" for word in dict.fromkeys(heads))
