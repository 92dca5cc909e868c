"""Average the weights of fairseq checkpoints.

Three ways to choose them:
  fairseq-hybrid average --output avg.pt FILE [FILE ...]
  fairseq-hybrid average --output avg.pt --last-updates N DIR   (checkpoint_EPOCH_UPDATES.pt)
  fairseq-hybrid average --output avg.pt --last-epochs N DIR    (checkpointEPOCH.pt)

At the end of an epoch, fairseq writes checkpointEPOCH.pt and no checkpoint_EPOCH_UPDATES.pt.

The result is for fairseq-generate, fairseq-validate and fairseq-train --finetune-from-model.  It is
the checkpoint with the most updates, with the averaged weights and without the optimizer's state.
Half-precision weights become float32.  Means are taken in double precision: of three checkpoints or
more, they differ from those of fairseq's script in the last bits.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ..files.writing import check_outputs, say
from .flags import positive


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "inputs", nargs="+", type=Path, metavar="FILE|DIR", help="checkpoints, or their directory"
    )
    parser.add_argument("--output", required=True, type=Path, metavar="FILE")
    last = parser.add_mutually_exclusive_group()
    text = "the N checkpoints in DIR with most updates"
    last.add_argument("--last-updates", type=positive, metavar="N", help=text)
    text = "the last N epoch checkpoints in DIR"
    last.add_argument("--last-epochs", type=positive, metavar="N", help=text)
    text = "ignore checkpoints after this update (or epoch)"
    parser.add_argument("--up-to", type=int, metavar="NUMBER", help=text)


def run(args: argparse.Namespace) -> None:
    from ..models.averaging import average_checkpoints, chosen_files, write_checkpoint  # with torch

    last = {"last_updates": args.last_updates, "last_epochs": args.last_epochs}
    paths = chosen_files(args.inputs, **last, up_to=args.up_to)
    check_outputs({"--output": args.output}, paths)
    say(f"averaging {len(paths)} checkpoint{'s' * (len(paths) > 1)}:")
    for path in paths:
        say(f"  {path}")
    write_checkpoint(average_checkpoints(paths), args.output)
    print(f"written to {args.output}")
