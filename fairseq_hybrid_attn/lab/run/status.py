"""What a run was begun with, and how far it got: the one rule of when its work is done.

``begun.json`` records digests of what decides a run's numbers, in two parts: the ``training``, and
what is ``following`` it.  A step is done when its product stands under its final name.  If the
training's part has changed, the run is stale: nothing is done until the user says so.  If the other
part has, what follows the training is done again.  Code changes neither: results record it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from ...errors import UserError
from ..config.settings import WEIGHTS_OF
from ..corpora.manifest import copy_for_model
from ..files.deleting import delete
from ..files.json_files import write_json
from ..files.processes import error_in
from .devices import GPU_PRECISIONS, Devices
from .fairseq_commands import RunFolder
from .finding import FOLLOWING, TRAINING, same_elsewhere
from .results import read_begun, read_result
from .workspace import Run

#: The criteria that take --autocast-bf16.
BF16_CRITERIA = (
    "fused_label_smoothed_cross_entropy",
    "label_smoothed_cross_entropy_with_supervised_attention",
)
#: What a change in an identity is a change of, for display.
PARTS = {
    "settings": "configuration",
    "direction": "direction",
    "data": "data",
    "corpus": "data",
    "alignments": "data",
    "weights": "the model to begin with",
}
FAILED = "failed: "  # before the error in a state that is displayed
#: fairseq's numbered checkpoints, by updates or by epochs.
_CHECKPOINT = re.compile(r"checkpoint(?:_\d+_(?P<update>\d+)|(?P<epoch>\d+))\.pt")


class State(Enum):
    """``STALE``: its training was begun with other settings or data."""

    DONE = "done"
    STALE = "stale"
    BEGUN = "begun"
    NOT_BEGUN = "not begun"


@dataclass(frozen=True)
class Status:
    """A run's state, why it is stale or how far it got, and the error that ended it, if any."""

    state: State
    detail: str = ""
    failure: str | None = None

    @property
    def is_there(self) -> bool:
        """Whether something must be deleted before the run can be done again."""
        return self.state in (State.DONE, State.STALE)

    def is_to_do(self, redo: bool) -> bool:
        """Whether the run is done now; with ``redo``, also if it is there."""
        return redo or not self.is_there

    def __str__(self) -> str:
        detail = "; ".join(filter(None, (self.detail, self.failure and FAILED + self.failure)))
        return self.state.value + (f" ({detail})" if detail else "")


def remedy(is_own: bool) -> str:
    """What to type about a stale run."""
    keeps = "another --name keeps both; " * is_own
    return f"{keeps}--redo deletes a run that is stale or done, and does it again"


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
    names = differing(run.settings.as_dict(), made_with.get("settings") or {})
    named = f": {names}" if names else ""
    # An aligner reads the text of the training and the hand-aligned sentences together.
    begins_with = (TRAINING, FOLLOWING) if run.settings.aligner else (TRAINING,)
    if changed := changes(run, made_with, *begins_with):
        if not made:  # no checkpoint: its next attempt records what it begins with
            return Status(State.NOT_BEGUN)
        unfinished = "unfinished, and " * (result is None)
        other = run.is_own and same_elsewhere(run, identity(run)[TRAINING])
        fits = f"; as you ask, it is in --name {other}" * bool(other)
        return Status(State.STALE, f"{unfinished}{changed} changed{named}{fits}")
    changed = changes(run, made_with, FOLLOWING)
    if changed and result:
        if not folder.model.exists() or run.settings.checkpoints.curve:
            return Status(State.STALE, f"{changed} changed{named}, and no checkpoint is left")
        return Status(State.BEGUN, f"trained; {changed} changed{named}: the rest is done again")
    if result is not None:
        return Status(State.DONE)
    far = "trained" if folder.trained.exists() else _resumes_from(folder)
    return Status(State.BEGUN, far, last_error(folder))


def _resumes_from(folder: RunFolder) -> str:
    saved = folder.checkpoints.iterdir() if folder.checkpoints.is_dir() else ()
    found = [
        (int(number), unit)
        for path in saved
        if (match := _CHECKPOINT.fullmatch(path.name))
        for unit, number in match.groupdict().items()
        if number
    ]
    if not found:
        return "before its first checkpoint"
    number, unit = max(found)
    return f"resumes from {unit} {number}"


def identity(run: Run, before: dict | None = None) -> dict[str, dict[str, str | None]]:
    """Digests of what decides a run's numbers: its training's, and what follows it.

    ``data`` is of the text and its treatment, ``corpus`` of what these gave.  None stands for what
    is not here, perhaps to save space.  ``before`` are the settings to compare with: the model to
    begin with may have moved, and has a digest of its own.
    """
    manifest, settings = run.manifest, run.settings
    if moved := ((before or {}).get("train") or {}).get(WEIGHTS_OF):
        train = settings.train | ({WEIGHTS_OF: moved} if WEIGHTS_OF in settings.train else {})
        settings = replace(settings, train=train)
    parts: dict[str, dict[str, str | None]] = {TRAINING: {}, FOLLOWING: {}}
    made = manifest.digests if manifest else (None, None)
    for part, *digests in zip(parts.values(), settings.digests, run.data, made, strict=True):
        part.update(zip(("settings", "data", "corpus"), digests, strict=True))
    origin = {name: of for name, of in run.origin.items() if name != "direction" or of is not None}
    parts[TRAINING] |= origin
    if manifest and run.settings.needs_alignments:
        parts[TRAINING]["alignments"] = manifest.alignments
    return parts


