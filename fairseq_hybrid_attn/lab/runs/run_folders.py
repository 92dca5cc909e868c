"""The folder of a run: begun once, repaired after a kill, deleted to start over."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from ...cross_entropy import has_bfloat16
from ...errors import UserError
from ..corpora.manifest import read_manifest
from ..files.deleting import check_inside, delete
from ..files.json_files import read_json, write_json
from ..files.lock import locked
from .devices import GPU_PRECISIONS, Devices
from .fairseq_commands import RunFolder
from .workspace import Run

AGAIN = "--redo starts it over"
BF16_CRITERIA = (  # those that take --cpu-bf16
    "fused_label_smoothed_cross_entropy",
    "label_smoothed_cross_entropy_with_supervised_attention",
)


#: The name of each part of an identity.
PARTS = {
    "settings": "configuration",
    "recipe": "data",
    "text": "data",
    "corpus": "data",
    "alignments": "data",
}


def identity(run: Run) -> dict:
    """Digests of what decides a run's numbers; of the corpus, also of what it was prepared from."""
    manifest = read_manifest(run.corpus_folder)
    aligned = manifest and run.settings.needs_alignments
    return {
        "settings": run.settings.digest,
        "recipe": run.recipe.digest,
        "text": run.text_digest,
        "corpus": manifest.digest if manifest else None,
        **({"alignments": manifest.alignments} if aligned else {}),
    }


def changes(run: Run, made_with: dict) -> list[str]:
    """What has changed since a run had the identity ``made_with``: configuration, data or both."""
    now = identity(run)
    if now["corpus"] is None:  # removed, perhaps to save space; its recipe and text still count
        del now["corpus"]
    changed = [PARTS[key] for key in now if now[key] != made_with.get(key)]
    return list(dict.fromkeys(changed))


def products(folder: RunFolder) -> list[Path]:
    """What a run has made so far, except logs, which another of its processes may begin first."""
    first = (folder.begun, folder.path / "logs", folder.tensorboard)
    every = sorted(folder.path.iterdir()) if folder.path.is_dir() else []
    made = [path for path in every if path not in first and not path.name.startswith(".")]
    # The folder for checkpoints, or a link to another disk, may be made by hand.
    return [p for p in made if p != folder.checkpoints or (p.is_dir() and any(p.iterdir()))]


def read_begun(path: Path) -> dict | None:
    """Read what a run was begun with; None if it was not begun."""
    begun = read_json(path)
    if path.exists() and "identity" not in (begun if isinstance(begun, dict) else {}):
        raise UserError(f"{path} does not say what a run was begun with; delete its folder")
    return begun


def begin(run: Run, devices: Devices) -> None:
    """Record what a run is begun with, or check that this has not changed."""
    check_begun(run, devices)
    if not products(run.folder):  # nor of an attempt that failed before its first checkpoint
        found = identity(run)
        if found["corpus"] is None:  # as while another run adds word alignments
            raise UserError("its corpus is being prepared; run again when that has ended")
        content = {"identity": found, "world": devices.world, "precision": devices.precision}
        content |= {"settings": run.settings.as_dict(), "workspace": run.workspace.as_record()}
        write_json(run.folder.begun, content)


def devices_of(run: Run, devices: Devices) -> Devices:
    """Return devices in the run's precision; ``auto``: what it was begun with, if it was.

    On a CPU, its instructions alone decide, so that a command gives the same numbers each time.
    """
    precision, begun = devices.precision, read_begun(run.folder.begun)
    train = run.settings.train
    if devices.kind != "cpu":
        if precision == "auto":
            known = (begun or {}).get("precision")
            precision = known if known in GPU_PRECISIONS else GPU_PRECISIONS[0]
    elif train.get("criterion") not in BF16_CRITERIA or train.get("checkpoint-activations"):
        precision = "fp32"  # the others know nothing else
    elif precision == "auto":  # several processes, perhaps on unlike machines, must agree
        wanted = begun.get("precision") == "bf16" if begun else devices.world == 1
        precision = "bf16" if wanted and has_bfloat16() else "fp32"
    return replace(devices, precision=precision)


def check_begun(run: Run, devices: Devices) -> None:
    """Check that a run is resumed as it was begun; its code may differ, as the result records."""
    folder = run.folder
    made = products(folder)  # looked for first: another process may be at its beginning
    begun = read_begun(folder.begun)
    if begun is None:
        if made:
            raise UserError(
                f"{made[0]} is there, but not {folder.begun.name}, which says what it was begun "
                f"with. {AGAIN}"
            )
        return
    changed = changes(run, begun["identity"])
    if changed and not folder.result.exists():
        raise UserError(
            f"{run.name} was begun with other {' and '.join(changed)} (see {folder.begun}). {AGAIN}"
        )
    if folder.trained.exists() or folder.checkpoints not in made:  # nothing to resume from
        return
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


def forget(run: Run) -> None:
    """Delete a run, so that it can start over."""
    folder = run.folder
    if not folder.path.exists():
        return
    inside = run.workspace.runs
    linked = folder.checkpoints.is_symlink()  # to a disk that the user chose
    checkpoints = list(folder.checkpoints.iterdir()) if linked else []
    for path in (folder.begun, *checkpoints):  # before anything is written
        check_inside(path, inside)

    def refuse() -> None:
        raise UserError(f"{run.name}: another process is working on it")

    with locked(folder.lock, lambda _: None, refuse):
        # If this is interrupted, what is left must be neither taken for a result nor resumed.  So
        # until the end, the run says that it was begun with something that does not exist.
        with contextlib.suppress(UserError):  # a full disk must not prevent deletion
            write_json(folder.begun, {"identity": {}, "world": 0})
        delete(folder.result, inside)
        # Waiting processes hold the lock.
        kept = {folder.lock, folder.begun, *([folder.checkpoints] if linked else [])}
        for path in {*checkpoints, *folder.path.iterdir()} - kept:
            delete(path, inside)
        delete(folder.begun, inside)
