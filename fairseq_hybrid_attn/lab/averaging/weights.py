"""The mean of the weights of fairseq checkpoints, computed with one of them in memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from ...errors import UserError

_SHOWN = 3  # differences that an error message names


def average_checkpoints(paths: Sequence[Path]) -> dict:
    """Average the weights of checkpoints of one model.

    Args:
        paths: one file or more.

    Returns:
        the checkpoint with the most updates (the last of several such), with the averaged
        weights for its own, without the state of the optimizer, and with the names of the
        files in ``extra_state["averaged_checkpoints"]``.

    Raises:
        UserError: if a file is no fairseq checkpoint or holds another model than the first.
    """
    mean = MeanWeights()
    newest = None
    for path in paths:
        state = read_checkpoint(path)
        weights = state["model"]
        mean.add(path, architecture(state), weights)
        if newest is None or updates(state) >= updates(newest):
            newest, ties = state, tied_weights(weights)
        # Two checkpoints are about while the next is read: this one without its tensors.
        weights.update(dict.fromkeys(weights))
        state["last_optimizer_state"] = None

    newest["model"].update(mean.result(ties))
    newest["extra_state"] = {
        **(newest.get("extra_state") or {}),
        "averaged_checkpoints": [str(path) for path in paths],
    }
    return newest


def read_checkpoint(path: Path) -> dict:
    """Load a fairseq checkpoint to the CPU, without running code that it may contain.

    Raises:
        UserError: if it cannot be read, or is no fairseq checkpoint.
    """
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
    except Exception as error:  # torch raises many kinds for a file that is not its own
        untrusted = re.search(r"GLOBAL (\S+)", str(error))  # in the message of weights_only
        if untrusted:
            problem = f"it refers to {untrusted[1]}, which might run code"
        else:
            problem = f"the file is damaged or of another kind ({type(error).__name__})"
        raise UserError(f"{path} cannot be loaded as a checkpoint: {problem}") from error


def architecture(state: dict) -> str | None:
    """The model's registered name, from ``cfg`` or, in older checkpoints, from ``args``."""
    if state.get("cfg") is None:
        return getattr(state.get("args"), "arch", None)
    # fairseq stores the settings of dataclass models as a dict, of others as a Namespace.
    model = state["cfg"]["model"]
    return model.get("_name") if isinstance(model, dict) else getattr(model, "_name", None)


def updates(state: dict) -> int:
    """How many updates the model of a checkpoint was trained for."""
    history = state.get("optimizer_history") or [{}]
    return history[-1].get("num_updates", 0)


def tied_weights(weights: dict[str, Tensor]) -> dict[str, str]:
    """Which weights are the same memory, as tied embeddings are.

    Returns:
        for each weight that shares its memory with an earlier one, the earlier one's name.
    """
    owners: dict[tuple, str] = {}
    ties = {}
    for name, weight in weights.items():
        memory = (weight.data_ptr(), weight.dtype, weight.shape, weight.stride())
        owner = owners.setdefault(memory, name)
        if owner != name:
            ties[name] = owner
    return ties


class MeanWeights:
    """Adds up the weights of models in double precision, one model at a time."""

    def __init__(self):
        self._sums: dict[str, Tensor] = {}
        self._dtypes: dict[str, torch.dtype] = {}
        self._count = 0
        self._first: tuple[Path, str | None] | None = None

    def add(self, path: Path, arch: str | None, weights: dict[str, Tensor]) -> None:
        """Add a model.

        Args:
            path: where it comes from, for messages.
            arch: its registered name.
            weights: by their names; left as they are.

        Raises:
            UserError: if it is another model than the first one.
        """
        if self._first is None:
            self._first = (path, arch)
            for name, weight in weights.items():
                # A copy always: tied weights share memory, and a sum must be its own.
                dtype = torch.float64 if weight.is_floating_point() else weight.dtype
                self._sums[name] = weight.to(dtype, copy=True)
                self._dtypes[name] = weight.dtype
        else:
            self._check_alike(path, arch, weights)
            for name, weight in weights.items():
                self._dtypes[name] = torch.promote_types(self._dtypes[name], weight.dtype)
                if weight.is_floating_point():
                    self._sums[name] += weight
        self._count += 1

    def result(self, ties: dict[str, str]) -> dict[str, Tensor]:
        """The mean, in the dtype of the inputs, or float32 where that is a half-precision one.

        Args:
            ties: from :func:`tied_weights`.  Weights that are tied there share their memory
                in the result, if they are equal: they are if every input ties them.
        """
        mean = {}
        for name, total in self._sums.items():
            if total.is_floating_point():
                dtype = self._dtypes[name]
                # The mean of half-precision weights is worth more digits than they have.
                dtype = torch.float32 if torch.finfo(dtype).bits < 32 else dtype
                mean[name] = (total / self._count).to(dtype)
            else:
                mean[name] = total
            owner = mean.get(ties.get(name))
            if owner is not None and torch.equal(owner, mean[name]):
                mean[name] = owner
        return mean

    def _check_alike(self, path: Path, arch: str | None, weights: dict[str, Tensor]) -> None:
        first_path, first_arch = self._first
        if arch != first_arch:
            raise UserError(
                f"{path} holds another architecture ({arch}) than {first_path} ({first_arch})"
            )
        absent = self._sums.keys() - weights.keys()
        surplus = weights.keys() - self._sums.keys()
        if absent or surplus:
            raise UserError(
                f"{path} has other parameters than {first_path}: "
                f"missing {_some(absent)}; additional {_some(surplus)}"
            )
        unlike = [
            f"{name} {_kind(weight)}, not {_kind(self._sums[name])}"
            for name, weight in weights.items()
            if _kind(weight) != _kind(self._sums[name])
        ]
        if unlike:
            raise UserError(f"{path} has other shapes than {first_path}: {_some(unlike)}")
        unequal = [
            name
            for name, weight in weights.items()
            if not weight.is_floating_point() and not torch.equal(weight, self._sums[name])
        ]
        if unequal:
            raise UserError(
                f"{path} has other values than {first_path} in what is not floating-point "
                f"and so has no mean: {_some(unequal)}"
            )


def _kind(weight: Tensor) -> str:
    """What must agree: the shape and, where there is no mean, the dtype."""
    shape = f"[{', '.join(map(str, weight.shape))}]"
    return shape if weight.is_floating_point() else f"{shape} {weight.dtype}"


def _some(names: Iterable[str]) -> str:
    names = sorted(names)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) or "none") + more
