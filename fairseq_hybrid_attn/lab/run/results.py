"""A run's files: what it was begun with, and its result, by which it is traced and repeated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from ..files.json_files import read_json
from ..files.typed import read
from ..scores.counts import Score

#: Digests of what a run was begun with, in parts (see ``status.py``).
Identity = dict[str, dict[str, str | None]]


def read_begun(path: Path) -> dict | None:
    """Read what a run was begun with; None if it was not begun."""
    begun = read_json(path)
    if begun is None and not path.exists():
        return None
    message = f"{path} does not say what a run was begun with; delete its folder"
    read(Identity, begun.get("identity") if isinstance(begun, dict) else None, message)
    return begun


@dataclass(frozen=True)
class StoredScore:
    value: float
    signature: str


def as_stored(scores: Mapping[str, Score]) -> dict[str, dict]:
    """Scores as a result has them, without the counts behind them."""
    return {name: asdict(StoredScore(one.value, one.signature)) for name, one in scores.items()}


@dataclass(frozen=True)
class CurvePoint:
    updates: int
    scores: dict[str, StoredScore]


@dataclass(frozen=True)
class StoredResult:
    """What other code takes from a result file, which has more."""

    scores: dict[str, StoredScore]
    identity: Identity
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
    result = read_json(path)
    if result is not None:
        known = result
        if isinstance(result, dict):
            keys = [one.name for one in fields(StoredResult)]
            known = {key: result[key] for key in keys if key in result}
        read(StoredResult, known, f"{path} is not a result; delete it")
    return result
