"""Run tables of the papers, and print them with our numbers beside the papers'.

It first prints the plan: which corpora, which runs, on which devices, about how long (--dry-run
stops there).  Then it does what is missing: it prepares corpora, trains, averages, translates and
scores, with several runs side by side if there are devices for it.  After an interruption, the
same command resumes.  A run that fails does not stop the others.

  fairseq-hybrid reproduce mma/table4 --seeds 3
  fairseq-hybrid reproduce hysan/table1 base e1 --columns bleu
  fairseq-hybrid reproduce hysan/table1 base e1 mma/table4 --profile small --data my-text/

A table is named by its folder in configs/, a row by its name in the table.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ...errors import UserError
from ..cli.flags import positive
from ..files.console import Console
from ..files.processes import stop_at_signals
from ..runs import cluster_jobs
from ..runs.checking import check_runs
from ..runs.devices import Devices, slots
from ..runs.dry_run import describe
from ..runs.preparing import prepare_corpora
from ..runs.results import accept
from ..runs.run_folders import forget
from ..runs.scheduler import run_all
from ..runs.status import StaleRuns, State, status
from ..runs.workspace import Run, Workspace
from ..runs.workspace_flags import add_devices, add_workspace
from .measuring import measure
from .printing import as_terminal
from .table_arguments import add_cells, plans


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_cells(parser)
    parser.add_argument("--dry-run", action="store_true", help="print the plan; do nothing")
    parser.add_argument(
        "--prepare-only", action="store_true", help="prepare the corpora; run nothing"
    )
    stale = parser.add_mutually_exclusive_group()
    stale.add_argument(
        "--redo-stale",
        action="store_true",
        help="delete runs whose configuration, data or code has changed, and do them again",
    )
    stale.add_argument(
        "--accept-stale",
        action="store_true",
        help="keep results of which only the code has changed; the results and tables say so",
    )
    parser.add_argument(
        "--keep-checkpoints",
        action="store_true",
        help="keep all checkpoints of finished runs (default: only the averaged model)",
    )
    parser.add_argument(
        "--downloads",
        type=Path,
        metavar="DIR",
        help="folder of archives; those in it are not downloaded (default: OUTPUT/downloads)",
    )
    cluster_jobs.add_arguments(parser)
    add_workspace(parser)
    add_devices(parser)
    for flag, default, help_text in (
        ("--gpus-per-run", 1, "GPUs per run (default: 1)"),
        ("--jobs", None, "runs side by side (default: as many as fit)"),
        ("--threads", 1, "threads per run on CPU (default: 1)"),
    ):
        parser.add_argument(flag, type=positive, default=default, metavar="N", help=help_text)


def run(args: argparse.Namespace) -> None:
    asked = plans(args)
    cluster_jobs.check(args)
    how = (args.device, args.gpus_per_run, args.jobs, args.threads, args.precision)
    where = slots(*how, pretend=args.dry_run or args.slurm)
    stale = StaleRuns(args.redo_stale, args.accept_stale)
    checked = [check_runs(plan) for plan in asked]
    shown = zip(asked, checked, strict=True)
    print("\n\n".join(describe(plan, where, stale, *found) for plan, found in shown), flush=True)
    faults = list(dict.fromkeys(f"  {fault}" for _, found in checked for fault in found))
    if args.dry_run:
        if faults:
            raise UserError("\n".join(["", "Not everything can be run:", *faults]))
        return
    stop_at_signals()
    able = {run.name: run for runs, _ in checked for run in runs}
    runs, left = wanted(list(able.values()), stale)
    problems = faults + do(runs, asked[0].workspace, where, args)
    for plan in asked if not args.prepare_only else []:
        print("\n" + as_terminal(measure(plan)), end="", flush=True)
    told = []
    if problems:
        resume = "Once this is fixed, the same command resumes."
        told += ["", "Not everything was done:", *problems, resume]
    if left:
        told += ["", "Stale, and left as it is:", *left, f"{StaleRuns.HELP}."]
    if told:
        raise UserError("\n".join(told))


def do(
    runs: list[Run], place: Workspace, where: list[Devices], args: argparse.Namespace
) -> list[str]:
    """Do runs, after their corpora; return what went wrong, for display."""
    if args.slurm:
        ready, problems = runs, []
    else:
        ready, problems = prepare_corpora(runs, place, args.downloads)
    if args.prepare_only and not args.slurm:
        return problems
    for run in [] if args.prepare_only else list(ready):
        try:
            if status(run).state is State.STALE:
                forget(run)
        except (UserError, OSError) as error:
            problems.append(f"  {run.name}: {error}")
            ready.remove(run)
    if args.slurm:
        print(f"\n== Jobs, with logs in {place.root / 'jobs'}", flush=True)
        return problems + cluster_jobs.submit(ready, place, args)
    if ready:
        print(f"\n== Runs: {len(ready)}, {min(len(where), len(ready))} at a time", flush=True)
    outcomes = run_all(ready, where, Console(), args.keep_checkpoints)
    return problems + [f"  {o.run.name}: {o.problem}" for o in outcomes if o.problem]


def wanted(asked: list[Run], stale: StaleRuns) -> tuple[list[Run], list[str]]:
    """The runs to do, and the stale ones that are left; results are accepted here."""
    runs, left = [], []
    for run in asked:
        found = status(run)
        if stale.to_do(found):
            runs.append(run)
        elif stale.accepts(found):
            accept(run)
        elif stale.leaves(found):
            left.append(f"  {run.name}: {found}")
    return runs, left
