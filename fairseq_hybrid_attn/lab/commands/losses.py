"""Compute the losses of models on a set, with intervals over its sentences.

  fairseq-hybrid losses base=base/checkpoint_best.pt mma=mma/checkpoint_best.pt
  fairseq-hybrid losses base=RUN/seed1 base=RUN/seed2 mma=RUN/seed1 --data data/mine

Models of one name, such as the seeds of a training, are one system; its loss is their mean.  A
difference from the first system is between models of the same place in their lists, which are
printed; a model without its like is not in it.

All models are measured by the criterion that the first one was trained with, label smoothing
included, in bits per token and single precision.  Word alignments are not read, so supervised
attention adds nothing to the loss.  The whole set counts, while fairseq-train's validation leaves
out up to seven of the longest sentences (--required-batch-size-multiple).

± is half the 95 % interval over a system's models and over the sentences together.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from ...errors import UserError
from ..files.json_files import write_json
from ..files.tabular import Grid
from ..files.writing import check_outputs, file_identity
from ..scores import statistics
from ..scores.counts import Score, SentenceCounts
from .flags import add_device, named_path
from .model_flags import MODEL, add_data


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text = f"{MODEL}; others are compared with the first system"
    add("models", nargs="+", type=named_path, metavar="NAME=MODEL", help=text)
    add("--gen-subset", default="valid", metavar="NAME", help="set of the data (default: valid)")
    add_data(parser)
    add_device(parser)
    add("--json", type=Path, metavar="FILE", help="the numbers, and the loss of each sentence")


def run(args: argparse.Namespace) -> None:
    from ..models.trained import find_model
    from ..scores.losses_measure import measure  # here: it imports torch, which takes seconds

    trained = [find_model(path, args.data) for _, path in args.models]
    paths = [model.checkpoint for model in trained]
    check_outputs({"--json": args.json}, [*paths, *trained[0].binary.glob("*")])
    for number, path in enumerate(paths):
        if file_identity(path) in map(file_identity, paths[:number]):
            raise UserError(f"{path} is given twice")
    tokens, losses = measure(trained, args.gen_subset, args.device)
    systems: dict[str, dict[int, Score]] = {}
    for (name, _), one in zip(args.models, losses, strict=True):
        counts = SentenceCounts("loss", np.stack([one, tokens], axis=1), args.gen_subset)
        of_name = systems.setdefault(name, {})
        of_name[len(of_name) + 1] = Score.of(counts)
    compared = statistics.compare(systems)
    base = next(iter(systems))
    shown = 3 if len(systems) > 1 else 1
    rows = [
        [
            *(name, *found.cells(3)[:shown]),
            ", ".join(f"{model}: {loss:.3f}" for model, loss in found.estimate.by_seed.items()),
        ]
        for name, found in compared.items()
    ]
    if args.json:
        found = {
            name: {
                **compared[name].as_dict(),
                "models": [{"scores": {"loss": one.as_dict()}} for one in models.values()],
            }
            for name, models in systems.items()
        }
        write_json(args.json, {"subset": args.gen_subset, "systems": found})
    headings = ["system", *("loss", f"loss - {base}", "p")[:shown], "models"]
    print(Grid(headings, rows, left=1).terminal())
    print(f"{args.gen_subset}: {len(tokens):,} sentences, {tokens.sum():,.0f} tokens")
    notes = {statistics.FEW_SEEDS.get(len(models)) for models in systems.values()} - {None}
    for name, of_system in compared.items():
        of_both = of_system.difference.by_seed if of_system.difference else {}
        if 0 < len(of_both) < max(len(systems[name]), len(systems[base])):
            print(f"{name} - {base}: of seeds {', '.join(map(str, of_both))}")
    print("\n".join([statistics.HOW, *sorted(filter(None, notes))]))
