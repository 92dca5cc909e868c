"""Train a model, translate the test set with it and score that: on your text, or a table's row.

Without a row, --data names your text, and fairseq-train's flags follow after --; those that are
not given are the papers'.  The batch of an update keeps its size, however many devices share it.
Run again, it resumes where it stopped.

  fairseq-hybrid train --data my-text/ --gpus 4 -- --arch transformer_hysan
  torchrun --nproc-per-node 8 --no-python fairseq-hybrid train hysan/table2c/gated_sum
  srun --ntasks-per-node 8 fairseq-hybrid train hysan/table2c/gated_sum
"""

from __future__ import annotations

import argparse
import os
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import UserError
from ..cli.flags import positive
from ..config.settings import Profile, Settings, load_raw, resolve
from ..files.console import Console
from ..files.names import fault_of_name
from ..files.processes import stop_at_signals
from ..files.yaml_files import CONFIGS, merge
from .devices import Devices, launcher, of_launched, slots
from .plan import fault_of_flags, run_of_row
from .results import read_result
from .running import RunInProgress, prepare_corpora
from .status import State, check_begun, status
from .workspace import OWN_PAPER, Run
from .workspace_flags import add_devices, add_workspace, seed, workspace

#: The settings of your own training, but for what you give.  A profile replaces these, but not
#: what you give.
OWN: dict = {
    "extends": "transformer",  # the flags that the papers share
    "corpus": "own",
    "train": {"max-update": 100_000},
    "batch": {"tokens": 25_000, "per-device": 8192},
    "checkpoints": {"unit": "update", "every": 1000, "average": 5},
    "generate": {"beam": 4, "lenpen": 0.6},
}

