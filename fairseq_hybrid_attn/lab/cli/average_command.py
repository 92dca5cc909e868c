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
from ..files.writing import atomic_write, check_outputs, file_identity

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
    parser.add_argument(
        "--last-updates", type=int, metavar="N", help="the N checkpoints in DIR with most updates"
    )
    parser.add_argument(
        "--last-epochs", type=int, metavar="N", help="the last N epoch checkpoints in DIR"
    )
    parser.add_argument(
        "--up-to",
        type=int,
        metavar="NUMBER",
        help="ignore checkpoints after this update (or epoch)",
    )


def run(args: argparse.Namespace) -> None:
    paths = chosen_files(args)
    from .averaging import average_checkpoints

    check_inputs(paths)
    check_outputs({"--output": args.output}, paths)
    print(f"averaging {len(paths)} checkpoint{'s' * (len(paths) > 1)}:", flush=True)
    for path in paths:
        print(f"  {path}", flush=True)
    state = average_checkpoints(paths)
    write_checkpoint(state, args.output)
    print(f"written to {args.output}")


def chosen_files(args: argparse.Namespace) -> list[Path]:
    counts = {"--last-updates": args.last_updates, "--last-epochs": args.last_epochs}
    flags = [flag for flag, count in counts.items() if count is not None]
    if len(flags) > 1:
        raise UserError("--last-updates and --last-epochs are mutually exclusive; give one of them")
    if flags:
        if len(args.inputs) != 1 or args.inputs[0].is_file():
            raise UserError(
                f"{flags[0]} chooses among the checkpoints of a directory; "
                "give one directory and no files"
            )
        return last_files(args.inputs[0], flags[0], counts[flags[0]], args.up_to)
    if args.up_to is not None:
        raise UserError("--up-to limits --last-updates or --last-epochs; give one of them")
    for path in args.inputs:
        if path.is_dir():
            raise UserError(f"{path} is a directory; add --last-updates N or --last-epochs N")
    return args.inputs


def last_files(directory: Path, flag: str, count: int, up_to: int | None) -> list[Path]:
    """The last checkpoints up to a number of updates (or epoch), oldest first."""
    if count < 1:
        raise UserError(f"{flag} {count}: use 1 or more")
    if not directory.is_dir():
        raise UserError(f"{directory} is not a directory")
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
        within = start < made <= (up_to or made) and made % every == 0
        if within and made not in known:
            print(
                f"warning: {path.name} is of update {made:,}, and there is no numbered file of it; "
                "name the files to average it as well",
                file=sys.stderr,
            )


def check_inputs(paths: list[Path]) -> None:
    """Refuse files that do not exist, all in one message, and a file given twice."""
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        raise UserError(f"no such file: {', '.join(missing)}")
    seen: dict[tuple, Path] = {}
    for path in paths:
        earlier = seen.setdefault(file_identity(path), path)
        if earlier is not path:
            raise UserError(f"{path} and {earlier} are the same file; give it once")


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
