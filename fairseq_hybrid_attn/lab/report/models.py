"""What a report shows about each model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ..look import maps_command as maps
from ..look.attentions import KINDS, Layer, Observed
from ..look.gates_measure import Gates
from ..look.heads_measure import Heads
from ..look.loaded import Loaded
from ..look.maps_measure import ModelMaps, SentenceMaps, maps_of
from .findings import ModelFindings
from .subjects import Subject

#: Least and most subwords of sentences that are shown unless others are asked for; and how many.
READABLE, SHOWN = (8, 20), 3


def look(
    subject: Subject,
    loaded: Loaded,
    measured: Sequence[int],
    listed: str | None,
    tags: Sequence[Sequence[str]] | None,
    first: ModelMaps | None,
    checksum: str,
) -> ModelFindings:
    """Run a model once for maps, gates and heads together.

    Gates and heads are of the sentences ``measured`` (from 0), maps of those ``listed`` as for
    ``--maps``, or the same as the ``first`` model's.  ``tags`` are parts of speech of the source.
    """
    if listed is None and first is None:
        shown = readable(loaded, measured)
    else:
        shown = maps.shown("--maps", listed, loaded, first)
    attentions = loaded.attentions(KINDS)
    gates, heads = Gates(attentions.layers), Heads()
    measures = (
        gates.use(loaded, tags),
        heads.use(attentions, loaded),
    )
    show = maps_of(attentions, loaded)

    def use(number: int, observed: Observed) -> SentenceMaps | None:
        for measure in measures if number in measured else ():
            measure(number, observed)
        return show(number, observed) if number in shown else None

    sentences = loaded.look(attentions, {*measured, *shown}, use)
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
        maps=ModelMaps(name, about, [maps_ for maps_ in sentences if maps_ is not None]),
        gates=gates.of_model(name) if gates.layers else None,
        heads=heads.of_model(name, about),
        training=list(subject.training),
        search=subject.search_text,
    )


def readable(loaded: Loaded, among: Sequence[int]) -> list[int]:
    """The first sentences of a length at which all maps of one can be looked at together."""
    lengths = loaded.sentences.lengths
    fitting = [n for n in among if READABLE[0] <= max(lengths[n]) <= READABLE[1]]
    return sorted((fitting or sorted(among, key=lambda n: max(lengths[n])))[:SHOWN])


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
