"""A plan in words: what is there, what would be done, on what, about how long."""

from __future__ import annotations

import math

from ...errors import UserError
from ..corpora import read_manifest
from .devices import Devices, share_out
from .model_size import parameter_count
from .planning import Plan, State, guess_seconds, status, tokens
from .workspace import Run


def describe(plan: Plan, slots: list[Devices]) -> str:
    """All of it, for people."""
    table, place = plan.table, plan.workspace
    lines = [
        f"{table.name}: {table.title}",
        f"   profile    {place.profile.name}: {place.profile.summary}",
        f"   folder     {place.root}",
        f"   devices    {len(slots)} x {slots[0]}",
        "",
    ]
    runs = plan.runs
    lines += _corpora(runs)
    lines += _runs(runs, slots)
    if plan.cited:
        lines += ["", f"Cited by the paper, not run: {', '.join(plan.cited)}"]
    for lacking in dict.fromkeys(lacking for _, lacking in plan.planned):
        cells = [name for name, other in plan.planned if other == lacking]
        lines += ["", f"Not measured here ({lacking}):", *_wrapped(cells)]
    return "\n".join(lines)


def _wrapped(names: list[str], width: int = 96) -> list[str]:
    lines = ["  "]
    for name in names:
        if len(lines[-1]) + len(name) > width:
            lines.append("  ")
        lines[-1] += f" {name}"
    return lines


def _corpora(runs: list[Run]) -> list[str]:
    lines = []
    for folder in dict.fromkeys(run.corpus_folder for run in runs):
        run = next(run for run in runs if run.corpus_folder == folder)
        if read_manifest(folder) is not None:
            state = "prepared"
        else:
            state = "to be prepared"
            if run.workspace.own is None:
                state += _comes_from_you(run)
        lines.append(f"Corpus {run.settings.corpus}: {state}")
        asked = any(other.settings.align for other in runs if other.corpus_folder == folder)
        if asked and run.recipe.gold is None:
            lines.append("   without hand-aligned sentences: no alignment error rate")
    return lines


def _comes_from_you(run: Run) -> str:
    """What of a corpus cannot be downloaded."""
    if run.recipe.licence:
        return "; licensed, its files come from you (the message says which)"
    files = [archive.file for archive in run.recipe.archives if not archive.urls]
    return f"; from you come {', '.join(files)}" if files else ""


def _runs(runs: list[Run], slots: list[Devices]) -> list[str]:
    if not runs:
        return ["", "Nothing to run."]
    devices = slots[0]
    sizes: dict[tuple, int | None] = {}
    lines = ["", f"Runs: {len(runs)}"]
    total = 0.0
    left = 0
    for run in runs:
        state = status(run)
        key = (run.settings.corpus, *_sizing(run))
        if key not in sizes:
            sizes[key] = _parameters(run)
        work = _work(run, devices)
        if state.state is State.DONE:
            lines.append(f"   {run.name}: {state}")
            continue
        left += 1
        if run.settings.aligner:
            lines.append(f"   {run.name}: {state}; by {run.settings.aligner}")
            continue
        time = guess_seconds(run, sizes[key], devices) if sizes[key] else math.nan
        total += time
        lines.append(f"   {run.name}: {state}; {work}{_about(time)}")
    if left:
        side_by_side = min(len(slots), left)
        if math.isnan(total):
            lines.append("   how long it takes can be guessed when the corpora are prepared")
        else:
            lines.append(
                f"   about {_hours(total / side_by_side)} in all, {side_by_side} side by side: a "
                "rough guess from the number of operations, not measured"
            )
        largest = max(_disk(run, sizes[run.settings.corpus, *_sizing(run)]) for run in runs)
        lines.append(f"   disk while a run trains: at most about {largest / 1e9:.1f} GB")
    return lines


def _work(run: Run, devices: Devices) -> str:
    settings = run.settings
    max_tokens, update_freq = share_out(settings.batch, devices.world)
    updates, epochs = (settings.train.get(key) for key in ("max-update", "max-epoch"))
    length = f"{updates} updates" if updates else f"{epochs} epochs"
    if tokens(run)[1]:
        length = f"at most {length}"
    how = f"{devices.world} x {max_tokens} tokens x {update_freq}"
    return f"{length} of {settings.batch.tokens:,} tokens ({how})"


def _parameters(run: Run) -> int | None:
    try:
        return parameter_count(run)
    except UserError:
        return None


def _sizing(run: Run) -> tuple:
    """The flags that decide how large a model is, but for what makes next to no difference."""
    decisive = ("arch", "layers", "dim", "size", "fusion", "localness", "embed")
    train = run.settings.train
    return tuple((flag, train[flag]) for flag in train if any(word in flag for word in decisive))


def _disk(run: Run, parameters: int | None) -> float:
    """Bytes.  Checkpoints hold weights and two moments in fp32; three more are about."""
    checkpoints = run.settings.checkpoints
    kept = 0 if run.settings.aligner else checkpoints.average + checkpoints.curve + 3
    return kept * 12.0 * (parameters or 0)


def _about(seconds: float) -> str:
    return "" if math.isnan(seconds) else f"; about {_hours(seconds)}"


def _hours(seconds: float) -> str:
    if seconds >= 36000:
        return f"{seconds / 3600:.0f} h"
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} h"
    return f"{max(1, round(seconds / 60))} min"
