"""Reading fairseq checkpoints without running code that they may contain."""

from __future__ import annotations

import re
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from ...errors import UserError


def read_checkpoint(path: Path) -> dict:
    """Load a fairseq checkpoint to the CPU; its weights are in ``["model"]``."""
    try:
        with open(path, "rb") as file:
            state = _load(file, path)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    weights = state.get("model") if isinstance(state, dict) else None
    if not isinstance(weights, dict) or not weights:
        raise UserError(f"{path} is not a fairseq checkpoint: it holds no model")
    if not all(isinstance(weight, Tensor) for weight in weights.values()):
        raise UserError(f"{path} is not a fairseq checkpoint: not all its weights are tensors")
    return state


def _load(file: BinaryIO, path: Path) -> object:
    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for a file that it cannot read
        untrusted = re.search(r"GLOBAL (\S+)", str(error))  # in the message of weights_only
        if untrusted:
            problem = f"it refers to {untrusted[1]}, which might run code"
        else:
            problem = f"the file is damaged or of another kind ({type(error).__name__})"
        raise UserError(f"{path} cannot be loaded as a checkpoint: {problem}") from error


def architecture(state: dict) -> str | None:
    """Return the model's registered name, from ``cfg`` or, in older checkpoints, ``args``."""
    if state.get("cfg") is None:
        return setting(state.get("args"), "arch")
    return setting(state["cfg"]["model"], "_name")


def setting(settings: object, name: str) -> object:
    """Return one of fairseq's settings, stored as a dict or a Namespace; None if it is absent."""
    return settings.get(name) if isinstance(settings, dict) else getattr(settings, name, None)


def updates(state: dict) -> int:
    """Return the number of updates for which the model was trained."""
    history = state.get("optimizer_history") or [{}]
    return history[-1].get("num_updates", 0)
