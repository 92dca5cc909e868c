"""The state of a run: done, stale, begun or not begun."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from .fairseq_commands import RunFolder
from .results import read_result
from .run_folders import changes, products, read_begun
from .training_log import last_record
from .workspace import Run

#: How the last line of a Python traceback begins.
_ERROR = re.compile(r"[\w.]*(Error|Exception)\b")


class State(Enum):
    """``STALE``: what is there is of other settings or data.  Code never makes a run stale."""

    DONE = "done"
    STALE = "stale"
    BEGUN = "begun"
    NOT_BEGUN = "not begun"


@dataclass(frozen=True)
class Status:
    """A run's state, and why it is stale or how far it got."""

    state: State
    detail: str = ""

    def __str__(self) -> str:
        return self.state.value + (f" ({self.detail})" if self.detail else "")


def status(run: Run) -> Status:
    """The state of a run, from its files alone: its corpus need not exist any more."""
    folder = run.folder
    result = read_result(folder.result)
    made_with = result or read_begun(folder.begun)
    if made_with is None:
        made = products(folder)
        return Status(State.STALE, f"{made[0].name} is there") if made else Status(State.NOT_BEGUN)
    changed = " and ".join(changes(run, made_with["identity"]))
    if result is not None:
        return Status(State.STALE, f"{changed} changed") if changed else Status(State.DONE)
    if changed:
        return Status(State.STALE, f"unfinished, and {changed} changed")
    record = last_record(folder.log("train"))
    far = f"at update {record['num_updates']}" if record else "before its first update"
    if folder.trained.exists():
        far = "trained"
    failure = last_error(folder)
    return Status(State.BEGUN, far + (f"; failed: {failure}" if failure else ""))


def last_error(folder: RunFolder) -> str | None:
    """The error that a run's newest log ends with, if any, such as a loss that became NaN."""
    logs = sorted(folder.path.glob("**/logs/*.log"), key=lambda log: log.stat().st_mtime)
    if not logs:
        return None
    _, traceback, end = logs[-1].read_text(errors="replace").rpartition("Traceback (most recent")
    if not traceback or " | INFO | " in end:  # it was resumed
        return None
    # Messages of several lines, and warnings, may follow.
    return next((line for line in reversed(end.split("\n")) if _ERROR.match(line)), None)
