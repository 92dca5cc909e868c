"""What decides a run's numbers, what it was begun with, and its state; and beginning it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from ...errors import UserError
from ..corpora.manifest import read_manifest
from ..files.checksums import sha256
from ..files.json_files import write_json
from .devices import GPU_PRECISIONS, Devices
from .fairseq_commands import RunFolder
from .results import read_begun, read_result
from .training_log import last_record
from .workspace import Run

#: The criteria that take --autocast-bf16.
BF16_CRITERIA = (
    "fused_label_smoothed_cross_entropy",
    "label_smoothed_cross_entropy_with_supervised_attention",
)
#: What to type about a stale run.
REDO = "--redo deletes a run that is stale or done, and does it again"
#: What a change of each part of an identity is a change of, for display.
PARTS = {
    "settings": "configuration",
    "recipe": "data",
    "text": "data",
    "corpus": "data",
    "alignments": "data",
    "weights": "the model to begin with",
}
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

    @property
    def is_there(self) -> bool:
        """Whether something must be deleted before the run can be done again."""
        return self.state in (State.DONE, State.STALE)

    def is_to_do(self, redo: bool) -> bool:
        """Whether the run is done now; with ``redo``, also if it is there."""
        return redo or not self.is_there

    def __str__(self) -> str:
        return self.state.value + (f" ({self.detail})" if self.detail else "")


def status(run: Run) -> Status:
    """The state of a run, from its files alone: its corpus need not exist any more."""
    folder = run.folder
    made = products(folder)  # looked for first: another process may be at its beginning
    result = read_result(folder.result)
    made_with = result or read_begun(folder.begun)
    if made_with is None:
        if not made:
            return Status(State.NOT_BEGUN)
        return Status(State.STALE, f"{made[0].name} is there, but no {folder.begun.name}")
    changed = changes(run, made_with["identity"])
    names = differing(run.settings.as_dict(), made_with.get("settings") or {})
    told = f"{changed} changed" + (f": {names}" if names else "")
    if result is not None:
        return Status(State.STALE, told) if changed else Status(State.DONE)
    if changed and made:
        return Status(State.STALE, f"unfinished, and {told}")
    if changed:  # no checkpoint: its next attempt records what it begins with
        return Status(State.NOT_BEGUN)
    record = last_record(folder.log("train"))
    far = f"at update {record['num_updates']}" if record else "before its first update"
    if folder.trained.exists():
        far = "trained"
    failure = last_error(folder)
    return Status(State.BEGUN, far + (f"; failed: {failure}" if failure else ""))


def identity(run: Run) -> dict:
    """Digests of what decides a run's numbers; of the corpus, also of what it was prepared from.

    None stands for what is not here, perhaps to save space.
    """
    manifest, own = read_manifest(run.corpus_folder), run.workspace.own
    weights = Path(str(run.settings.train.get("finetune-from-model")))
    has_text = own is None or own.folder.is_dir()
    parts = {
        "settings": run.settings.digest,
        "recipe": run.recipe.digest if has_text else None,
        "text": run.text_digest if has_text else None,
        "corpus": manifest.digest if manifest else None,
    }
    if manifest and run.settings.needs_alignments:
        parts["alignments"] = manifest.alignments
    if "finetune-from-model" in run.settings.train:
        parts["weights"] = sha256(weights) if weights.is_file() else None
    return parts


def changes(run: Run, made_with: dict) -> str:
    """What has changed since a run had the identity ``made_with``, for display; "" if nothing."""
    now = {part: value for part, value in identity(run).items() if value is not None}
    changed = [PARTS[part] for part in now if now[part] != made_with.get(part)]
    return " and ".join(dict.fromkeys(changed))


def differing(now: dict, before: dict) -> str:
    """The names of settings that differ, for display: "train: dropout"."""

    def named(settings: dict) -> dict[str, object]:
        return {
            f"{part}: {key}".removesuffix(": "): value
            for part, of in settings.items()
            for key, value in (of if isinstance(of, dict) else {"": of}).items()
        }

    first, second = named(now), named(before)
    names = [n for n in {**first, **second} if first.get(n) != second.get(n)] if before else []
    return ", ".join(names[:4]) + ", …" * (len(names) > 4)


def products(folder: RunFolder) -> list[Path]:
    """What a run has made so far, except logs, which another of its processes may begin first."""
    first = (folder.begun, folder.path / "logs", folder.tensorboard)
    every = sorted(folder.path.iterdir()) if folder.path.is_dir() else []
    made = [path for path in every if path not in first and not path.name.startswith(".")]
    # An attempt that failed before its first checkpoint may begin again with other settings.
    return [path for path in made if path != folder.checkpoints or any(path.iterdir())]


def devices_of(run: Run, devices: Devices) -> Devices:
    """Return devices in the run's precision; ``auto``: what it was begun with, if it was.

    On a CPU, its instructions alone decide, so that a command gives the same numbers each time.
    """
    from ...cross_entropy import has_bfloat16

    precision, begun = devices.precision, read_begun(run.folder.begun)
    train, on_cpu = run.settings.train, devices.kind == "cpu"
    if not on_cpu and precision == "auto":
        known = (begun or {}).get("precision")
        precision = known if known in GPU_PRECISIONS else GPU_PRECISIONS[0]
    without = train.get("criterion") not in BF16_CRITERIA or train.get("checkpoint-activations")
    if without and (on_cpu or precision == "bf16"):
        precision = "fp32"  # the others know nothing else
    elif (
        on_cpu and precision == "auto"
    ):  # several processes, perhaps on unlike machines, must agree
        wanted = begun.get("precision") == "bf16" if begun else devices.world == 1
        precision = "bf16" if wanted and has_bfloat16() else "fp32"
    return replace(devices, precision=precision)


def begin(run: Run, devices: Devices) -> None:
    """Record what a run is begun with, or check that this has not changed."""
    check_begun(run, devices)
    if not products(run.folder):  # nor of an attempt that failed before its first checkpoint
        decisive = identity(run)
        if decisive["corpus"] is None:  # as while another run adds word alignments
            raise UserError("its corpus is being prepared; run again when that has ended")
        content = {"identity": decisive, "world": devices.world, "precision": devices.precision}
        content |= {"settings": run.settings.as_dict(), "workspace": run.workspace.as_record()}
        write_json(run.folder.begun, content)


def check_begun(run: Run, devices: Devices) -> None:
    """Check that a run is resumed as it was begun; its code may differ, as the result records."""
    folder = run.folder
    state, begun = status(run), read_begun(folder.begun)
    if state.state is State.STALE:
        raise UserError(f"{run.name} is {state}. {REDO}")
    if begun is None or folder.trained.exists() or folder.checkpoints not in products(folder):
        return  # there is nothing to resume from
    world, precision = begun.get("world"), begun.get("precision", devices.precision)
    if world != devices.world:
        raise UserError(
            f"{run.name} was begun on {world} devices. A checkpoint counts what each of them has "
            f"read, so the run cannot be resumed on {devices.world}; use the same number, or "
            f"delete {folder.path}"
        )
    if devices.precision not in ("auto", precision):
        raise UserError(
            f"{run.name} was begun in {precision} and would go on in {devices.precision}; leave "
            f"out --precision, use a machine that has {precision}, or delete {folder.path}"
        )


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
