"""Train a model, translate the test set with it and score that: on your text, or a table's row.

On your text (--text), a system is an architecture of fairseq's or this package's.  fairseq-train's
flags follow after --; size, batch and length follow the number of training pairs (see the plan).
The batch of an update keeps its size, however many devices share it.  Run again, it resumes where
it stopped.  "compare" takes several systems, and what this has trained.

  fairseq-hybrid train --text my-text/ --gpus-per-run 4 transformer_hysan
  fairseq-hybrid train --text my-text/ transformer_mma -- --dropout 0.2
  fairseq-hybrid train --text other/ --from models/mma -- --max-update 300
  torchrun --nproc-per-node 8 --no-python fairseq-hybrid train hysan/table2c/gated_sum
  srun --ntasks-per-node 8 fairseq-hybrid train hysan/table2c/gated_sum
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from ...errors import UserError
from ..models.trained import find_model
from ..plan.launched import execute_launched
from ..plan.plan import Plan, own_plan, plan_of_row
from ..run.devices import launcher
from ..tables.comparing import compare, reproduce
from .workspace_flags import SIZES, add_own, add_running, execution, sizes, workspace_of


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
    how, system, flags = execution(args), args.row, args.others
    if system and "/" in system:
        plan = plan_of_asked_row(args)
    else:
        model = find_model(given) if (given := getattr(args, "from")) else None
        if model and (args.source_lang or args.target_lang or args.profile):
            raise UserError(
                "--from has the model's languages and sizes: leave out --source-lang, "
                "--target-lang and --profile"
            )
        if system is None and model:
            system = str(model.settings.get("train", {}).get("arch"))
        if not args.text or system is None:
            raise UserError(
                "name a row of a table, or your text and a system: --text DIR transformer"
            )
        if args.column:
            raise UserError("--column is of a table's row; leave it out")
        plan = own_plan(
            workspace_of(args, by_size=model is None),
            [system],
            seeds=args.seeds,
            name=args.name,
            flags=flags,
            given=sizes(args),
            model=model,
            inherits=args.row is None,
        )
    alone = how.prepare_only or how.dry_run or how.slurm
    if launched := {} if alone else launcher(os.environ):
        if how.redo or args.write:
            raise UserError(
                "--redo and --write: not for processes of torchrun or srun; use one process"
            )
        execute_launched(plan, launched, how)
    elif not plan.table.is_own:
        reproduce([plan], how)
    else:
        compare(plan, how, args.write)
        if len(plan.table.rows) == 1 and not (how.dry_run or how.prepare_only):
            print(f"\nCompare it with another system: {shlex.join(comparison(args.command_line))}")


def comparison(words: Sequence[str]) -> list[str]:
    """The command that compares what this one has trained; it deletes and writes nothing."""
    at = words.index("--") if "--" in words else len(words)
    pairs = pairwise(["", *words[2:at]])
    kept = [
        word
        for before, word in pairs
        if before != "--write" and word != "--redo" and not word.startswith("--write")
    ]
    return ["fairseq-hybrid", "compare", *kept, "ANOTHER", *words[at:]]


def plan_of_asked_row(args: argparse.Namespace) -> Plan:
    if args.others:
        raise UserError(f"{args.row} has its own flags; leave out -- {args.others[0]}, or the row")
    for flag in ("from", "name", "write", *SIZES):
        if getattr(args, flag.replace("-", "_")) not in (None, []):
            raise UserError(f"{args.row} has its own settings; leave out --{flag}, or the row")
    columns = [args.column] if args.column else []
    plan = plan_of_row(workspace_of(args), args.row, columns, args.seeds)
    for run in plan.runs:
        if run.settings.aligner:
            raise UserError(f'{run.name} does not train a model; use "fairseq-hybrid reproduce"')
    return plan
