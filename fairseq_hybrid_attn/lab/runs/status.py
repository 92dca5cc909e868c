"""The state of a run: done, stale, begun or not begun."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ...errors import UserError
from .fairseq_commands import RunFolder
from .results import changes, has_former_digest, products, read_begun, read_result
from .training_log import last_record
from .workspace import Run

#: How the last line of a Python traceback begins.
_ERROR = re.compile(r"[\w.]*(Error|Exception)\b")
#: Why a result of an earlier version is stale once, whatever its code was.
FORMER = "its digest of the code is an earlier version's, of more than what it uses"


class State(Enum):
    DONE = "done"
    STALE = "stale"
    BEGUN = "begun"
    NOT_BEGUN = "not begun"


@dataclass(frozen=True)
class Status:
    """A run's state, and why it is stale or how far it got."""

    state: State
    detail: str = ""
    acceptable: bool = False  # nothing but the code has changed since its result was made

    def __str__(self) -> str:
        return self.state.value + (f" ({self.detail})" if self.detail else "")


@dataclass(frozen=True)
class StaleRuns:
    """What the user wants done about stale runs."""

    redo: bool = False
    accept: bool = False  # where that is possible

    #: What to type about those that are left as they are.
    HELP = (
        "--redo-stale deletes a stale run and does it again; --accept-stale keeps its result if "
        "only the code has changed, and records that"
    )

    def to_do(self, found: Status) -> bool:
        """Whether a run in this state is done now."""
        return self.redo if found.state is State.STALE else found.state is not State.DONE

    def accepts(self, found: Status) -> bool:
        return self.accept and found.acceptable

    def leaves(self, found: Status) -> bool:
        return found.state is State.STALE and not (self.redo or self.accepts(found))

    def in_words(self, found: Status) -> str:
        """What happens to a stale run."""
        if self.redo:
            return "deleted and done again"
        return "its result is accepted" if self.accepts(found) else "left as it is"


def status(run: Run) -> Status:
    folder = run.folder
    result = read_result(folder.result)
    made_with = result or read_begun(folder.begun)
    if made_with is None:
        made = products(folder)
        return Status(State.STALE, f"{made[0].name} is there") if made else Status(State.NOT_BEGUN)
    changed = changes(run, made_with)
    if "code" in changed:
        _check_user_dir(run)
    if result is not None:
        if not changed:
            return Status(State.DONE)
        told = f"{' and '.join(changed)} changed"
        if "code" in changed and has_former_digest(result["identity"]):
            told += f"; {FORMER}"
        return Status(State.STALE, told, acceptable=changed == ["code"])
    changed = [what for what in changed if what != "code"]
    if changed:
        return Status(State.STALE, f"unfinished, and {' and '.join(changed)} changed")
    record = last_record(folder.log("train"))
    far = f"at update {record['num_updates']}" if record else "before its first update"
    if folder.trained.exists():
        far = "trained"
    failure = last_error(folder)
    return Status(State.BEGUN, far + (f"; failed: {failure}" if failure else ""))


def _check_user_dir(run: Run) -> None:
    """Code that is not loaded has not changed; --redo-stale must not delete what it made."""
    record = (read_begun(run.folder.begun) or {}).get("workspace") or {}
    made_with, given = record.get("user_dir"), run.workspace.user_dir
    # A folder that was moved has the same name, and its package as well.
    if made_with and (given is None or given.name != Path(made_with).name):
        raise UserError(f"{run.name} was begun with --user-dir {made_with}; name it here too")


def last_error(folder: RunFolder) -> str | None:
    """The error that a run's newest log ends with, if any, such as a loss that became NaN."""
    logs = sorted(folder.path.glob("**/logs/*.log"), key=lambda log: log.stat().st_mtime)
    if not logs:
        return None
    _, found, end = logs[-1].read_text(errors="replace").rpartition("Traceback (most recent")
    if not found or " | INFO | " in end:  # it was resumed
        return None
    # Messages of several lines, and warnings, may follow.
    return next((line for line in reversed(end.split("\n")) if _ERROR.match(line)), None)
