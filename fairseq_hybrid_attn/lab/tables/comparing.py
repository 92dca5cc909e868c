"""Do the runs of plans that are missing, and print the tables of their numbers."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from ...errors import UserError
from ..figures import style
from ..files.processes import run_program
from ..files.writing import check_written, kind_of
from ..plan.execution import Execution, execute
from ..plan.plan import Plan
from ..run.fairseq_commands import flags
from .given import NOTHING, Beside
from .measuring import measure
from .printing import as_terminal, write_table


def reproduce(plans: Sequence[Plan], execution: Execution) -> None:
    """Do the runs that are missing; print the papers' tables with their numbers."""
    execute(plans, execution, lambda plan: as_terminal(measure(plan)))


def compare(
    plan: Plan, execution: Execution, write: Sequence[Path] = (), beside: Beside = NOTHING
) -> None:
    """Do the runs that are missing; print and write the comparison with the first system."""
    beside.check(plan)
    pages = {path: path.with_suffix(".numbers.json") for path in write if kind_of(path) == "page"}
    of_pages = {f"--write {page}, its numbers:": numbers for page, numbers in pages.items()}
    check_written(write, ("table", "data", "page"), [], of_pages)  # ``report`` makes the pages
    if write and execution.prepare_only:
        raise UserError("--write: with --prepare-only, there is nothing to write; leave it out")
    if pages:
        style.require()

    def show(plan: Plan) -> str:
        numbers = beside.added(measure(plan), plan, execution.devices.kind)
        done = [run for run in plan.runs if run.folder.result.exists()]
        done = [run for run in done if run.seed == done[0].seed]
        for path in [path for path in write if path not in pages]:
            write_table(path, numbers)
        report = ["fairseq-hybrid", "report", *(str(run.folder.path) for run in done)]
        report += flags(user_dir=plan.workspace.user_dir, device=execution.devices.kind)
        for page, shown in pages.items() if done else ():
            write_table(shown, numbers)  # of all seeds
            command = [*report, *flags(comparison=shown, write=page)]
            run_program(command, plan.workspace.root / "report.log")
        hints = [f"On one page: {shlex.join(report)}"] if done and not pages else []
        hints += [f"{path} is not written: no run is done" for path in pages if not done]
        return as_terminal(numbers) + "".join(f"\n{hint}\n" for hint in hints)

    execute([plan], execution, show)
