"""Where runs on the user's text are: found by what they are trained on, whatever its name is."""

from __future__ import annotations

import contextlib
import glob
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import UserError
from ..config.paper_tables import OWN_PAPER
from ..files.checksums import digest
from .results import Identity, read_begun

if TYPE_CHECKING:
    from .workspace import Run

#: The parts of an identity: what decides the training, and what decides what follows it.
TRAINING, FOLLOWING = "training", "following"


def label_of(run: Run) -> str:
    """The folder of runs in which a run is, or is to be.

    That is where others of its text, direction and first model are.  If there are none, it is the
    workspace's label, or a longer one if that has runs of others.  A text that has changed where it
    lies counts as the same: its runs are stale.
    """
    workspace, origin = run.workspace, run.origin
    usual = workspace.label
    if workspace.own is None or origin["data"] is None:
        return usual
    here = workspace.own.as_record()
    profile = "from-*" if workspace.own.like else glob.escape(workspace.profile.name)
    exact, ours, changed, others = set(), set(), set(), defaultdict(set)
    for path in workspace.runs.glob(f"{profile}@*/*/*/*/*/seed*/begun.json"):
        label, *name = path.parent.relative_to(workspace.runs).parts
        begun = _read(path)
        training = begun["identity"].get(TRAINING, {})
        way, text = {"direction": origin["direction"]}, begun.get("workspace", {}).get("own")
        if agree(origin, training):
            ours.add(label)
            exact |= {label} if "/".join(name) == run.name else set()
        elif (
            text and agree(way, training) and all(text[at] == here[at] for at in ("paths", "like"))
        ):
            changed.add(label)
        elif text or not agree(way, training):
            others[label].add(training.get("direction"))
    if found := exact or ours or changed:
        return usual if usual in found else min(found)
    if usual not in others:
        return usual
    turned = f"{usual}.{origin['direction']}"
    if origin["direction"] in others[usual] or turned in others:
        return f"{usual}.{digest(origin)[:8]}"
    return turned


def agree(now: dict[str, str | None], before: dict[str, str | None]) -> bool:
    """Whether digests agree, as far as they are known of both."""
    return all(None in (v, before.get(name)) or v == before[name] for name, v in now.items())


def same_elsewhere(run: Run, training: dict[str, str | None]) -> str | None:
    """The ``--name`` of another comparison that has this training, if there is one."""
    folder = run.workspace.runs / run.label / OWN_PAPER
    for path in sorted(folder.glob(f"*/*/*/seed{run.seed}/begun.json")):
        known = _read(path)["identity"].get(TRAINING, {})
        if known.get("settings") == training["settings"] and agree(training, known):
            return path.relative_to(folder).parts[0]
    return None


def _read(path: Path) -> dict:
    """What another run was begun with; nothing of one that is being deleted, or broken."""
    nothing: dict[str, Identity] = {"identity": {}}
    with contextlib.suppress(UserError, OSError):
        return _read_once(path, path.stat().st_mtime_ns) or nothing
    return nothing


@cache
def _read_once(path: Path, changed: int) -> dict | None:
    return read_begun(path)