def changes(run: Run, made_with: dict, *parts: str) -> str:
    """What has changed in these parts, or in any, since ``made_with``: a begun or done run's file.

    For display; "" if nothing.  What is not here, or was not recorded, counts as unchanged.
    """
    now, changed = identity(run, made_with.get("settings")), []
    for part in parts or now:
        before = made_with["identity"].get(part, {})
        changed += [
            PARTS[name]
            for name, value in now[part].items()
            if None not in (value, before.get(name)) and value != before[name]
        ]
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
    """What a run has made so far, except what is there before its first update."""
    first = {folder.begun, folder.path / "logs", folder.tensorboard, *folder.for_model}
    every = sorted(folder.path.iterdir()) if folder.path.is_dir() else []
    made = [path for path in every if path not in first and not path.name.startswith(".")]
    # An attempt that failed before its first checkpoint may begin again with other settings.
    return [path for path in made if path != folder.checkpoints or any(path.iterdir())]


def devices_of(run: Run, devices: Devices) -> Devices:
    """Return devices in the run's precision; ``auto``: what it was begun with, if it was.

    Whether they compile its layers is decided with each attempt anew: it may resume either way.

    On a CPU, its instructions alone decide, so that a command gives the same numbers each time.
    """
    from ...devices import bfloat16_pays, has_bfloat16

    precision, begun = devices.precision, read_begun(run.folder.begun)
    train, on_cpu = run.settings.train, devices.kind == "cpu"
    if not on_cpu and precision == "auto":
        known = (begun or {}).get("precision")
        precision = known if known in GPU_PRECISIONS else GPU_PRECISIONS[0]
    without = train.get("criterion") not in BF16_CRITERIA or train.get("checkpoint-activations")
    if without and (on_cpu or precision == "bf16"):
        precision = "fp32"  # the others know nothing else
    elif on_cpu and precision == "auto":
        if begun:
            wanted = begun.get("precision") == "bf16" and has_bfloat16()
        else:  # several processes, perhaps on unlike machines, must agree
            wanted = devices.world == 1 and bfloat16_pays()
        precision = "bf16" if wanted else "fp32"
    return replace(devices, precision=precision, compile=_is_compiled(run, devices))


def _is_compiled(run: Run, devices: Devices) -> bool:
    """Whether the layers are compiled: if that is asked for, and they can be."""
    settings = run.settings
    trains = settings.aligner is None and settings.updates != 0
    if not (devices.compile and trains) or settings.train.get("checkpoint-activations"):
        return False
    from fairseq.models import ARCH_MODEL_REGISTRY

    from ...models.transformer import PlannedModel

    kind = ARCH_MODEL_REGISTRY.get(settings.train.get("arch"), object)
    return issubclass(kind, PlannedModel)


def begin(run: Run, devices: Devices) -> None:
    """Record what a run is begun with, or check that its training's part has not changed.

    If the part of what follows has, that is deleted, and done again.
    """
    check_begun(run, devices)
    folder, now, inside = run.folder, identity(run), run.workspace.runs
    if now[TRAINING]["corpus"] is None:  # as while another run adds word alignments
        raise UserError("its corpus is being prepared; run again when that has ended")
    begun = read_begun(folder.begun) if products(folder) else None
    content = {"identity": now, "world": devices.world, "precision": devices.precision}
    if begun:  # what was not recorded, or is not here any more, stays as it was
        if not changes(run, begun, FOLLOWING):
            return
        for path in folder.following:
            delete(path, inside)
        content |= {key: begun[key] for key in ("world", "precision") if key in begun}
        content["identity"] = {**begun["identity"], FOLLOWING: now[FOLLOWING]}
    content |= {"settings": run.settings.as_dict(), "workspace": run.workspace.as_record()}
    content["corpus"] = os.path.relpath(run.corpus_folder, folder.path)
    if not run.settings.aligner:
        for path in folder.for_model:
            delete(path, inside)
        copy_for_model(run.corpus_folder, folder.path)
    write_json(folder.begun, content)


def check_begun(run: Run, devices: Devices) -> None:
    """Check that a run is resumed as it was begun; its code may differ, as the result records."""
    folder = run.folder
    state, begun = status(run), read_begun(folder.begun)
    if state.state is State.STALE:
        raise UserError(f"{run.name} is {state}. {remedy(run.is_own)}")
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
    return error_in(logs[-1].read_text(errors="replace"))
