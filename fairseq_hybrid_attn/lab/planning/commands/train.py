"""Train one run of a table, as a process of torchrun or SLURM or on its own.

This is for runs on several nodes; on one node, use "reproduce".  Afterwards, "reproduce" averages,
translates and scores the trained model.  The batch of an update keeps its configured size, however
many devices share it.

  torchrun --nproc-per-node 8 --no-python fairseq-hybrid train hysan/table2c/gated_sum
  srun --ntasks-per-node 8 fairseq-hybrid train hysan/table2c/gated_sum
"""

from __future__ import annotations

import argparse
import os
import threading
from collections.abc import Mapping

from ....errors import UserError
from ...arguments.flags import positive
from ...configuration.paper_tables import load_table
from ...corpora import read_manifest
from ...engine.console import Console
from ...engine.processes import stop_at_signals
from ...runs.devices import Devices, of_environment, slots
from ...runs.run_folders import begin, check_begun
from ...runs.running import RunInProgress
from ...runs.workspace import Run
from ..plan import make_plan
from .workspace_flags import add_devices, add_workspace, workspace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_row(parser)
    add_workspace(parser)
    add_devices(parser)
    parser.add_argument(
        "--port", type=positive, default=29500, help="port on the first node, under SLURM"
    )


def add_row(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("row", metavar="PAPER/TABLE/ROW")
    parser.add_argument("--column", metavar="NAME", help="needed if the table has several")
    parser.add_argument("--seed", type=positive, default=1, metavar="N")


def run(args: argparse.Namespace) -> None:
    """Train to the end; run again, resume from the last checkpoint."""
    found = the_run(args)
    # All processes check before any of them starts: if one alone stopped here, the others
    # would wait for it.
    if found.settings.aligner:
        raise UserError(f'{found.name} does not train a model; use "fairseq-hybrid reproduce"')
    manifest = read_manifest(found.corpus_folder)
    if manifest is None or (found.settings.needs_alignments and manifest.alignments is None):
        raise UserError(
            f"its corpus is not prepared in {found.corpus_folder}; on one node, run "
            '"fairseq-hybrid reproduce" with --prepare-only for this row'
        )
    devices = of_environment(os.environ, args.device, args.precision)
    devices = devices or slots(args.device, 1, 1, 1, args.precision)[0]
    check_begun(found, devices.world)
    if found.folder.trained.exists():
        print(f"{found.name} is already trained")
        return
    stop_at_signals()
    work = RunInProgress(found, devices, Console(), threading.Event())
    work.environment = devices.environment(os.environ)  # by which its processes find each other
    work.launch_flags = launch_flags(devices, os.environ, args.port)
    rank = rank_of(os.environ)
    if rank != 0:
        work.train_here(log=f"train-rank{rank}")
        return
    found.folder.path.mkdir(parents=True, exist_ok=True)
    with work.locked() as work.lock:
        begin(found, devices.world, work.devices.precision)
        work.train()


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
    if devices.world == 1:
        return []
    if devices.kind == "cuda":
        return [] if "RANK" in environment else ["--distributed-port", str(port)]
    if "RANK" not in environment:
        raise UserError("several processes on CPU: start them with torchrun")
    return [
        *("--distributed-init-method", "env://"),
        *("--distributed-rank", environment["RANK"]),
        "--distributed-no-spawn",
    ]
