"""Do several runs side by side."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass

from ...errors import UserError
from ..files.console import Console
from .devices import Devices
from .running import RunInProgress, Stopped
from .workspace import Run


@dataclass(frozen=True)
class Outcome:
    """How a run ended; ``problem`` is None if it is done."""

    run: Run
    problem: str | None


def run_all(
    runs: list[Run], slots: list[Devices], console: Console, keep_checkpoints: bool = False
) -> list[Outcome]:
    """Do runs in this order, one on each slot; return their outcomes, in order of completion.

    A failed run does not stop the others.  Ctrl-C ends their programs before it is raised.
    """
    waiting: queue.SimpleQueue[Run] = queue.SimpleQueue()
    for run in runs:
        waiting.put(run)
    stopped = threading.Event()
    outcomes: list[Outcome] = []

    def work(devices: Devices, ended: threading.Event) -> None:
        try:
            while True:
                do_one(waiting.get_nowait(), devices)
        except (queue.Empty, Stopped):
            pass
        finally:
            ended.set()

    def do_one(run: Run, devices: Devices) -> None:
        try:
            RunInProgress(run, devices, console, stopped, keep_checkpoints).complete()
            problem = None
        except UserError as error:
            problem = str(error)
        except Stopped:
            raise
        except Exception as error:  # one run's error must not stop the others
            problem = f"{type(error).__name__}: {error}"
        if problem:
            console.say(f"   {run.name}: FAILED: {problem}")
        outcomes.append(Outcome(run, problem))

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
    return outcomes
