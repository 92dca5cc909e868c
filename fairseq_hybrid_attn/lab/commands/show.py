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

import yaml

from ...errors import UserError
from ..plan.named_runs import find_run
from ..plan.script import script
from ..run.devices import devices_of, of_processes, slots
from ..run.fairseq_commands import by_flag
from .flags import positive
from .workspace_flags import add_devices, add_row, add_workspace, devices, workspace_of


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
    asked = find_run(workspace_of(args), args.row, column=args.column, seed=args.seed)
    if args.settings:
        print(yaml.safe_dump(asked.settings.as_dict(), sort_keys=False, allow_unicode=True), end="")
        return
    if args.script:
        of_devices = args.device, args.precision, args.compile, args.devices
        if of_devices != ("auto", "auto", False, None):
            raise UserError("a script is for any devices: set its GPUS or DEVICE when it runs")
        print(script(asked, args.command_line), end="")
        return
    wanted = devices(args)
    if args.devices:
        kind = "cpu" if args.device == "cpu" else "cuda"
        wanted = of_processes(replace(wanted, kind=kind), args.devices)
    else:
        wanted = slots(wanted, jobs=1)[0]
    of_run = devices_of(asked, wanted)
    print(f"# {asked.name} ({asked.label})")
    cell = asked.cell
    names = f"{cell.table_name} {cell.row} --columns {cell.column}"
    made_by = f"fairseq-hybrid reproduce {names} --prepare-only (and the options given here)"
    if cell.is_own:
        made_by = f"fairseq-hybrid compare --prepare-only, in {asked.corpus_folder}"
    print(f"# Its corpus is prepared by: {made_by}")
    for command in asked.commands(of_run).by_step(asked.seed).values():
        print("\n" + " \\\n    ".join(by_flag(command)))
