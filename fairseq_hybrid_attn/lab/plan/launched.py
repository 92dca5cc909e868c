"""Be one of the processes, a device each, that torchrun or SLURM has started for a run."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ...errors import UserError
from ..files.processes import stop_at_signals
from ..run.devices import meeting_flags, of_processes
from ..run.running import RunInProgress
from ..run.status import State, check_begun
from .execution import Execution
from .plan import Plan


def execute_launched(plan: Plan, launched: Mapping[str, str], execution: Execution) -> None:
    """Execute the plan's only run with the other processes; ``launched``: torchrun's variables."""
    devices = of_processes(execution.devices, int(launched["WORLD_SIZE"]))
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
    work = RunInProgress(run, devices, execution.keep_checkpoints)
    # By these, the processes of the training find each other.
    work.training_environment = devices.environment({**os.environ, **launched})
    work.launch_flags = meeting_flags(devices, launched)
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
