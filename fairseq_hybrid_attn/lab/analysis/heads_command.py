"""Measure where heads and branches look: distance, entropy, and how much heads differ.

  fairseq-hybrid heads data-bin --path model.pt --gen-subset test --subwords subword-nmt
  fairseq-hybrid heads data-bin --path mma.pt plain.pt --gen-subset test --subwords subword-nmt \\
      --kinds encoder --figure heads.pdf --json heads.json

The model reads each source sentence and is forced to decode the given translation.  The tables show
means over all positions, for the heads of a layer (and branch) that have the same pattern, and for
each layer how much its heads differ, in bits.  docs/analysis.md defines the columns.  --json has
every head, and the divergence of each pair of heads.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..figures import outputs
from ..files.tabular import Grid
from ..models import arguments as model_args

if TYPE_CHECKING:
    from ..models.on_text import Loaded
    from .heads_measure import ModelHeads


def add_arguments(parser: argparse.ArgumentParser) -> None:
    model_args.add_models(parser)
    model_args.add_sentences(parser)
    model_args.add_selection(parser)
    model_args.add_kinds(parser)
    outputs.add_outputs(parser)


def run(args: argparse.Namespace) -> None:
    from . import heads_figure  # here and below: these import torch, which takes seconds

    model_args.check_models(args)
    outputs.check(args, model_args.inputs_of(args))
    models = [
        measure(loaded, args.kinds, model_args.selected(args, loaded))
        for loaded in model_args.load(args)
    ]
    for model in models:
        print(f"{model.name} ({model.description})")
        print(grid_of_heads(model).terminal())
        print(f"\n{grid_of_differences(model).terminal()}\n")
    outputs.write(
        args,
        {"models": [vars(model) for model in models]},
        lambda theme: heads_figure.draw(models, theme),
    )


def measure(loaded: Loaded, kinds: list[str], numbers: list[int]) -> ModelHeads:
    """The heads of a model over these sentences (from 0)."""
    from .heads_measure import Heads

    attentions = loaded.attentions(kinds)
    heads = Heads(attentions.layers)
    loaded.look(attentions, numbers, lambda _, observed: heads.add(observed))
    return heads.of_model(loaded.name, loaded.description)


def grid_of_heads(model: ModelHeads) -> Grid:
    """The heads of each layer, those with the same pattern together."""
    from .heads_measure import by_pattern

    columns = {key: key for key in ("kind", "layer", "branch", "pattern", "heads", "distance")}
    columns |= {"signed": "signed_distance", "entropy": "entropy", "relative": "relative_entropy"}
    return Grid.of(by_pattern(model.heads), {**columns, "self": "self", "symbol": "symbol"})


def grid_of_differences(model: ModelHeads) -> Grid:
    columns = {
        "kind": "kind",
        "layer": "layer",
        "heads differ": "divergence_of_heads",
        "heads by patterns": "divergence_of_heads_by_patterns",
        "branches differ": "divergence_of_branches",
        "branches by patterns": "divergence_of_branches_by_patterns",
    }
    return Grid.of(model.layers, columns)
