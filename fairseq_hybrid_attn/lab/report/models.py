"""What a report sees of each model."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from ..arguments import models as model_args
from ..gates.measure import Gates
from ..heads.measure import Heads
from ..inference.attentions import KINDS, Observed
from ..maps import command as maps
from ..maps.measure import ModelMaps, SentenceMaps, maps_of
from .found import Looked
from .summary import summary

#: The unit of the numbers about heads, as `heads` has it.
UNIT = "subwords"


def look(
    args: argparse.Namespace,
    loaded: model_args.Loaded,
    tags: Sequence[Sequence[str]] | None,
    first: Looked | None,
) -> Looked:
    """Look at a model, once for maps, gates and heads together.

    Args:
        args: of the command.
        loaded: the model.
        tags: of the source's words; None if there are none.
        first: what was seen of the first model, whose sentences this one shows; None for that.

    Raises:
        UserError: if it cannot be looked at.
    """
    measured = model_args.wanted(args, loaded)
    before = [one.number for one in first.maps.sentences] if first else None
    shown = maps.wanted("--maps", args.maps, loaded, before)
    attentions = model_args.attentions_of(loaded, list(KINDS))
    gates, heads = Gates(attentions.layers), Heads()
    measures = [
        gates.use(loaded.sentences, args.subwords, tags),
        heads.use(attentions, loaded.sentences, args.subwords, UNIT),
    ]
    show = maps_of(attentions, loaded.sentences, args.subwords)
    use = _measure_and_show(measured, measures, shown, show)
    found = model_args.look(args, loaded, attentions, sorted({*measured, *shown}), use)
    return Looked(
        summary=summary(
            *(loaded.name, loaded.description, loaded.model, attentions.layers, loaded.path)
        ),
        training=None,
        missing=attentions.missing(),
        sentences=len(measured),
        maps=ModelMaps(loaded.name, loaded.description, [one for one in found if one is not None]),
        gates=gates.of_model(loaded.name) if gates.layers else None,
        heads=heads.of_model(loaded.name, loaded.description),
    )


def _measure_and_show(
    measured: Sequence[int],
    measures: Sequence[Callable[[int, Observed], object]],
    shown: Sequence[int],
    show: Callable[[int, Observed], SentenceMaps],
) -> Callable[[int, Observed], SentenceMaps | None]:
    """What measures some sentences, and makes maps of others or the same."""
    measured, shown = frozenset(measured), frozenset(shown)

    def use(number: int, observed: Observed) -> SentenceMaps | None:
        """Of a sentence, its maps if they are to be shown."""
        if number in measured:
            for measure in measures:
                measure(number, observed)
        return show(number, observed) if number in shown else None

    return use
