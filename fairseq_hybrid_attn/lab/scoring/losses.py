"""Compute the losses of models on a set, with intervals over its sentences.

  fairseq-hybrid losses data-bin --path base=base/checkpoint_best.pt mma=mma/checkpoint_best.pt
  fairseq-hybrid losses data-bin --path base=seed1/model.pt base=seed2/model.pt mma=mma/model.pt

Models of one name, such as the seeds of a training, are one system; its loss is their mean.

The loss is that of the criterion that a model was trained with, label smoothing included, in bits
per token, over the sentences that fairseq-train validates on.  So it is the loss in the training's
log.  Those sentences leave out up to seven of the longest (--required-batch-size-multiple).

± is half the 95 % interval by resampling the sentences, the same draws for all systems.  It covers
the choice of the sentences, not that of the training's seed.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from fairseq import checkpoint_utils, utils
from torch import nn
from tqdm import tqdm

from ...errors import UserError
from ..arguments.flags import named_path
from ..files.json_files import write_json
from ..files.tabular import Grid
from ..files.writing import check_outputs
from ..inference.arguments import device, load_one
from ..inference.sentences import Sentences, in_batches
from .significance import SAMPLES, draw, ends


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("data", type=Path, metavar="DATA", help="output folder of fairseq-preprocess")
    text = "checkpoints; the first system is the one that others are compared with"
    add("--path", required=True, nargs="+", type=named_path, metavar="NAME=FILE", help=text)
    add("--gen-subset", default="valid", metavar="NAME", help="split in DATA (default: valid)")
    add("--source-lang", metavar="LANG", help="default: as in the checkpoint")
    add("--target-lang", metavar="LANG", help="default: as in the checkpoint")
    add("--cpu", action="store_true", help="do not use a GPU")
    add("--json", type=Path, metavar="FILE", help="the numbers, and the loss of each sentence")


def run(args: argparse.Namespace) -> None:
    check_outputs({"--json": args.json}, [path for _, path in args.path])
    systems: dict[str, list[Losses]] = {}
    for name, path in args.path:
        systems.setdefault(name, []).append(measure(args, path))
    rows = compare({name: mean(models) for name, models in systems.items()})
    first = next(iter(systems.values()))[0]
    print(Grid.of(rows, _COLUMNS).terminal())
    print(f"{args.gen_subset}: {len(first.numbers):,} of {first.available:,} sentences")
    if args.json:
        for row in rows:
            models = systems[row["system"]]
            row["by_model"] = [model.value for model in models]
            row["by_sentence"] = mean(models).losses.tolist()
        of = {"subset": args.gen_subset, "sentences": [n + 1 for n in first.numbers]}
        write_json(args.json, {**of, "sizes": first.sizes.tolist(), "systems": rows})


_COLUMNS = {
    "system": "system",
    "loss": "loss",
    "± loss": "interval",
    "difference": "difference",
    "± difference": "difference_interval",
}


@dataclass(frozen=True)
class Losses:
    """The losses of a model, or their mean over models, sentence by sentence."""

    path: Path
    numbers: list[int]  #: of the sentences, from 0
    available: int  #: sentences of the set
    losses: np.ndarray  #: ``[sentences]``, in bits, each the sum over its tokens
    sizes: np.ndarray  #: ``[sentences]``: tokens, or 1 with fairseq-train's ``--sentence-avg``

    @property
    def value(self) -> float:
        return float(self.losses.sum() / self.sizes.sum())

    def over_draws(self) -> np.ndarray:
        """The loss on resampled sets, ``[draws]``."""
        drawn = draw(len(self.sizes), SAMPLES)
        return self.losses[drawn].sum(axis=1) / self.sizes[drawn].sum(axis=1)


def measure(args: argparse.Namespace, path: Path) -> Losses:
    """Compute the losses of a checkpoint's model."""
    model, task = load_one(args, path)
    sentences = Sentences.of_split(task, args.gen_subset)
    try:
        settings = checkpoint_utils.load_checkpoint_to_cpu(str(path))["cfg"]
        criterion = task.build_criterion(settings.criterion)
        numbers = validated(settings.dataset, task, model, args.gen_subset)
    except Exception as error:  # of many kinds: fairseq trusts its settings
        raise UserError(f"--path {path} cannot be validated: {error}") from error
    if len(numbers) < 2:
        raise UserError(
            f"--path {path}: fairseq-train would validate on {len(numbers)} of {len(sentences)} "
            f"sentences of {args.gen_subset}; an interval needs two or more"
        )
    losses, sizes = by_sentence(sentences, numbers, model, criterion, device(args))
    if not np.isfinite(losses).all():
        raise UserError(f"--path {path}: its loss is not a finite number; did training diverge?")
    return Losses(path, numbers, len(sentences), losses, sizes)


def validated(settings, task, model: nn.Module, subset: str) -> list[int]:
    """The sentences (from 0) of the batches that fairseq-train makes of a set."""
    batches = task.get_batch_iterator(
        task.dataset(subset),
        max_tokens=settings.max_tokens_valid,
        max_sentences=settings.batch_size_valid,
        max_positions=utils.resolve_max_positions(task.max_positions(), model.max_positions()),
        ignore_invalid_inputs=settings.skip_invalid_size_inputs_valid_test,
        required_batch_size_multiple=settings.required_batch_size_multiple,
    )
    return sorted(int(number) for batch in batches.frozen_batches for number in batch)


def by_sentence(
    sentences: Sentences, numbers: list[int], model: nn.Module, criterion: nn.Module, where: str
) -> tuple[np.ndarray, np.ndarray]:
    """The losses, and what each is divided by, of the sentences with these numbers."""
    model.to(where)

    def compute(sample: dict) -> list[tuple[float, float]]:
        loss, size, _ = criterion(model, sample)
        return [(float(loss) / math.log(2), float(size))]

    skip = sorted(set(range(len(sentences))).difference(numbers))
    bar = tqdm(total=len(sentences), unit=" sentences", file=sys.stderr, mininterval=1.0)
    with torch.no_grad(), bar:
        # A criterion sums over its batch: of at most one token, a batch is a single sentence.
        how = {"max_tokens": 1, "device": where, "skip": skip, "progress": bar.update}
        found = [one for one in in_batches(sentences, compute, **how) if one is not None]
    losses, sizes = np.array(found, float).T
    return losses, sizes


def mean(models: list[Losses]) -> Losses:
    """The mean over models, which must have the same sentences."""
    first = models[0]
    for other in models[1:]:
        check_same(first, other)
    losses = np.mean([model.losses for model in models], axis=0)
    return Losses(first.path, first.numbers, first.available, losses, first.sizes)


def check_same(first: Losses, other: Losses) -> None:
    if first.numbers != other.numbers or not np.array_equal(first.sizes, other.sizes):
        raise UserError(
            f"--path {other.path} and {first.path}: fairseq-train validates them on different "
            "sentences or divides by something else, so their losses cannot be compared"
        )


def compare(systems: dict[str, Losses]) -> list[dict]:
    """The loss of each system, and its difference from the first one's, with intervals."""
    base = next(iter(systems.values()))
    rows = []
    for name, system in systems.items():
        check_same(base, system)
        row = {"system": name, "loss": system.value, "interval": half(system.over_draws())}
        row |= {"difference": None, "difference_interval": None}
        if system is not base:
            row["difference"] = system.value - base.value
            row["difference_interval"] = half(system.over_draws() - base.over_draws())
        rows.append(row)
    return rows


def half(drawn: np.ndarray) -> float:
    """Half the 95 % interval of a number, given its values over the draws."""
    low, high = ends(drawn)
    return (high - low) / 2
