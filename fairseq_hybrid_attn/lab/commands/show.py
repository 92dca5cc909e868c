"""Print a run's exact command lines, as a shell script.

  fairseq-hybrid show hysan/table1/e1 --column nopos
  fairseq-hybrid show mma/table4/local --settings     # its settings as YAML instead
  fairseq-hybrid show mma/table4/local --script       # a script of your own, for any devices
  fairseq-hybrid show own/NAME/SYSTEM                 # a run on your text, or the folder of any run

The corpus need not be prepared.  The commands are those that "reproduce" runs.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import yaml

from ...errors import UserError, few
from ..config.paper_tables import OWN_PAPER
from ..models.trained import BEGUN
from ..plan.plan import run_of_row
from ..plan.script import script
from ..run.devices import Devices, check_cpu_precision, slots
from ..run.fairseq_commands import shell
from ..run.results import read_begun
from ..run.status import devices_of
from ..run.workspace import Run
from .flags import positive
from .runs import run_of_folder
from .workspace_flags import add_devices, add_row, add_workspace, workspace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_row(parser)
    parser.add_argument("--settings", action="store_true", help="print the settings as YAML")
    parser.add_argument("--script", action="store_true", help="print a script of its steps instead")
    add_workspace(parser)
    add_devices(parser)
    parser.add_argument(
        "--devices", type=positive, metavar="N", help="show the commands for N devices (default: 1)"
    )


def run(args: argparse.Namespace) -> None:
    asked = asked_run(args)
    if args.settings:
        print(yaml.safe_dump(asked.settings.as_dict(), sort_keys=False, allow_unicode=True), end="")
        return
    if args.script:
        of_devices = args.device, args.precision, args.compile, args.devices
        if of_devices != ("auto", "auto", False, None):
            raise UserError("a script is for any devices: set its GPUS or DEVICE when it runs")
        print(script(asked, args.command_line), end="")
        return
    if args.devices:
        kind = "cpu" if args.device == "cpu" else "cuda"
        if kind == "cpu":
            check_cpu_precision(args.precision)
        devices = Devices(kind, args.devices, (), 1, args.precision, args.compile)
    else:
        devices = slots(args.device, jobs=1, precision=args.precision, compile=args.compile)[0]
    devices = devices_of(asked, devices)
    print(f"# {asked.name} ({asked.label})")
    table, _, row = args.row.rpartition("/")
    names = f"{table} {row}" + (f" --columns {args.column}" if args.column else "")
    made_by = f"fairseq-hybrid reproduce {names} --prepare-only (and the options given here)"
    if asked.cell.table.startswith(f"{OWN_PAPER}/"):
        made_by = f"fairseq-hybrid compare --prepare-only, in {asked.corpus_folder}"
    print(f"# Its corpus is prepared by: {made_by}")
    for command in asked.commands(devices).by_step(asked.seed).values():
        print(f"\n{shell(command)}")


def asked_run(args: argparse.Namespace) -> Run:
    """The run of a folder, wherever that is now, of own/NAME/SYSTEM, or of a table's row."""
    place, folder = workspace(args), Path(args.row)
    if args.row.startswith(f"{OWN_PAPER}/"):
        found = sorted(place.runs.glob(f"*/{args.row}/*/seed{args.seed}"))
        if len(found) != 1:
            told = few(found, between="\n  ") if found else f"none in {place.runs}"
            raise UserError(f"{args.row}, seed {args.seed}: name the folder of one run: {told}")
        [folder] = found
    if (begun := read_begun(folder / BEGUN)) is None:
        return run_of_row(place, args.row, args.column, args.seed)
    *above, runs, label, paper, table, row, column, seed = folder.resolve().parts
    if runs != "runs":
        raise UserError(f"{folder} is not in a folder of runs")
    place = replace(place, root=Path(*above))
    return run_of_folder(place, label, [paper, table, row, column, seed], begun)
