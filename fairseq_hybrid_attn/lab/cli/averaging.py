"""The mean of the weights of fairseq checkpoints, computed with one of them in memory."""

from __future__ import annotations

import itertools
import re
import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path

import torch
from fairseq.models import MODEL_DATACLASS_REGISTRY
from torch import Tensor

from ...errors import UserError
from ...models.config import FlatTransformerConfig
from ..files.checkpoints import architecture, read_checkpoint, setting, updates

_SHOWN = 3  # differences that an error message names
#: In the names of settings: those that a trained model does not depend on, or whose weights tell.
_OF_TRAINING = re.compile(
    "drop|quant_noise|activations|min_params|max_(source|target)_positions|layers_to_keep"
    "|tokens_per_sample|embed_path|export|base_shuffle"
)


def average_checkpoints(paths: Sequence[Path]) -> dict:
    """The checkpoint with the most updates (the last of equals), with its weights averaged.

    The optimizer's state is left out; ``extra_state["averaged_checkpoints"]`` names the files.
    """
    mean = MeanWeights()
    newest, counts = None, []
    for path in paths:
        state = read_checkpoint(path)
        counts.append(updates(state))
        weights = state["model"]
        mean.add(path, architecture(state), weights, settings_of(state))
        if newest is None or updates(state) >= updates(newest):
            newest, ties = state, tied_weights(weights)
        # Drop the tensors, so that no more than one checkpoint is in memory.
        weights.update(dict.fromkeys(weights))
        state["last_optimizer_state"] = None

    warn_of_uneven(counts)
    newest["model"].update(mean.result(ties))
    newest["extra_state"] = {
        **(newest.get("extra_state") or {}),
        "previous_training_time": 0,  # a training that begins with it counts its own
        "averaged_checkpoints": [str(path) for path in paths],
    }
    return newest


def warn_of_uneven(counts: list[int]) -> None:
    """Warn of checkpoints of one update, and of a gap between the others.

    Epochs may differ by a few updates; a checkpoint that is missing doubles a step.
    """
    steps = [after - before for before, after in itertools.pairwise(sorted(counts))]
    listed = ", ".join(map(str, sorted(counts)))
    if 0 in steps and any(counts):  # all are 0 where nothing says how many there were
        print(f"warning: two of the checkpoints are of one update: {listed}", file=sys.stderr)
    elif steps and max(steps) > 1.5 * min(steps):
        print(
            f"warning: their updates are not evenly spaced: {listed}. At the end of an epoch, "
            "fairseq writes checkpointEPOCH.pt instead of the numbered one",
            file=sys.stderr,
        )


def settings_of(state: dict) -> dict[str, object]:
    """The settings that decide what function of its weights a model is: patterns, heads, ….

    Those of fairseq's transformer and of the model's own dataclass, and the languages; not what
    training alone uses.
    """
    task = state.get("args") if state.get("cfg") is None else setting(state["cfg"], "task")
    languages = {name: setting(task, name) for name in ("source_lang", "target_lang")}
    model = state.get("args") if state.get("cfg") is None else setting(state["cfg"], "model")
    model = vars(model) if isinstance(model, Namespace) else model
    given = model if isinstance(model, dict) else {}
    own = MODEL_DATACLASS_REGISTRY.get(architecture(state), FlatTransformerConfig)
    names = {field.name for kind in (FlatTransformerConfig, own) for field in fields(kind)}
    kept = {n: value for n, value in given.items() if n in names and not _OF_TRAINING.search(n)}
    return languages | kept


def tied_weights(weights: dict[str, Tensor]) -> dict[str, str]:
    """Return the names of weights that share memory, as tied embeddings: later -> first name."""
    owners: dict[tuple, str] = {}
    ties = {}
    for name, weight in weights.items():
        memory = (weight.data_ptr(), weight.dtype, weight.shape, weight.stride())
        owner = owners.setdefault(memory, name)
        if owner != name:
            ties[name] = owner
    return ties


class MeanWeights:
    """The mean of models' weights in double precision, added one model at a time."""

    def __init__(self):
        self._sums: dict[str, Tensor] = {}
        self._dtypes: dict[str, torch.dtype] = {}
        self._count = 0
        self._first: tuple[Path, str | None, dict] | None = None

    def add(self, path: Path, arch: str | None, weights: dict[str, Tensor], settings: dict) -> None:
        """Add a model; refuse one that differs from the first.  ``weights`` stay unchanged."""
        if self._first is None:
            self._first = (path, arch, settings)
            for name, weight in weights.items():
                # Always copy: tied weights share memory, their sums must not.
                dtype = torch.float64 if weight.is_floating_point() else weight.dtype
                self._sums[name] = weight.to(dtype, copy=True)
                self._dtypes[name] = weight.dtype
        else:
            self._check_alike(path, arch, weights, settings)
            for name, weight in weights.items():
                self._dtypes[name] = torch.promote_types(self._dtypes[name], weight.dtype)
                if weight.is_floating_point():
                    self._sums[name] += weight
        self._count += 1

    def result(self, ties: dict[str, str]) -> dict[str, Tensor]:
        """Return the mean in the inputs' dtype, or in float32 for half-precision inputs.

        Weights that ``ties`` (from :func:`tied_weights`) ties share their memory again if their
        means are equal, as they are if every input ties them.
        """
        mean = {}
        for name, total in self._sums.items():
            if total.is_floating_point():
                # Half precision has too few digits for a mean.
                dtype = torch.promote_types(self._dtypes[name], torch.float32)
                mean[name] = (total / self._count).to(dtype)
            else:
                mean[name] = total
            owner = mean.get(ties.get(name))
            if owner is not None and torch.equal(owner, mean[name]):
                mean[name] = owner
        return mean

    def _check_alike(
        self, path: Path, arch: str | None, weights: dict[str, Tensor], settings: dict
    ) -> None:
        first_path, first_arch, first_settings = self._first
        if arch != first_arch:
            raise UserError(
                f"{path} holds another architecture ({arch}) than {first_path} ({first_arch})"
            )
        for name in sorted(settings.keys() & first_settings.keys()):
            if settings[name] != first_settings[name]:
                raise UserError(
                    f"{path} is of another model than {first_path}: its {name} is "
                    f"{settings[name]}, not {first_settings[name]}"
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
    """Describe what must agree: the shape and, of weights without a mean, the dtype."""
    shape = f"[{', '.join(map(str, weight.shape))}]"
    return shape if weight.is_floating_point() else f"{shape} {weight.dtype}"


def _some(names: Iterable[str]) -> str:
    names = sorted(names)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) or "none") + more
