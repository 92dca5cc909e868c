"""A run's files: what it was begun with, and its result, by which it is traced and repeated."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path

from ...errors import UserError
from ..corpora.manifest import read_manifest
from ..files import provenance
from ..files.json_files import read_json
from ..files.typed import read
from .devices import Devices
from .run_scores import StoredScore, scores_of
from .training_log import parameters
from .workspace import Run


def read_begun(path: Path) -> dict | None:
    """Read what a run was begun with; None if it was not begun."""
    begun = read_json(path)
    if path.exists() and "identity" not in (begun if isinstance(begun, dict) else {}):
        raise UserError(f"{path} does not say what a run was begun with; delete its folder")
    return begun


def make_result(run: Run, devices: Devices) -> dict:
    folder = run.folder
    trained, begun_with = read_json(folder.trained), read_begun(folder.begun)["identity"]
    manifest = read_manifest(run.corpus_folder)
    if manifest is None:
        raise UserError(f"its corpus is no longer in {run.corpus_folder}; prepare it again")
    if manifest.digest != begun_with["corpus"]:
        raise UserError(
            f"its corpus in {run.corpus_folder} is not the one that it was begun with; "
            "--redo starts it over"
        )
    paper, table, row, column = run.cell.split("/")
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
    updates: int
    parameters: int
    finished: str
    versions: dict[str, object] = field(default_factory=dict)
    code: dict[str, object] = field(default_factory=dict)
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
