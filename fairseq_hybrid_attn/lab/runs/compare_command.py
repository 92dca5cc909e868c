"""Train systems on your text, several seeds of each, and compare them with the first in one table.

A system is an architecture, with flags of its own in quotes; fairseq-train's flags after -- are
those of all.  Size, batch and length follow the number of training pairs (the plan says what is
chosen); --profile and flags go before.  It first prints the plan, then does what is missing: run
again, it resumes, and with more seeds or systems it adds them.

  fairseq-hybrid compare --text my-text/ --seeds 3 transformer transformer_mma
  fairseq-hybrid compare --text my-text/ transformer \\
      "transformer_hysan --branch-fusion concat" --write table.md -- --dropout 0.2
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from ...errors import UserError
from ..figures import style
from ..files.processes import run_program
from ..files.writing import check_outputs
from ..tables.measuring import measure
from ..tables.printing import FORMATS, write_table, written
from .doing import Doing, do, own_plan
from .fairseq_commands import flags
from .plan import Plan
from .workspace_flags import add_own, add_running, doing, shared, workspace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("systems", nargs="+", metavar="SYSTEM", help='"ARCHITECTURE [FLAGS]"')
    add_own(parser)
    add_running(parser)


def run(args: argparse.Namespace) -> None:
    if not args.text:
        raise UserError("name your text: --text DIR")
    place = workspace(args, by_size=True)
    plan = own_plan(place, args.systems, args.seeds, args.name, shared(args, args.others))
    compare(plan, doing(args), args.write)


def compare(plan: Plan, doing: Doing, write: Sequence[Path] = ()) -> None:
    """Do the runs that are missing; print and write the comparison with the first system."""
    check_outputs(written(write, ".html"), inputs=[])  # the page of ``report``
    if write and doing.prepare_only:
        raise UserError("--write: with --prepare-only, there is nothing to write; leave it out")
    pages = [path for path in write if path.suffix == ".html"]
    if pages:
        style.require()

    def show(plan: Plan) -> str:
        numbers = measure(plan)
        done = [run for run in plan.runs if run.folder.result.exists()]
        done = [run for run in done if run.seed == done[0].seed]
        report = ["fairseq-hybrid", "report", *(str(run.folder.path) for run in done)]
        report += flags(user_dir=plan.workspace.user_dir, device=doing.device)
        if pages and done:  # the page shows these numbers, of all seeds
            compared = plan.workspace.root / "comparison.json"
            compared.write_text(FORMATS["json"](numbers), encoding="utf-8")
            report += flags(comparison=compared)
        for path in pages if done else []:
            run_program([*report, *flags(output=path)], plan.workspace.root / "report.log")
        for path in [path for path in write if path not in pages]:
            write_table(path, numbers)
        hints = [f"On one page: {shlex.join(report)}"] if done and not pages else []
        hints += [f"{path} is not written: no run is done" for path in pages if not done]
        return FORMATS["terminal"](numbers) + "".join(f"\n{hint}\n" for hint in hints)

    do([plan], doing, show)
