"""Reading fairseq checkpoints, and repairing what a kill has left of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

from ...errors import UserError
from .deleting import delete
from .writing import atomic_write


def read_checkpoint(path: Path) -> dict:
    """Load a fairseq checkpoint to the CPU; its weights are in ``["model"]``."""
    import torch

    from ... import models  # noqa: F401  first: it keeps fairseq from changing all logging
    from ...checkpoints import check_archive, check_contents, explained

    if path.exists() and not (path.is_file() or path.is_dir()):  # as a pipe, which never ends
        raise UserError(f"{path} is not a regular file")
    try:
        with open(path, "rb") as file:
            check_archive(path)
            with explained(path):
                state = torch.load(file, map_location="cpu", weights_only=True)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    weights = state.get("model") if isinstance(state, dict) else None
    if not isinstance(weights, dict) or not weights:
        raise UserError(f"{path} is not a fairseq checkpoint: it holds no model")
    if not all(
        isinstance(name, str) and isinstance(weight, torch.Tensor) and not weight.is_sparse
        for name, weight in weights.items()
    ):
        problem = "not all its weights are dense tensors with names"
        raise UserError(f"{path} is not a fairseq checkpoint: {problem}")
    history = state.get("optimizer_history") or [{}]
    if not (
        isinstance(history, list)
        and isinstance(history[-1], dict)
        and isinstance(history[-1].get("num_updates", 0), int)
        and isinstance(state.get("extra_state") or {}, dict)
    ):
        raise UserError(f"{path} is not a fairseq checkpoint: it does not say its updates")
    check_contents(path, state)
    return state


def architecture(state: dict) -> str | None:
    """Return the model's registered name, from ``cfg`` or, in older checkpoints, ``args``."""
    if state.get("cfg") is None:
        return setting(state.get("args"), "arch")
    return setting(setting(state["cfg"], "model"), "_name")


def setting(settings: Any, name: str) -> Any:
    """Return one of fairseq's settings, stored as a dict or a Namespace; None if it is absent."""
    return settings.get(name) if isinstance(settings, dict) else getattr(settings, name, None)


def updates(state: dict) -> int:
    history = state.get("optimizer_history") or [{}]
    return history[-1].get("num_updates", 0)


def parameters_of(state: dict) -> int:
    """How many parameters a model has; those that are shared are counted once."""
    buffers = ("version", "_float_tensor")
    weights = [w for name, w in state["model"].items() if not name.endswith(buffers)]
    return sum({weight.data_ptr(): weight.numel() for weight in weights}.values())


def repair(checkpoints: Path, inside: Path) -> list[Path]:
    """Delete and return checkpoints that a kill has truncated; repair checkpoint_last.pt.

    fairseq writes a numbered checkpoint, then copies it to checkpoint_last.pt; if it is
    killed meanwhile, half a file remains under that name.
    """
    for temporary in checkpoints.glob("*.tmp"):
        delete(temporary, inside)
    broken = [path for path in checkpoints.glob("*.pt") if not is_zipfile(path)]
    for path in broken:
        delete(path, inside)
    last = checkpoints / "checkpoint_last.pt"
    whole = sorted(checkpoints.glob("checkpoint[_0-9]*.pt"), key=lambda path: path.stat().st_mtime)
    whole = [path for path in whole if path.stem not in ("checkpoint_last", "checkpoint_best")]
    if not last.exists() and whole:
        with atomic_write(last) as file, open(whole[-1], "rb") as newest:
            shutil.copyfileobj(newest, file)
    return broken
