"""Train a model, translate the test set with it and score that: on your text, or a table's row.

On your text (--text), a system is an architecture of fairseq's or this package's.  fairseq-train's
flags follow after --; size, batch and length follow the number of training pairs (see the plan).
The batch of an update keeps its size, however many devices share it.  Run again, it resumes where
it stopped.  "compare" takes several systems, and what this has trained.

  fairseq-hybrid train --text my-text/ --gpus 4 transformer_hysan
  fairseq-hybrid train --text my-text/ transformer_mma -- --dropout 0.2
  fairseq-hybrid train --text other/ --from models/mma -- --max-update 300
  torchrun --nproc-per-node 8 --no-python fairseq-hybrid train hysan/table2c/gated_sum
  srun --ntasks-per-node 8 fairseq-hybrid train hysan/table2c/gated_sum
"""

from __future__ import annotations

import argparse
import os
import shlex
import threading
from collections.abc import Mapping
from pathlib import Path

from ...errors import UserError
from ..files.console import Console
from ..files.processes import stop_at_signals
from ..models.trained import TrainedModel, find_model
from .compare_command import compare
from .devices import Devices, launcher, of_launched
from .doing import Doing, own_plan
from .plan import Plan, make_plans
from .reproduce_command import reproduce
from .running import RunInProgress
from .status import State, check_begun
from .workspace_flags import SIZES, add_own, add_running, doing, shared, workspace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("row", nargs="?", metavar="SYSTEM|PAPER/TABLE/ROW")
    parser.add_argument("--column", metavar="NAME", help="of a row (default: all columns)")
    add_own(parser)
    parser.add_argument(
        "--from",
        type=Path,
        metavar="RUN|MODEL",
        help="begin with a trained model: its weights, subwords, dictionaries and settings; rate, "
        "warm-up and length follow it, or --max-update",
    )
    add_running(parser)


def run(args: argparse.Namespace) -> None:
    """Do the run to its end; run again, go on where it stopped."""
    how, system, flags = doing(args), args.row, args.others
    if system and "/" in system:
        plan = plan_of_row(args)
    else:
        model = find_model(given) if (given := getattr(args, "from")) else None
        if model and (args.source_lang or args.target_lang or args.profile):
            raise UserError(
                "--from has the model's languages and sizes: leave out --source-lang, "
                "--target-lang and --profile"
            )
        system, flags = own_system(args, model)
        place = workspace(args, by_size=model is None)
        what = shared(args, flags, model)
        plan = own_plan(place, [system], args.seeds, args.name, what)
    alone = how.prepare_only or how.dry_run or how.slurm
    if launched := {} if alone else launcher(os.environ):
        if how.redo or args.write:
            raise UserError(
                "--redo and --write: not for processes of torchrun or srun; use one process"
            )
        train_launched(plan, launched, how)
    elif not plan.table.is_own:
        reproduce([plan], how)
    else:
        compare(plan, how, args.write)
        if len(plan.table.rows) == 1 and not how.dry_run:
            words = ["fairseq-hybrid", "compare", *of_text(args), system, "ANOTHER"]
            words += ["--", *flags] if flags else []
            print(f"\nCompare it with another system: {shlex.join(words)}")


def of_text(args: argparse.Namespace) -> list[str]:
    """The flags with which compare finds what was trained."""
    words = args.command_line[2:]
    words = words[: words.index("--")] if "--" in words else words
    return [word for word in words if word != args.row]


def plan_of_row(args: argparse.Namespace) -> Plan:
    if args.others:
        raise UserError(f"{args.row} has its own flags; leave out -- {args.others[0]}, or the row")
    for flag in ("from", *SIZES):
        if getattr(args, flag.replace("-", "_")):
            raise UserError(f"{args.row} has its own settings; leave out --{flag}, or the row")
    table, _, row = args.row.rpartition("/")
    columns = [args.column] if args.column else []
    [plan] = make_plans(workspace(args), [table, row], columns, args.seeds)
    for run in plan.runs:
        if run.settings.aligner:
            raise UserError(f'{run.name} does not train a model; use "fairseq-hybrid reproduce"')
    return plan


def own_system(args: argparse.Namespace, model: TrainedModel | None) -> tuple[str, list[str]]:
    """The system of your text, which ``--arch`` or a model may name, and the flags after ``--``."""
    system, flags = args.row, list(args.others)
    if system is None and "--arch" in flags[:-1]:
        at = flags.index("--arch")
        system = flags[at + 1]
        del flags[at : at + 2]
    if system is None and model:
        system = str(model.settings.get("train", {}).get("arch"))
    if not args.text or system is None:
        raise UserError("name a row of a table, or your text and a system: --text DIR transformer")
    return system, flags


def train_launched(plan: Plan, launched: Mapping[str, str], how: Doing) -> None:
    """Be one of the processes, a device each, that torchrun or SLURM has started for a run."""
    devices = of_launched(launched, how.device, how.precision, how.compile)
    # All processes check before any of them starts: if one alone stopped here, the others
    # would wait for it.
    able, faults = plan.check(devices)
    if faults:
        raise UserError("\n".join(faults))
    if len(able) != 1:
        raise UserError(f"{len(able)} runs: under torchrun or srun, name one --column and seed")
    [(run, state)] = able
    if not run.has_corpus:
        raise UserError(
            f"its corpus is not prepared in {run.corpus_folder} as it is now; on one node, first "
            "run the same with --prepare-only"
        )
    check_begun(run, devices)
    stop_at_signals()
    work = RunInProgress(run, devices, Console(), threading.Event(), how.keep_checkpoints)
    # By these, the processes of the training find each other.
    work.training_environment = devices.environment({**os.environ, **launched})
    work.launch_flags = launch_flags(devices, launched)
    work.check()
    done, rank = state.state is State.DONE, int(launched["RANK"])
    if rank != 0:
        # If all updates are made, the first process, which asks as well, would not come.
        if not (done or run.folder.trained.exists() or work.is_trained()):
            work.train_here(log=f"train-rank{rank}")
        return
    if not done:
        work.complete()
    print(f"{run.name} is done: {run.folder.path}")


def launch_flags(devices: Devices, launched: Mapping[str, str]) -> list[str]:
    """How processes on CPUs find each other, of which fairseq cannot tell by itself."""
    if devices.kind == "cuda":
        return []
    return [
        *("--distributed-init-method", "env://"),
        *("--distributed-rank", launched["RANK"]),
        "--distributed-no-spawn",
    ]