#: Flags beside fairseq-train's, and where their values go.
SIZES = {
    "tokens": ("batch", "tokens", "of an update, over all devices"),
    "tokens-per-device": ("batch", "per-device", "at once, at most, as a device's memory allows"),
    "save-every": ("checkpoints", "every", "updates between checkpoints, and validations"),
    "average": ("checkpoints", "average", "of the last checkpoints"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_row(parser, nargs="?")
    group = parser.add_argument_group("without a row, besides fairseq-train's flags after --")
    group.add_argument("--name", metavar="NAME", help="of the run (default: its --arch)")
    for flag, (part, key, told) in SIZES.items():
        told = f"{told} (default: {OWN[part][key]}, or the profile's)"
        group.add_argument(f"--{flag}", type=positive, metavar="N", help=told)
    parser.add_argument(
        "--gpus", type=positive, default=1, metavar="N", help="GPUs of this machine (default: 1)"
    )
    parser.add_argument("--prepare-only", action="store_true", help="prepare the corpus alone")
    parser.add_argument(
        "--keep-checkpoints",
        action="store_true",
        help="keep all checkpoints (default: only the averaged model)",
    )
    parser.set_defaults(others=[])  # what follows --
    add_workspace(parser)
    add_devices(parser)


def add_row(parser: argparse.ArgumentParser, **how: Any) -> None:
    parser.add_argument("row", metavar="PAPER/TABLE/ROW", **how)
    parser.add_argument("--column", metavar="NAME", help="needed if the table has several")
    parser.add_argument("--seed", type=seed, default=1, metavar="N")


def run(args: argparse.Namespace) -> None:
    """Do the run to its end; run again, go on where it stopped."""
    asked = own_run(args) if args.row is None else run_of_table(args)
    # All processes check before any of them starts: if one alone stopped here, the others
    # would wait for it.
    if asked.settings.aligner:
        raise UserError(f'{asked.name} does not train a model; use "fairseq-hybrid reproduce"')
    if fault := fault_of_flags(asked):
        raise UserError(fault)
    launched = launcher(os.environ)
    if launched:
        devices = of_launched(launched, args.device, args.precision)
    else:
        devices = slots(args.device, args.gpus, 1, 1, args.precision)[0]
    if not launched or args.prepare_only:
        _, problems = prepare_corpora([asked], asked.workspace, None)
        if problems:
            raise UserError(problems[0].strip())
        if args.prepare_only:
            return
    if not asked.has_corpus:
        raise UserError(
            f"its corpus is not prepared in {asked.corpus_folder} as it is now; on one node, first "
            "run the same with --prepare-only"
        )
    state = status(asked)
    if state.state is State.STALE:
        other = "" if args.row else "give another --name, or "
        raise UserError(f"{asked.name} is {state}; {other}delete {asked.folder.path}")
    check_begun(asked, devices)
    stop_at_signals()
    work = RunInProgress(asked, devices, Console(), threading.Event(), args.keep_checkpoints)
    if launched:  # otherwise fairseq itself starts a process for each GPU
        # By these, the processes of the training find each other.
        work.training_environment = devices.environment({**os.environ, **launched})
        work.launch_flags = launch_flags(devices, launched)
    done, rank = state.state is State.DONE, int(launched.get("RANK", 0))
    if rank != 0:
        # If all updates are made, the first process, which asks as well, would not come.
        if not (done or asked.folder.trained.exists() or work.is_trained()):
            work.train_here(log=f"train-rank{rank}")
        return
    if not done:
        work.complete()
    print(f"{asked.name} is done: {asked.folder.path}")
    result = read_result(asked.folder.result) or {}
    for name, score in result["scores"].items():
        print(f"   {name}: {score['value']:.2f}  {score['signature']}")


def run_of_table(args: argparse.Namespace) -> Run:
    if args.others:
        raise UserError(f"{args.row} has its own flags; leave out -- {args.others[0]}, or the row")
    for flag in ("name", *SIZES):
        if getattr(args, flag.replace("-", "_")):
            raise UserError(f"{args.row} has its own settings; leave out --{flag}, or the row")
    return run_of_row(workspace(args), args.row, args.column, args.seed)


def own_run(args: argparse.Namespace) -> Run:
    """Your own training, called ``own/NAME/NAME/bleu``."""
    train = flags_of(args.others)
    if args.data is None or "arch" not in train:
        raise UserError("name a row of a table, or text and model: --data DIR -- --arch NAME")
    name = args.name or str(train["arch"])
    if fault := fault_of_name(name):  # it names folders
        raise UserError(f"{name!r}: {fault}")
    given: dict = {"train": train, "batch": {}, "checkpoints": {}}
    for flag, (part, key, _) in SIZES.items():
        if (size := getattr(args, flag.replace("-", "_"))) is not None:
            given[part][key] = size
    place = workspace(args)
    settings = own_settings(given, place.profile)
    return Run(place, f"{OWN_PAPER}/{name}/{name}/bleu", args.seed, settings)


def own_settings(given: dict, profile: Profile) -> Settings:
    """:data:`OWN`, with a profile's settings on top, and on these what the user gives."""
    if "max-epoch" in given["train"]:
        given["train"].setdefault("max-update", None)
    given = load_raw(given, CONFIGS, "--").merged
    shared = merge(load_raw(OWN, CONFIGS, "train").merged, profile.settings)
    return resolve(merge(shared, given), "--")


def flags_of(words: Sequence[str]) -> dict[str, object]:
    """The flags of a command line: ``--dropout 0.3 --share-all-embeddings``."""
    flags: dict[str, object] = {}
    for word in words:
        if word.startswith("--"):
            last, given, value = word[2:].partition("=")
            if given and not value:
                raise UserError(f"{word}: the value is missing")
            flags[last] = _plain(value) if given else True
        elif not flags or flags[last] is not True:
            raise UserError(f"{word}: use --FLAG VALUE, with quotes around a value with spaces")
        else:
            flags[last] = _plain(word)
    return flags


def _plain(word: str) -> object:
    """A value as a file of settings would have it: a number, or text."""
    if not re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?", word):  # 1:30 and 010 are numbers in YAML
        return word
    return float(word) if "." in word else int(word)


def launch_flags(devices: Devices, launched: Mapping[str, str]) -> list[str]:
    """How processes on CPUs find each other, of which fairseq cannot tell by itself."""
    if devices.kind == "cuda":
        return []
    return [
        *("--distributed-init-method", "env://"),
        *("--distributed-rank", launched["RANK"]),
        "--distributed-no-spawn",
    ]
