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
from collections.abc import Callable
from pathlib import Path

from ...errors import UserError
from ..cli.flags import positive
from ..files.processes import stop_at_signals
from ..runs import cluster_jobs
from ..runs.devices import slots
from ..runs.dry_run import describe
from ..runs.plan import Plan
from ..runs.status import REDO, State
from ..runs.workspace_flags import add_cells, add_devices, add_workspace, plans


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_cells(parser)
    add_running(parser)


def add_running(parser: argparse.ArgumentParser) -> None:
    """Flags of commands that do runs."""
    parser.add_argument("--dry-run", action="store_true", help="print the plan; do nothing")
    parser.add_argument(
        "--prepare-only", action="store_true", help="prepare the corpora; run nothing"
    )
    parser.add_argument(
        "--redo",
        action="store_true",
        help="delete these runs, if they are done or stale, and do them again",
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
    for flags, default, help_text in (
        (("--gpus-per-run", "--gpus"), 1, "GPUs per run (default: 1)"),
        (("--jobs",), None, "runs side by side (default: as many as fit); more share GPUs"),
        (("--threads",), 1, "threads per run on CPU (default: 1)"),
    ):
        parser.add_argument(*flags, type=positive, default=default, metavar="N", help=help_text)


def run(args: argparse.Namespace) -> None:
    run_plans(plans(args), args)


def run_plans(
    asked: list[Plan], args: argparse.Namespace, show: Callable[[Plan], str] | None = None
) -> None:
    """Print plans, do what is missing of them, and ``show`` each (default: as a paper's table)."""
    jobs = cluster_jobs.options(args)
    # The devices are those of the jobs, not of this machine.
    device = "cuda" if jobs and args.device == "auto" else args.device
    how = (device, args.gpus_per_run, args.jobs, args.threads, args.precision)
    where = slots(*how, pretend=args.dry_run or jobs is not None)
    checked = [plan.check() for plan in asked]
    told = [describe(plan, where, args.redo, *c) for plan, c in zip(asked, checked, strict=True)]
    print("\n\n".join(told), flush=True)
    faults = list(dict.fromkeys(f"  {fault}" for _, found in checked for fault in found))
    # Other rows of a paper's table are run; a slip in a system of your own is mended first.
    if faults and (args.dry_run or asked[0].table.is_own):
        raise UserError("\n".join(["", "Not everything can be run:", *faults]))
    if args.dry_run:
        return
    # A plan needs nothing of what follows.
    from ..runs.scheduler import do_runs
    from .measuring import measure
    from .printing import as_terminal

    stop_at_signals()
    able = {run.name: (run, state) for able, _ in checked for run, state in able}
    to_do = [(run, state) for run, state in able.values() if state.is_to_do(args.redo)]
    what = args.downloads, args.prepare_only, args.keep_checkpoints
    problems = faults + do_runs(to_do, asked[0].workspace, where, jobs, *what)
    for plan in asked if not args.prepare_only else []:
        shown = show(plan) if show else as_terminal(measure(plan))
        print("\n" + shown, end="", flush=True)
    told = []
    if problems:
        resume = "Once this is fixed, the same command resumes."
        told += ["", "Not everything was done:", *problems, resume]
    stale = [f"  {n}: {state}" for n, (_, state) in able.items() if state.state is State.STALE]
    if stale and not args.redo:
        other = "; another --name keeps both" * asked[0].table.is_own
        told += ["", "Stale, and left as it is:", *stale, f"{REDO}{other}."]
    if told:
        raise UserError("\n".join(told))
