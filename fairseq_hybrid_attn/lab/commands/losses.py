"""Compute the losses of models on a set, with intervals over its sentences.

  fairseq-hybrid losses base=base/checkpoint_best.pt mma=mma/checkpoint_best.pt
  fairseq-hybrid losses base=RUN/seed1 base=RUN/seed2 mma=RUN/seed1 --data data/mine

Models of one name, such as the seeds of a training, are one system; its loss is their mean.  A
difference from the first system is between models of the same place in their lists; a model without
its like is not in it, but the only model of a system stands beside all of another.

All models are measured by the criterion that the first one was trained with, label smoothing
included, in bits per token and single precision.  Word alignments are not read, so supervised
attention adds nothing to the loss.  The whole set counts, while fairseq-train's validation leaves
out up to seven of the longest sentences (--required-batch-size-multiple).

± is half the 95 % interval over a system's models and over the sentences together.  A .json has the
loss of each sentence.
"""

from __future__ import annotations

import argparse

from ...errors import UserError
from ..files.writing import file_identity
from ..scores.counts import Score
from ..tables.measuring import compared, number_of, table_of
from ..tables.printing import as_terminal, write_table
from . import outputs
from .flags import add_device, named_path
from .model_flags import MODEL, add_data

WRITTEN = ("table", "data")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text = f"{MODEL}; others are compared with the first system"
    add("models", nargs="+", type=named_path, metavar="NAME=MODEL", help=text)
    add("--gen-subset", default="valid", metavar="NAME", help="set of the data (default: valid)")
    add_data(parser)
    add_device(parser)
    outputs.add_write(parser, *WRITTEN)


def run(args: argparse.Namespace) -> None:
    from ..models.trained import find_model
    from ..scores.losses_measure import measure  # here: it imports torch, which takes seconds

    trained = [find_model(path, args.data) for _, path in args.models]
    paths = [model.checkpoint for model in trained]
    outputs.check(args.write, WRITTEN, [*paths, *trained[0].binary.glob("*")])
    for number, path in enumerate(paths):
        if file_identity(path) in map(file_identity, paths[:number]):
            raise UserError(f"{path} is given twice")
    scores = measure(trained, args.gen_subset, args.device)
    systems: dict[str, dict[int, Score]] = {}
    for (name, _), score in zip(args.models, scores, strict=True):
        models = systems.setdefault(name, {})
        models[len(models) + 1] = score
    rows = [number_of(name, "loss", models) for name, models in systems.items()]
    about = f"{args.gen_subset}: {rows[0].sentences:,} sentences"
    table = compared(table_of(about, {"loss": "loss"}, rows))
    for path in args.write:
        write_table(path, table, systems=table.systems)
    print(as_terminal(table), end="")
