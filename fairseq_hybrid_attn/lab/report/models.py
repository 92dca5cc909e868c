"""What a report shows of each model."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ..arguments import models as model_args
from ..gates.measure import Gates
from ..heads.measure import Heads
from ..inference.attentions import KINDS, Observed
from ..maps import command as maps
from ..maps.measure import ModelMaps, SentenceMaps, maps_of
from .findings import ModelFindings
from .summary import summary

#: The unit of the numbers about heads, the default of `heads`.
UNIT = "subwords"


def look(
    args: argparse.Namespace,
    loaded: model_args.Loaded,
    tags: Sequence[Sequence[str]] | None,
    first: ModelFindings | None,
) -> ModelFindings:
    """Run a model once for maps, gates and heads together.

    Args:
        args: of the command.
        loaded: the model.
        tags: parts of speech of the source, if any.
        first: findings of the first model, whose sentences this one shows too; None for that.
    """
    measured = model_args.wanted(args, loaded)
    before = [one.number for one in first.maps.sentences] if first else None
    shown = maps.wanted("--maps", args.maps, loaded, before)
    attentions = model_args.attentions_of(loaded, list(KINDS))
    gates, heads = Gates(attentions.layers), Heads()
    measures = (
        gates.use(loaded.sentences, args.subwords, tags),
        heads.use(attentions, loaded.sentences, args.subwords, UNIT),
    )
    show = maps_of(attentions, loaded.sentences, args.subwords)

    def use(number: int, observed: Observed) -> SentenceMaps | None:
        for measure in measures if number in measured else ():
            measure(number, observed)
        return show(number, observed) if number in shown else None

    found = model_args.look(args, loaded, attentions, sorted({*measured, *shown}), use)
    name, about = loaded.name, loaded.description
    return ModelFindings(
        summary=summary(name, about, loaded.model, attentions.layers, loaded.path),
        training=None,
        missing=attentions.missing(),
        sentences=len(measured),
        maps=ModelMaps(name, about, [one for one in found if one is not None]),
        gates=gates.of_model(name) if gates.layers else None,
        heads=heads.of_model(name, about),
    )
