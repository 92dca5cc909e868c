"""Measure where heads and branches look: distance, entropy, and how much heads differ.

  fairseq-hybrid heads RUN --write heads.pdf --write heads.json
  fairseq-hybrid heads mma.pt plain.pt --data data/mine --kinds encoder

The model reads each source sentence and is forced to decode the given translation.  The tables show
means over all positions, for the heads of a layer (and branch) that have the same pattern, and for
each layer how much its heads differ, in bits.  docs/analysis.md defines the columns.  A .json has
every head, and the divergence of each pair of heads.
"""

from __future__ import annotations

import argparse

from ..figures import style
from ..files.json_files import write_json
from . import model_flags, outputs

WRITTEN = ("data", "figure")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    model_flags.add_models(parser)
    model_flags.add_sentences(parser)
    model_flags.add_selection(parser)
    model_flags.add_kinds(parser)
    outputs.add_write(parser, *WRITTEN)


def run(args: argparse.Namespace) -> None:
    from ..analysis.heads import draw, measure_heads  # here: it imports torch, which takes seconds

    trained = model_flags.named_models(args.models, args.data)
    outputs.check(args.write, WRITTEN, model_flags.files_of(args, trained))
    models = [
        measure_heads(
            model, args.kinds, model.usable(args.sentences, skip_long=args.too_long == "skip")
        )
        for model in model_flags.on_text(args, trained)
    ]
    outputs.write(
        args.write,
        data=lambda path: write_json(path, {"models": list(map(vars, models))}),
        figure=lambda path: style.save(draw(models, args.theme), path),
    )
    for heads in models:
        print(f"{heads.name} ({heads.description})")
        print(heads.grid.terminal())
        print(f"\n{heads.grid_of_differences.terminal()}\n")
