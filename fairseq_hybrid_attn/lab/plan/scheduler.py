"""Execute several runs side by side, or as jobs of a cluster, after the corpora that they need."""

from __future__ import annotations

import queue
import threading

from ...errors import UserError
from ..files.writing import say
from ..run.devices import Devices
from ..run.running import RunInProgress, Stopped, delete_run, prepare_corpora
from ..run.status import Status
from ..run.workspace import Run, Workspace
from .cluster_jobs import submit
from .execution import Execution


def execute_runs(
    states: list[tuple[Run, Status]],
    workspace: Workspace,
    slots: list[Devices],
    execution: Execution,
) -> list[str]:
    """Execute runs here, or as jobs of a cluster; return what went wrong, a line each.

    What is done or stale of them is deleted, once the corpora are prepared.
    """
    problems: list[str] = []
    ready = [run for run, _ in states]
    if not execution.slurm:
        ready, problems = prepare_corpora(ready, execution.downloads)
    to_delete = {run.name for run, state in states if state.is_there and not execution.prepare_only}
    for run in [run for run in ready if run.name in to_delete]:
        try:
            delete_run(run)
        except (UserError, OSError) as error:
            problems.append(f"  {run.name}: {error}")
            ready.remove(run)
    if execution.slurm:
        say(f"\n== Jobs, with logs in {workspace.root / 'jobs'}")
        return problems + submit(
            ready,
            workspace,
            slots[0],
            execution.slurm,
            downloads=execution.downloads,
            prepare_only=execution.prepare_only,
            keep_checkpoints=execution.keep_checkpoints,
        )
    if execution.prepare_only:
        return problems
    if ready:
        say(f"\n== Runs: {len(ready)}, {min(len(slots), len(ready))} at a time")
    return problems + execute_here(ready, slots, execution.keep_checkpoints)


def execute_here(runs: list[Run], slots: list[Devices], keep_checkpoints: bool) -> list[str]:
    """Execute runs in this order, one on each slot; return what went wrong, a line each.

    A failed run does not stop the others.  Ctrl-C ends their programs before it is raised.
    """
    waiting: queue.SimpleQueue[Run] = queue.SimpleQueue()
    for run in runs:
        waiting.put(run)
    stopped = threading.Event()
    problems: list[str] = []

    def work(devices: Devices, ended: threading.Event) -> None:
        try:
            while True:
                execute_run(waiting.get_nowait(), devices)
        except (queue.Empty, Stopped):
            pass
        finally:
            ended.set()

    def execute_run(run: Run, devices: Devices) -> None:
        try:
            RunInProgress(run, devices, keep_checkpoints, stopped).complete()
            return
        except UserError as error:
            problem = str(error)
        except Stopped:
            raise
        except Exception as error:  # one run's error must not stop the others
            problem = f"{type(error).__name__}: {error}"
        say(f"   {run.name}: failed")
        problems.append(f"  {run.name}: {problem}")

    # Not Thread.join: before Python 3.13, a wait that Ctrl-C interrupts counts as an ended thread.
    ends: list[threading.Event] = []
    try:
        for slot in slots[: len(runs)]:
            end = threading.Event()
            threading.Thread(target=work, args=(slot, end)).start()
            ends.append(end)
        for end in ends:
            while not end.wait(0.5):  # a wait without limit would not notice Ctrl-C
                pass
    finally:
        stopped.set()
        for end in ends:
            end.wait()
    return problems
