"""What a report shows about each model."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from ..look import maps_command as maps
from ..look import model_arguments as model_args
from ..look.attentions import KINDS, Layer, Observed
from ..look.gates_measure import Gates
from ..look.heads_measure import Heads
from ..look.maps_measure import ModelMaps, SentenceMaps, maps_of
from .findings import ModelFindings

#: Subwords of sentences that are shown unless others are asked for.
READABLE = 8, 20
#: Bytes of a page for maps, and of a weight (of 16 bits, in base64).
BUDGET, _PACKED = 1_200_000, 8 / 3


def look(
    args: argparse.Namespace,
    loaded: model_args.Loaded,
    tags: Sequence[Sequence[str]] | None,
    first: ModelFindings | None,
    checksum: str,
) -> ModelFindings:
    """Run a model once for maps, gates and heads together.

    ``tags`` are parts of speech of the source, if any.  Maps are of the same sentences as those of
    the ``first`` model, which is None for that model itself.
    """
    measured = model_args.wanted(args, loaded)
    before = [one.number for one in first.maps.sentences] if first else None
    if args.maps is None and before is None:
        before = readable(loaded, measured)
    shown = maps.wanted("--maps", args.maps, loaded, before)
    attentions = model_args.attentions_of(loaded, list(KINDS))
    gates, heads = Gates(attentions.layers), Heads()
    measures = (
        gates.use(loaded.sentences, args.subwords, tags),
        heads.use(attentions, loaded.sentences, args.subwords, "subwords"),
    )
    show = maps_of(attentions, loaded.sentences, args.subwords)

    def use(number: int, observed: Observed) -> SentenceMaps | None:
        for measure in measures if number in measured else ():
            measure(number, observed)
        return show(number, observed) if number in shown else None

    found = model_args.look(args, loaded, attentions, sorted({*measured, *shown}), use)
    name, about = loaded.name, loaded.description
    return ModelFindings(
        name=name,
        description=about,
        patterns=[line for layers in attentions.layers.values() for line in patterns_of(layers)],
        parameters=sum(parameter.numel() for parameter in loaded.model.parameters()),
        path=str(loaded.path),
        sha256=checksum,
        missing=attentions.missing(),
        sentences=len(measured),
        maps=ModelMaps(name, about, [one for one in found if one is not None]),
        gates=gates.of_model(name) if gates.layers else None,
        heads=heads.of_model(name, about),
    )


def readable(loaded: model_args.Loaded, among: Sequence[int]) -> list[int]:
    """The first sentences of a length at which all maps of one can be looked at together."""
    lengths = loaded.sentences.lengths
    fitting = [n for n in among if READABLE[0] <= max(lengths[n]) <= READABLE[1]]
    return sorted((fitting or sorted(among, key=lambda n: max(lengths[n])))[: maps.FIRST])


def within(models: Sequence[ModelFindings], budget: int = BUDGET) -> list[ModelFindings]:
    """The models with maps of no more sentences than a page has room for; of one at least."""
    size, room = 0, 0
    for sentences in zip(*(one.maps.sentences for one in models), strict=True):
        size += sum(
            _PACKED * sum(weights.size for weights in map_.weights)
            for sentence in sentences
            for kinds in sentence.units.values()
            for map_ in kinds.values()
        )
        room += size <= budget
    return [
        replace(one, maps=replace(one.maps, sentences=one.maps.sentences[: max(1, room)]))
        for one in models
    ]


def patterns_of(layers: list[Layer]) -> list[str]:
    """A line for each run of equal layers: the patterns of their branches or heads.

    ``encoder 1-6: global | fw`` are branches; of heads that differ, ``2 × global, 2 × local``.
    """
    lines = []
    for heads, alike in groupby(layers, key=lambda layer: (layer.heads, layer.gate)):
        alike = list(alike)
        first, last = alike[0].number, alike[-1].number
        where = str(first) if first == last else f"{first}-{last}"
        branches = " | ".join(map(_words, heads[0]))
        what = f" ({heads[1].name} gates)" if heads[1] else ""
        lines.append(f"{alike[0].kind} {where}: {branches}{what}")
    return lines


def _words(heads: tuple[str, ...]) -> str:
    """A branch's pattern, or how many heads have which."""
    if len(set(heads)) == 1:
        return heads[0]
    return ", ".join(f"{heads.count(word)} × {word}" for word in dict.fromkeys(heads))
