"""A plan as ``--dry-run`` prints it: what exists, what would be done, and how long it takes."""

from __future__ import annotations

import math
import textwrap

from ..corpora.manifest import read_manifest
from .devices import Devices, share_out
from .plan import Plan, model_size
from .status import REDO, State, Status, devices_of
from .workspace import Run

#: Operations per second of a training, to estimate its time: measured on a CPU core in our own
#: runs, and guessed for a data-centre GPU in half precision.
SPEED = {"cpu": 4e10, "cuda": 3e13}
#: The least seconds of a batch: the rest of an update takes time as well, however small the model.
SECONDS_A_BATCH = 0.05
#: Tokens of an average sentence, to estimate the length of epochs before the corpus exists.
TOKENS_A_SENTENCE = 28


def describe(
    plan: Plan, slots: list[Devices], redo: bool, able: list[tuple[Run, Status]], faults: list[str]
) -> str:
    """The plan of the runs that are ``able`` to be done; ``faults``: why others cannot be."""
    table, place, runs = plan.table, plan.workspace, [run for run, _ in able]
    lines = [
        f"{table.name}: {table.title}",
        f"   profile    {place.profile.name}: {place.profile.summary}",
        *_rows_have(runs, slots[0]),
        f"   folder     {place.root}",
        f"   devices    {len(slots)} x {slots[0]}",
        "",
        *_corpora(runs),
        *_runs(able, slots, redo),
    ]
    if faults:
        lines += ["", "Cannot be run:", *(f"   {fault}" for fault in faults)]
    if plan.cited:
        lines += ["", f"Cited by the paper, not run: {', '.join(plan.cited)}"]
    for missing in dict.fromkeys(missing for _, missing in plan.planned):
        cells = " ".join(name for name, other in plan.planned if other == missing)
        wrapped = textwrap.wrap(cells, 94, break_long_words=False, break_on_hyphens=False)
        lines += ["", f"Not measured here ({missing}):", *(f"   {line}" for line in wrapped)]
    return "\n".join(lines)


def _rows_have(runs: list[Run], devices: Devices) -> list[str]:
    """What the rows' own settings, which a profile does not override, make of it."""
    trained = [run for run in runs if not run.settings.aligner]
    facts: dict[str, list] = {
        "models": [run.settings.train.get("arch") for run in trained],
        "training": [_length(run) for run in trained],
        "precision": [devices_of(run, devices).precision for run in trained],
    }
    return [
        f"   {fact:10} {'; '.join(dict.fromkeys(map(str, values)))}"
        for fact, values in facts.items()
        if values
    ]


def _corpora(runs: list[Run]) -> list[str]:
    lines = []
    for folder in dict.fromkeys(run.corpus_folder for run in runs):
        users = [run for run in runs if run.corpus_folder == folder]
        run = users[0]
        state = "prepared" if read_manifest(folder) else "to be prepared" + _comes_from_you(run)
        lines.append(f"Corpus {run.settings.corpus}: {state}")
        if any(user.settings.align for user in users) and run.recipe.gold is None:
            lines.append("   without hand-aligned sentences: no alignment error rate")
    return lines


def _comes_from_you(run: Run) -> str:
    """Which files of a corpus cannot be downloaded."""
    if run.workspace.own is not None:
        return f" from {run.workspace.own.folder}, {run.recipe.source}-{run.recipe.target}"
    if run.recipe.lacks_text:
        return "; from your own text: name its folder with --data"
    files = [archive.file for archive in run.recipe.archives if not archive.urls]
    if run.recipe.licence and (files or not run.recipe.archives):
        return "; licensed, you supply its files (the message says which)"
    return f"; you supply {', '.join(files)}" if files else ""


def _runs(able: list[tuple[Run, Status]], slots: list[Devices], redo: bool) -> list[str]:
    """A line for each run, and about how long all take that are to be done."""
    if not able:
        return ["", "Nothing to run."]
    now = sum(state.is_to_do(redo) for _, state in able)
    lines = ["", f"Runs: {len(able)}" + f", of which {now} to do" * (now < len(able))]
    times, sizes = [], []
    for run, state in able:
        line = f"   {run.name}: {state}"
        if state.is_there:
            line += "; deleted and done again" * redo
        if state.state is State.STALE and not redo:
            line += "; left as it is"
        if state.is_to_do(redo) and run.settings.aligner:
            times.append(0.0)
            line += f"; by {run.settings.aligner}"
        elif state.is_to_do(redo):
            parameters = model_size(run)
            times.append(_guess_seconds(run, parameters, slots[0]))
            sizes.append(_disk(run, parameters))
            line += f"; {_work(run, slots[0])}"
            line += "" if math.isnan(times[-1]) else f"; about {hours(times[-1])}"
        lines.append(line)
    if not redo and any(state.state is State.STALE for _, state in able):
        lines.append(f"   {REDO}")
    if not times:
        return lines
    at_once, largest = min(len(slots), len(times)), max(filter(math.isfinite, sizes), default=0)
    if math.isnan(sum(times)):
        lines.append("   the time can be estimated when the corpora are prepared")
    else:
        lines.append(
            f"   about {hours(sum(times) / at_once)} in all, {at_once} side by side: a rough "
            "guess from the number of operations, not measured"
        )
    return [*lines, f"   disk while a run trains: at most about {largest / 1e9:.1f} GB"]


def _work(run: Run, devices: Devices) -> str:
    max_tokens, update_freq = share_out(run.settings.batch, devices.world)
    return f"{_length(run)} ({devices.world} x {max_tokens} tokens x {update_freq})"


def _length(run: Run) -> str:
    settings = run.settings
    length = f"{settings.updates} updates" if settings.updates else f"{settings.epochs} epochs"
    if "patience" in settings.train:
        length = f"at most {length}"
    return f"{length} of {settings.batch.tokens:,} tokens"


def _guess_seconds(run: Run, parameters: float, devices: Devices) -> float:
    """A rough guess of a training's time: 6 operations per token and parameter."""
    workers = devices.threads if devices.kind == "cpu" else devices.world
    operations = 6 * parameters * _tokens(run) / (SPEED[devices.kind] * workers)
    batches = _tokens(run) / (devices.world * share_out(run.settings.batch, devices.world)[0])
    return max(operations, SECONDS_A_BATCH * batches)


def _tokens(run: Run) -> float:
    """About how many tokens a run trains on, at most; NaN if this is not known yet."""
    settings, recipe = run.settings, run.recipe
    numbers = []
    if settings.updates:
        numbers.append(settings.updates * settings.batch.tokens)
    if settings.epochs:
        manifest = read_manifest(run.corpus_folder)
        expected = recipe.expect.get("train") or recipe.about.get("train", 0)
        pairs = manifest.counts["train"] if manifest else expected
        if pairs:
            numbers.append(settings.epochs * pairs * TOKENS_A_SENTENCE)
    return min(numbers, default=math.nan)


def _disk(run: Run, parameters: float) -> float:
    """Bytes.  Checkpoints hold weights and two moments in fp32; up to three extra ones exist."""
    checkpoints = run.settings.checkpoints
    return (checkpoints.average + checkpoints.curve + 3) * 12.0 * parameters


def hours(seconds: float) -> str:
    if seconds >= 36000:
        return f"{seconds / 3600:.0f} h"
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} h"
    return f"{max(1, round(seconds / 60))} min"
