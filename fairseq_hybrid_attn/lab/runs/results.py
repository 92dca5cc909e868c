"""A run's result file: its numbers, and all that is needed to trace and repeat them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path

from ...errors import UserError
from ..corpora import read_manifest
from ..files import provenance
from ..files.checkpoints import read_checkpoint, updates
from ..files.json_files import read_json, write_json
from ..files.typed import read
from .devices import Devices
from .fairseq_commands import RunFolder
from .run_scores import StoredScore, scores_of
from .training_log import parameters
from .used_code import digest_of
from .workspace import Run

#: The name of each part of an identity.
PARTS = {
    "settings": "configuration",
    "recipe": "data",
    "text": "data",
    "corpus": "data",
    "alignments": "data",
    "code": "code",
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
        "code": digest_of(run.settings),
    }


def changes(run: Run, made: dict) -> list[str]:
    """What has changed since a run was begun or made: of configuration, data and code.

    ``made`` is what was recorded then; code that its result was accepted for is not a change.
    """
    now, made_with = identity(run), made["identity"]
    if any(now["code"] == one["for"] for one in made.get("accepted", ())):
        del now["code"]
    if now["corpus"] is None:  # removed, perhaps to save space; its recipe and text still count
        del now["corpus"]
    changed = [PARTS[key] for key in now if now[key] != made_with.get(key)]
    return list(dict.fromkeys(changed))


def has_former_digest(made_with: dict) -> bool:
    """Whether the digest of the code is an earlier version's, of more than what the run uses."""
    return not str(made_with.get("code")).startswith(provenance.USED)


def accept(run: Run) -> None:
    """Record that a result holds for the code as it is now, although other code made it."""
    result = read_result(run.folder.result)
    accepted = {"made_with": result["identity"].get("code"), "for": digest_of(run.settings)}
    result["accepted"] = [*result.get("accepted", ()), accepted]
    write_json(run.folder.result, result)


def make_result(run: Run, devices: Devices) -> dict:
    folder = run.folder
    trained, begun_with = read_json(folder.trained), read_begun(folder.begun)["identity"]
    manifest = read_manifest(run.corpus_folder)
    if manifest is None:
        raise UserError(f"its corpus is no longer in {run.corpus_folder}; prepare it again")
    if manifest.digest != begun_with["corpus"]:
        raise UserError(
            f"its corpus in {run.corpus_folder} is not the one that it was begun with; "
            "--redo-stale starts it over"
        )
    paper, table, row, column = run.cell.run_name.split("/")
    return {
        "name": run.name,
        **{"paper": paper, "table": table, "row": row, "column": column, "seed": run.seed},
        **{"profile": run.workspace.profile.name, "label": run.workspace.label},
        "identity": begun_with,
        "corpus": {
            "name": manifest.corpus,
            "source": manifest.source,
            "target": manifest.target,
            "counts": manifest.counts,
            **({"tests": manifest.tests} if manifest.tests else {}),
            "archives": manifest.archives,
            "gold": manifest.gold,
            **({"alignments": manifest.alignments} if run.settings.needs_alignments else {}),
            "digest": manifest.digest,
        },
        "settings": run.settings.as_dict(),
        "commands": {
            **command_texts(run, devices),
            **({"train": trained["command"]} if "command" in trained else {}),
        },
        "updates": trained["updates"],
        "epoch": trained["epoch"],
        "training_seconds": trained["training_seconds"],
        "parameters": 0 if run.settings.aligner else parameters(folder.log("train")),
        **scores_of(folder),
        **(read_json(folder.curve) or {}),
        "devices": trained["devices"],
        "hardware": trained["hardware"],
        "versions": provenance.versions(),
        "code": provenance.code(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def command_texts(run: Run, devices: Devices) -> dict[str, list[str]]:
    commands = run.commands(devices)
    if run.settings.aligner:
        return {"align": commands.align_training(), "error rate": commands.aer()}
    return {
        "train": commands.train(run.seed),
        "average": commands.average(),
        "generate": commands.generate(),
        "score": commands.score(),
        **({"align": commands.align()} if run.measures_alignment else {}),
        **({"gates": commands.gates()} if run.settings.gates else {}),
    }


@dataclass(frozen=True)
class CurvePoint:
    updates: int
    scores: dict[str, StoredScore]


@dataclass(frozen=True)
class StoredResult:
    """What other code takes from a result file, which has more."""

    scores: dict[str, StoredScore]
    identity: dict[str, object]
    corpus: dict[str, object]
    settings: dict[str, object]
    versions: dict[str, object]
    code: dict[str, object]
    updates: int
    parameters: int
    finished: str
    commands: dict[str, tuple[str, ...]] = field(default_factory=dict)
    curve: tuple[CurvePoint, ...] = ()


def read_result(path: Path) -> dict | None:
    """Read a result file; None if there is none."""
    result = read_json(path)
    if result is not None:
        known = result
        if isinstance(result, dict):
            keys = [one.name for one in fields(StoredResult)]
            known = {key: result[key] for key in keys if key in result}
        read(StoredResult, known, f"{path} is not a result; delete it")
    return result


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


def training_summary(folder: RunFolder) -> dict:
    """How far a training got, from its last checkpoint."""
    path = folder.checkpoints / "checkpoint_last.pt"
    if not path.is_file():
        raise UserError(f"the training has ended without {path}; see {folder.log('train')}")
    state = read_checkpoint(path)
    where = state["extra_state"]["train_iterator"]
    ended = where.get("iterations_in_epoch") == 0  # fairseq then names the next epoch
    return {
        "updates": updates(state),
        "epoch": max(1, where["epoch"] - ended),
        # fairseq's own count, over all interruptions; a tensor if several processes trained.
        "training_seconds": round(float(state["extra_state"]["previous_training_time"]), 1),
    }
