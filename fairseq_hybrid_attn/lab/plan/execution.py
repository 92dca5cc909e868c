"""Execute plans: print them, do the runs that are missing, and show their tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...errors import UserError
from ..files.processes import at_work, stop_at_signals
from ..files.writing import say
from ..run.devices import Devices, slots
from ..run.status import State, remedy
from .cluster_jobs import JobOptions
from .dry_run import describe
from .plan import Plan


@dataclass(frozen=True)
class Execution:
    """How plans are executed: on which devices, and what of them."""

    devices: Devices = Devices("auto", precision="auto")  # of each run
    jobs: int | None = None  # runs side by side; None: as many as fit
    dry_run: bool = False
    prepare_only: bool = False
    redo: bool = False
    keep_checkpoints: bool = False
    downloads: Path | None = None
    slurm: JobOptions | None = None  # jobs of a cluster; None: here

    @property
    def slots(self) -> list[Devices]:
        """The devices of each run that is executed at the same time."""
        wanted, elsewhere = self.devices, self.slurm is not None  # the jobs' are not this machine's
        if elsewhere and wanted.kind == "auto":
            wanted = replace(wanted, kind="cuda")
        return slots(wanted, jobs=self.jobs, pretend=self.dry_run or elsewhere)


def execute(plans: Sequence[Plan], execution: Execution, show: Callable[[Plan], str]) -> None:
    """Print plans, do what is missing of them, and print what ``show`` gives for each."""
    slots, redo = execution.slots, execution.redo
    checked = [plan.check(slots[0]) for plan in plans]
    faults = list(dict.fromkeys(f"  {fault}" for _, found in checked for fault in found))
    # Other rows of a paper's table are run; a slip in a system of your own is mended first.
    ends = execution.dry_run or (faults and plans[0].table.is_own)
    for plan, (able, found) in zip(plans, checked, strict=True):
        say(describe(plan, slots, redo, able, [] if ends else found) + "\n")
    known = {run.name: (run, state) for able, _ in checked for run, state in able}
    to_do = [(run, state) for run, state in known.values() if state.is_to_do(redo)]
    busy = {run.name: at_work(run.folder.lock) for run, _ in to_do} if redo else {}
    if lines := [f"  {name}: {who} is at work on it" for name, who in busy.items() if who]:
        wait = "Nothing is deleted. Wait until these have ended, or end them, and repeat --redo:"
        raise UserError("\n".join([wait, *lines]))
    if faults and ends:
        raise UserError("\n".join(["Not everything can be run:", *faults]))
    if ends:
        return
    from .scheduler import execute_runs  # here: a plan needs it not

    stop_at_signals()
    try:
        problems = execute_runs(to_do, plans[0].workspace, slots, execution)
    except KeyboardInterrupt:
        say("stopped; the same command resumes")
        raise
    for plan in plans if not execution.prepare_only else []:
        try:
            print("\n" + show(plan), end="", flush=True)
        except UserError as error:  # that of a run comes first
            problems.append(f"  {plan.table.name}: {error}")
    lines = []
    if problems:
        lines += ["Not everything was done:", *problems]
        lines += ["Once this is fixed, the same command resumes."]
    if faults:
        lines += [f"{len(faults)} cannot be run: see the plan above."]
    stale = [f"  {n}: {state}" for n, (_, state) in known.items() if state.state is State.STALE]
    if stale and not redo:
        lines += ["Stale, and left as it is:", *stale, f"{remedy(plans[0].table.is_own)}."]
    if lines:
        raise UserError("\n".join(["", *lines]))
