"""Compute the losses of models on a set, with intervals over its sentences.

  fairseq-hybrid losses base=base/checkpoint_best.pt mma=mma/checkpoint_best.pt
  fairseq-hybrid losses base=RUN/seed1 base=RUN/seed2 mma=RUN/seed1 --data data/mine

Models of one name, such as the seeds of a training, are one system; its loss is their mean.

All models are measured by the criterion that the first one was trained with, label smoothing
included, in bits per token and single precision.  Word alignments are not read, so supervised
attention adds nothing to the loss.  The whole set counts, while fairseq-train's validation leaves
out up to seven of the longest sentences (--required-batch-size-multiple).

± is half the 95 % interval by resampling the sentences, the same draws for all systems.  It covers
the choice of the sentences, not that of the training's seed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from ...errors import UserError
from ..cli.flags import add_device, named_path
from ..files.json_files import write_json
from ..files.tabular import Grid
from ..files.writing import check_outputs, file_identity
from ..models.arguments import MODEL, add_data
from .counts import SentenceCounts, half_width

_COLUMNS = {
    "system": "system",
    "loss": "loss",
    "± loss": "interval",
    "difference": "difference",
    "± difference": "difference_interval",
}


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
    from .losses_measure import measure  # here: it imports torch, which takes seconds

    models = [find_model(path, args.data) for _, path in args.models]
    paths = [trained.checkpoint for trained in models]
    check_outputs({"--json": args.json}, [*paths, *models[0].binary.glob("*")])
    for number, path in enumerate(paths):
        if file_identity(path) in map(file_identity, paths[:number]):
            raise UserError(f"{path} is given twice")
    tokens, losses = measure(models, args.gen_subset, args.device)
    systems: dict[str, list[np.ndarray]] = {}
    for (name, _), one in zip(args.models, losses, strict=True):
        systems.setdefault(name, []).append(one)
    rows = compare({name: np.mean(models, axis=0) for name, models in systems.items()}, tokens)
    print(Grid.of(rows, _COLUMNS).terminal())
    print(f"{args.gen_subset}: {len(tokens):,} sentences, {tokens.sum():,.0f} tokens")
    if args.json:
        for row in rows:
            models = systems[row["system"]]
            row["by_model"] = [model.sum() / tokens.sum() for model in models]
            row["by_sentence"] = np.mean(models, axis=0).tolist()
        found = {"subset": args.gen_subset, "tokens": tokens.tolist(), "systems": rows}
        write_json(args.json, found)


def compare(systems: dict[str, np.ndarray], tokens: np.ndarray) -> list[dict]:
    """The loss of each system per token, and its difference from the first, with intervals.

    Losses and tokens are ``[sentences]``.
    """
    base, rows = None, []
    for name, losses in systems.items():
        ours = SentenceCounts("loss", np.stack([losses, tokens], axis=1), text="")
        row = {"system": name, "loss": ours.value, "interval": half_width(ours.drawn)}
        row |= {"difference": None, "difference_interval": None}
        if base:
            row["difference"] = ours.value - base.value
            row["difference_interval"] = half_width(ours.drawn - base.drawn)
        base = base or ours
        rows.append(row)
    return rows
