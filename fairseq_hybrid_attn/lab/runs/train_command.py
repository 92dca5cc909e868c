"""Train one run, as a process of torchrun or SLURM or on its own: a row of a table, or your own.

Without a row, --data names your text, and fairseq-train's flags follow after --; those that are
not given are the papers'.  This becomes a table of one row, OUTPUT/configs/own/NAME.yaml.

The batch of an update keeps its size, however many devices share it.  Run again, the training
resumes.  Afterwards, "reproduce" averages, translates and scores the trained model.

  fairseq-hybrid train --data my-text/ --gpus 4 -- --arch transformer_hysan
  torchrun --nproc-per-node 8 --no-python fairseq-hybrid train hysan/table2c/gated_sum
  srun --ntasks-per-node 8 fairseq-hybrid train hysan/table2c/gated_sum
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from ...errors import UserError
from ..cli.flags import positive
from ..config.paper_tables import load_table
from ..files.console import Console
from ..files.names import fault_of_name
from ..files.processes import stop_at_signals
from ..files.writing import atomic_write
from ..files.yaml_files import CONFIGS
from .devices import Devices, of_environment, slots
from .fairseq_commands import flags
from .plan import make_plan
from .preparing import prepare_corpora
from .run_folders import begin, check_begun
from .running import RunInProgress
from .workspace import Run
from .workspace_flags import add_devices, add_workspace, seed, workspace

#: A table of one row, but for what the user gives; its flags are those that the papers share.
#: A profile replaces these settings, but not the row's own.
OWN = {
    "title": "Your own training",
    "extends": "transformer",
    "corpus": "own",
    "train": {"max-update": 100_000},
    "batch": {"tokens": 25_000, "per-device": 8192},
    "checkpoints": {"unit": "update", "every": 1000, "average": 5},
    "generate": {"beam": 4, "lenpen": 0.6},
    "columns": {"bleu": {"title": "BLEU"}},
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
    parser.set_defaults(others=[])  # what follows --
    add_workspace(parser)
    add_devices(parser)
    parser.add_argument(
        "--port", type=positive, default=29500, help="port on the first node, under SLURM"
    )


def add_row(parser: argparse.ArgumentParser, **how: object) -> None:
    parser.add_argument("row", metavar="PAPER/TABLE/ROW", **how)
    parser.add_argument("--column", metavar="NAME", help="needed if the table has several")
    parser.add_argument("--seed", type=seed, default=1, metavar="N")


def run(args: argparse.Namespace) -> None:
    """Train to the end; run again, resume from the last checkpoint."""
    if args.row is None:
        write_row(args)
    elif args.others:
        raise UserError(f"{args.row} has its own flags; leave out -- {args.others[0]}, or the row")
    elif given := [flag for flag in ("name", *SIZES) if getattr(args, flag.replace("-", "_"))]:
        raise UserError(f"{args.row} has its own settings; leave out --{given[0]}, or the row")
    found = the_run(args)
    # All processes check before any of them starts: if one alone stopped here, the others
    # would wait for it.
    if found.settings.aligner:
        raise UserError(f'{found.name} does not train a model; use "fairseq-hybrid reproduce"')
    launched = of_environment(os.environ, args.device, args.precision)
    devices = launched or slots(args.device, args.gpus, 1, 1, args.precision)[0]
    if launched is None and found.workspace.own is not None:
        _, problems = prepare_corpora([found], found.workspace, None)
        if problems:
            raise UserError(problems[0].strip())
    manifest = found.current_manifest
    if manifest is None or (found.settings.needs_alignments and manifest.alignments is None):
        raise UserError(
            f"its corpus is not prepared in {found.corpus_folder} as it is now; on one node, first "
            f"run: {reproducing(args, found)} --prepare-only"
        )
    check_begun(found, devices)
    if found.folder.trained.exists() or found.folder.result.exists():  # as of a restored run
        print(f"{found.name} is already trained")
        return
    stop_at_signals()
    work = RunInProgress(found, devices, Console(), threading.Event())
    if launched:  # otherwise fairseq itself starts a process for each GPU
        work.environment = devices.environment(os.environ)  # by which they find each other
        work.launch_flags = launch_flags(devices, os.environ, args.port)
    rank = rank_of(os.environ)
    if rank != 0:
        if not work.is_trained():  # or the first process, which asks as well, would not come
            work.train_here(log=f"train-rank{rank}")
        return
    found.folder.path.mkdir(parents=True, exist_ok=True)
    with work.locked() as work.lock:
        begin(found, work.devices)
        work.train()
    print(f"Now average, translate and score it:\n  {reproducing(args, found)}")


def write_row(args: argparse.Namespace) -> None:
    """Make a table of one row of what the user gives, and take it as the row."""
    train = flags_of(args.others)
    if args.data is None or "arch" not in train:
        raise UserError("name a row of a table, or text and model: --data DIR -- --arch NAME")
    if args.configs != CONFIGS:
        raise UserError("--configs is for a row of its tables; name one, or leave it out")
    name = args.name or str(train["arch"])
    if fault := fault_of_name(name):  # it names a file
        raise UserError(f"{name!r}: {fault}")
    if "max-epoch" in train:
        train.setdefault("max-update", None)
    row: dict = {"system": name, "train": train, "batch": {}, "checkpoints": {}}
    for flag, (part, key, _) in SIZES.items():
        if (size := getattr(args, flag.replace("-", "_"))) is not None:
            row[part][key] = size
    table = {**OWN, "rows": {name: row}}
    own = args.output.absolute() / "configs"
    path = make_parents(own / "own" / f"{name}.yaml")
    content = yaml.safe_dump(table, sort_keys=False, allow_unicode=True).encode()
    begun = any((args.output / "runs").glob(f"*/own/{name}/{name}/bleu/seed*/*.json"))
    if begun and path.exists() and path.read_bytes() != content:
        raise UserError(f"{name} was begun with other flags (see {path}); use another --name")
    with atomic_write(path) as file:
        file.write(content)
    args.configs, args.row = own, f"own/{name}/{name}"


def make_parents(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def flags_of(words: Sequence[str]) -> dict[str, object]:
    """The flags of a command line: ``--dropout 0.3 --share-all-embeddings``."""
    found: dict[str, object] = {}
    for word in words:
        if word.startswith("--"):
            last, given, value = word[2:].partition("=")
            if given and not value:
                raise UserError(f"{word}: the value is missing")
            found[last] = _plain(value) if given else True
        elif not found or found[last] is not True:
            raise UserError(f"{word}: use --FLAG VALUE, with quotes around a value with spaces")
        else:
            found[last] = _plain(word)
    return found


def _plain(word: str) -> object:
    """A value as a file of settings would have it: a number, or text."""
    if not re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?", word):  # 1:30 and 010 are numbers in YAML
        return word
    return float(word) if "." in word else int(word)


def reproducing(args: argparse.Namespace, run: Run) -> str:
    """The command that prepares the corpus of a run, or measures its model."""
    table, _, row = args.row.rpartition("/")
    place = run.workspace
    words = ["fairseq-hybrid", "reproduce", table, row, "--columns", run.cell.column.name]
    words += flags(seeds=f"{run.seed},", output=args.output, data=args.data)
    words += flags(source_lang=args.source_lang, target_lang=args.target_lang)
    words += flags(user_dir=args.user_dir)
    words += flags(configs=None if place.configs == CONFIGS else place.configs)
    words += flags(profile=None if args.profile == "full" else args.profile)
    words += flags(gpus_per_run=None if args.gpus == 1 else args.gpus)
    return shlex.join(words)


def the_run(args: argparse.Namespace) -> Run:
    place = workspace(args)
    name, _, row = args.row.rpartition("/")
    table = load_table(name, place.configs)
    plan = make_plan(table, place, [row], [args.column] if args.column else [], (args.seed,))
    names = [cell.column.name for cell in plan.cells]
    if len({run.name for run in plan.runs}) > 1:
        raise UserError(f"{args.row}: which --column? {', '.join(names)}")
    if plan.faults:
        raise UserError(plan.faults[0])
    if not plan.runs:
        reasons = ", ".join(dict.fromkeys(reason for _, reason in plan.planned))
        raise UserError(f"{args.row} is not run: {reasons or 'cited by the paper'}")
    return plan.runs[0]


def rank_of(environment: Mapping[str, str]) -> int:
    """The rank of this process in its run; the first one reports for all."""
    return int(environment.get("RANK") or environment.get("SLURM_PROCID") or 0)


def launch_flags(devices: Devices, environment: Mapping[str, str], port: int) -> list[str]:
    """How processes find each other, if fairseq cannot tell from torchrun or SLURM."""
    if devices.kind == "cuda":
        return [] if "RANK" in environment else ["--distributed-port", str(port)]
    if "RANK" not in environment:
        raise UserError("several processes on CPU: start them with torchrun")
    return [
        *("--distributed-init-method", "env://"),
        *("--distributed-rank", environment["RANK"]),
        "--distributed-no-spawn",
    ]
