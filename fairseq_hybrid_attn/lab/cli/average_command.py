"""Average the weights of fairseq checkpoints.

Three ways to choose them:
  fairseq-hybrid average --output avg.pt FILE [FILE ...]
  fairseq-hybrid average --output avg.pt --last-updates N DIR   (checkpoint_EPOCH_UPDATES.pt)
  fairseq-hybrid average --output avg.pt --last-epochs N DIR    (checkpointEPOCH.pt)

At the end of an epoch, fairseq writes checkpointEPOCH.pt and no checkpoint_EPOCH_UPDATES.pt.

The result is for fairseq-generate, fairseq-validate and fairseq-train --finetune-from-model.  It is
the checkpoint with the most updates, with the averaged weights and without the optimizer's state.
Half-precision weights become float32.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from pathlib import Path

from ...errors import UserError
from ..files.checkpoints import read_checkpoint, updates
from ..files.writing import atomic_write, check_outputs
from .flags import positive

#: File names by the flag that chooses among them; the last group is the number of the flag.
_NUMBERED = {
    "--last-updates": re.compile(r"checkpoint_(\d+)_(\d+)\.pt"),
    "--last-epochs": re.compile(r"checkpoint(\d+)\.pt"),
}


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
    paths = chosen_files(args)
    from .averaging import average_checkpoints

    check_outputs({"--output": args.output}, paths)
    print(f"averaging {len(paths)} checkpoint{'s' * (len(paths) > 1)}:", flush=True)
    for path in paths:
        print(f"  {path}", flush=True)
    write_checkpoint(average_checkpoints(paths), args.output)
    print(f"written to {args.output}")


def chosen_files(args: argparse.Namespace) -> list[Path]:
    for flag, count in (("--last-updates", args.last_updates), ("--last-epochs", args.last_epochs)):
        if count:
            if len(args.inputs) != 1 or not args.inputs[0].is_dir():
                raise UserError(f"{flag} chooses among the checkpoints of one directory: give that")
            return last_files(args.inputs[0], flag, count, args.up_to)
    if args.up_to is not None:
        raise UserError("--up-to limits --last-updates or --last-epochs; give one of them")
    for path in args.inputs:
        if path.is_dir():
            raise UserError(f"{path} is a directory; add --last-updates N or --last-epochs N")
    return args.inputs


def last_files(directory: Path, flag: str, count: int, up_to: int | None) -> list[Path]:
    """The last checkpoints up to a number of updates (or epoch), oldest first."""
    numbered = []
    for path in directory.iterdir():
        match = _NUMBERED[flag].fullmatch(path.name)
        if match and (up_to is None or int(match.groups()[-1]) <= up_to):
            # By the last number first: within a training run, updates grow from epoch to epoch.
            numbered.append(([int(number) for number in reversed(match.groups())], path))
    found = [path for _, path in sorted(numbered)]
    if len(found) < count:
        limit = "" if up_to is None else f" up to {up_to}"
        names = ", ".join(path.name for path in found) or "none"
        raise UserError(f"{flag} {count}: {directory} has only {len(found)}{limit} ({names})")
    if flag == "--last-updates":
        warn_of_unnumbered(directory, found, found[-count], up_to)
    return found[-count:]


def warn_of_unnumbered(
    directory: Path, numbered: list[Path], first: Path, up_to: int | None
) -> None:
    """Warn of updates after ``first`` that are in a checkpoint of an epoch, or the last, alone."""
    known = {int(path.stem.rpartition("_")[2]) for path in numbered}
    every = math.gcd(*known)  # the updates between two checkpoints
    epoch, start = map(int, first.stem.split("_")[1:])
    for path in sorted(directory.glob("checkpoint*.pt")):
        match = _NUMBERED["--last-epochs"].fullmatch(path.name)
        if not (path.name == "checkpoint_last.pt" or (match and int(match[1]) >= epoch)):
            continue
        made = updates(read_checkpoint(path))
        if start < made <= (up_to or made) and made % every == 0 and made not in known:
            print(
                f"warning: {path.name} is of update {made:,}, and there is no numbered file of it; "
                "name the files to average it as well",
                file=sys.stderr,
            )


def write_checkpoint(state: dict, path: Path) -> None:
    import torch

    with atomic_write(path) as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:
            # On a full disk, torch complains about the unfinished archive, not about the disk.
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise
