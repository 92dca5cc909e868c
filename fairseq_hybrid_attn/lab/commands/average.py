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

from ...errors import UserError
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
    from ..models.averaging import (  # it imports torch
        average_checkpoints,
        last_files,
        write_checkpoint,
    )

    paths, last = args.inputs, None
    for flag, count in (("--last-updates", args.last_updates), ("--last-epochs", args.last_epochs)):
        if count:
            if len(paths) != 1 or not paths[0].is_dir():
                raise UserError(f"{flag} chooses among the checkpoints of one directory: give that")
            last = last_files(paths[0], flag, count, args.up_to)
    if args.up_to is not None and last is None:
        raise UserError("--up-to limits --last-updates or --last-epochs; give one of them")
    paths = last or paths
    for path in paths:
        if path.is_dir():
            raise UserError(f"{path} is a directory; add --last-updates N or --last-epochs N")
    check_outputs({"--output": args.output}, paths)
    say(f"averaging {len(paths)} checkpoint{'s' * (len(paths) > 1)}:")
    for path in paths:
        say(f"  {path}")
    write_checkpoint(average_checkpoints(paths), args.output)
    print(f"written to {args.output}")
