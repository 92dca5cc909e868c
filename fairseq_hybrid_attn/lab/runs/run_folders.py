"""What decides a run's numbers, what it was begun with, and what there is of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ...errors import UserError
from ..corpora.manifest import read_manifest
from ..files.checksums import sha256
from ..files.json_files import read_json
from .devices import GPU_PRECISIONS, Devices
from .fairseq_commands import RunFolder
from .workspace import Run

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
    "weights": "the model to begin with",
}


def identity(run: Run) -> dict:
    """Digests of what decides a run's numbers; of the corpus, also of what it was prepared from."""
    manifest = read_manifest(run.corpus_folder)
    aligned = run.settings.needs_alignments
    weights = run.settings.train.get("finetune-from-model")
    return {
        "settings": run.settings.digest,
        "recipe": run.recipe.digest,
        "text": run.text_digest,
        "corpus": manifest.digest if manifest else None,
        **({"alignments": manifest.alignments} if manifest and aligned else {}),
        **({"weights": _checksum(Path(str(weights)))} if weights else {}),
    }


def _checksum(path: Path) -> str | None:
    return sha256(path) if path.is_file() else None


def changes(run: Run, made_with: dict) -> list[str]:
    """What has changed since a run had the identity ``made_with``: configuration, data or both."""
    now = identity(run)
    for part in ("corpus", "weights"):
        if now.get(part, "") is None:  # removed, perhaps to save space; the rest still counts
            del now[part]
    changed = [PARTS[key] for key in now if now[key] != made_with.get(key)]
    return list(dict.fromkeys(changed))


def products(folder: RunFolder) -> list[Path]:
    """What a run has made so far, except logs, which another of its processes may begin first."""
    first = (folder.begun, folder.path / "logs", folder.tensorboard)
    every = sorted(folder.path.iterdir()) if folder.path.is_dir() else []
    made = [path for path in every if path not in first and not path.name.startswith(".")]
    # An attempt that failed before its first checkpoint may begin again with other settings.
    return [path for path in made if path != folder.checkpoints or any(path.iterdir())]


def read_begun(path: Path) -> dict | None:
    """Read what a run was begun with; None if it was not begun."""
    begun = read_json(path)
    if path.exists() and "identity" not in (begun if isinstance(begun, dict) else {}):
        raise UserError(f"{path} does not say what a run was begun with; delete its folder")
    return begun


def devices_of(run: Run, devices: Devices) -> Devices:
    """Return devices in the run's precision; ``auto``: what it was begun with, if it was.

    On a CPU, its instructions alone decide, so that a command gives the same numbers each time.
    """
    from ...cross_entropy import has_bfloat16

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
