"""A plan as ``--dry-run`` prints it: what exists, and what would be done."""

from __future__ import annotations

import textwrap

from ..corpora.own import pairs_given
from ..files.yaml_files import merge
from ..run.devices import LEAST_OF_GPU, Devices, devices_of, share_out
from ..run.status import State, Status, remedy
from ..run.workspace import Run
from .plan import Plan

#: A share of the training that is too large to be averaged: its beginning is far from its end.
WIDE = 1 / 3


def describe(
    plan: Plan, slots: list[Devices], redo: bool, able: list[tuple[Run, Status]], faults: list[str]
) -> str:
    """The plan of the runs that are ``able`` to be done; ``faults``: why others cannot be."""
    table, workspace, runs = plan.table, plan.workspace, [run for run, _ in able]
    lines = [
        f"{table.name}: {table.title}",
        f"   profile    {workspace.profile.name}: {workspace.profile.summary}",
        *([f"   differs    {table.notes}"] if table.is_own and table.notes else []),
        *_rows_have(runs, slots[0]),
        *_early_updates(plan, runs),
        f"   folder     {workspace.root}",
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
    trained = [run for run in runs if _trains(run)]
    facts: dict[str, list] = {
        "models": [run.settings.train.get("arch") for run in trained],
        "training": [_length(run) for run in trained],
        "averaged": [_averaged(run) for run in trained],
        "precision": [devices_of(run, devices).precision for run in trained],
    }
    return [
        f"   {fact:10} {'; '.join(dict.fromkeys(map(str, values)))}"
        for fact, values in facts.items()
        if values
    ]


def _averaged(run: Run) -> str:
    made, share = run.settings.checkpoints, run.settings.share
    if made.unit == "best":
        return "the best checkpoint"
    if made.average == 1:
        return "the last checkpoint alone"
    last = f"the last {made.average} checkpoints, {made.every} {made.unit}s apart"
    return f"{last}: at most the last {100 * share:.3g} % of the training" if share else last


def _early_updates(plan: Plan, runs: list[Run]) -> list[str]:
    """A warning of runs that, by the user's flags, average more than the end of their training."""
    usual = merge(plan.table.raw.merged, plan.workspace.profile.settings)
    made, updates = usual.get("checkpoints", {}), usual.get("train", {}).get("max-update")
    wide = WIDE
    if updates and made.get("unit") == "update":
        wide = max(WIDE, made["every"] * made["average"] / updates)
    rows = [
        run.cell.row
        for run in runs
        if run.cell.is_own
        and run.settings.checkpoints.average > 1
        and (run.settings.share or 0) > wide
    ]
    advice = "average weights from before the last third of the training; lower --save-every or"
    named = ", ".join(dict.fromkeys(rows))
    return [f"   warning: {named}: {advice} --average"] if rows else []


def _corpora(runs: list[Run]) -> list[str]:
    lines = []
    for run in {run.corpus_folder: run for run in reversed(runs)}.values():
        users = [user for user in runs if user.corpus_folder == run.corpus_folder]
        state, manifest = "to be prepared" + _comes_from_you(run), run.manifest
        if manifest:
            given = f" from {run.workspace.own}" if run.workspace.own else ""
            state = f"prepared{given}, {manifest.source}-{manifest.target}: {manifest.pairs}"
        lines.append(f"Corpus {run.settings.corpus}: {state}")
        if any(user.settings.align for user in users) and run.recipe.gold is None:
            lines.append("   without hand-aligned sentences: no alignment error rate")
    return lines


def _comes_from_you(run: Run) -> str:
    """Which files of a corpus cannot be downloaded."""
    if run.workspace.own is not None:
        rules = ", ".join(run.recipe.clean.rules)
        source = f" from {run.workspace.own}, {run.recipe.source}-{run.recipe.target}: "
        source += pairs_given(run.recipe)
        return source + f"; training pairs of {rules} are left out" * bool(rules)
    if run.recipe.lacks_text:
        return "; from your own text: name it by --text"
    files = [archive.file for archive in run.recipe.archives if not archive.urls]
    if run.recipe.licence and (files or not run.recipe.archives):
        return "; licensed, you supply its files (the message says which)"
    return f"; you supply {', '.join(files)}" if files else ""


def _runs(able: list[tuple[Run, Status]], slots: list[Devices], redo: bool) -> list[str]:
    if not able:
        return ["", "Nothing to run."]
    now = sum(state.is_to_do(redo) for _, state in able)
    lines = ["", f"Runs: {len(able)}" + f", of which {now} to do" * (now < len(able))]
    for run, state in able:
        label = f" in {run.label}" * (run.label != run.workspace.label)
        line = f"   {run.name}{label}: {state}"
        if state.is_there:
            line += "; deleted and done again" * redo
        if state.state is State.STALE and not redo:
            line += "; left as it is"
        if state.is_to_do(redo) and run.settings.aligner:
            line += f"; by {run.settings.aligner}"
        elif state.is_to_do(redo):
            line += f"; {_work(run, slots[0])}"
        lines.append(line)
    if not redo and any(state.state is State.STALE for _, state in able):
        lines.append(f"   {remedy(able[0][0].cell.is_own)}")
    tokens = [
        share_out(run.settings.batch, slots[0].world)[0]
        for run, state in able
        if state.is_to_do(redo) and _trains(run)
    ]
    if slots[0].kind == "cuda" and tokens and min(tokens) < LEAST_OF_GPU:
        problem = f"{min(tokens):,} tokens at once leave a GPU mostly idle"
        lines.append(f"   {problem}: use fewer GPUs for a run, or let runs share one (--jobs)")
    return lines


def _trains(run: Run) -> bool:
    return not run.settings.aligner and run.settings.updates != 0


def _work(run: Run, devices: Devices) -> str:
    if run.settings.updates == 0:
        return "translates as it is"
    max_tokens, update_freq = share_out(run.settings.batch, devices.world)
    compiled = ", compiled" * bool(devices_of(run, devices).compile)
    return f"{_length(run)} ({devices.world} x {max_tokens} tokens x {update_freq}){compiled}"


def _length(run: Run) -> str:
    settings = run.settings
    length = f"{settings.updates} updates" if settings.updates else f"{settings.epochs} epochs"
    if "patience" in settings.train:
        length = f"at most {length}"
    return f"{length} of {settings.batch.tokens:,} tokens"
