"""Which checkpoints are averaged, and the mean of their weights, with one of them in memory."""

from __future__ import annotations

import itertools
import math
import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import torch
from fairseq.models import MODEL_DATACLASS_REGISTRY
from torch import Tensor

from ...errors import UserError, few
from ...models.config import FlatTransformerConfig
from ..files.checkpoints import architecture, read_checkpoint, setting, updates
from ..files.writing import atomic_write

#: File names by the flag that chooses among them; the last group is the number of the flag.
_NUMBERED = {
    "--last-updates": re.compile(r"checkpoint_(\d+)_(\d+)\.pt"),
    "--last-epochs": re.compile(r"checkpoint(\d+)\.pt"),
}
#: In the names of settings: those that a trained model does not depend on, or whose weights tell.
_OF_TRAINING = re.compile(
    "drop|quant_noise|activations|min_params|max_(source|target)_positions|layers_to_keep"
    "|tokens_per_sample|embed_path|export|base_shuffle"
)


def average_checkpoints(paths: Sequence[Path]) -> dict:
    """The checkpoint with the most updates (the last of equals), with its weights averaged.

    Means are taken in double precision.  They have the inputs' dtype, or float32 for
    half-precision inputs, which has too few digits for a mean.  What is not floating-point must be
    equal.  The optimizer's state is left out; ``extra_state["averaged_checkpoints"]`` names the
    files.
    """
    sums: dict[str, Tensor] = {}
    dtypes: dict[str, torch.dtype] = {}
    counts: list[int] = []
    for path in paths:
        state = read_checkpoint(path)
        weights, kind = state["model"], kind_of(state)
        if not counts:
            first = kind
        check_alike(kind, first, f"{path} is of another model than {paths[0]}")
        for name, weight in weights.items():
            if weight.is_floating_point():
                if name not in sums:
                    sums[name] = torch.zeros_like(weight, dtype=torch.float64)
                sums[name] += weight
                dtypes[name] = torch.promote_types(dtypes.get(name, torch.float32), weight.dtype)
        if not counts or updates(state) >= max(counts):
            newest, ties = state, tied_weights(weights)
            rest = {n: weight for n, weight in weights.items() if not weight.is_floating_point()}
        counts.append(updates(state))
        # Drop the tensors, so that no more than one checkpoint is in memory.
        weights.update(dict.fromkeys(weights))
        state["last_optimizer_state"] = None

    warn_of_uneven(counts)
    mean = {name: (total / len(paths)).to(dtypes[name]) for name, total in sums.items()} | rest
    for name, owner in ties.items():
        if torch.equal(mean[owner], mean[name]):  # as they are if every input ties them
            mean[name] = mean[owner]
    newest["model"].update(mean)
    newest["extra_state"] = {
        **(newest.get("extra_state") or {}),
        "previous_training_time": 0,  # a training that begins with it counts its own
        "averaged_checkpoints": [str(path) for path in paths],
    }
    return newest


def kind_of(state: dict) -> tuple[dict[str, object], dict[str, str]]:
    """What must agree: settings; and of weights the shape, or all if they have no mean."""
    weights = {
        name: f"of shape {list(weight.shape)}"
        if weight.is_floating_point()
        else f"{weight.dtype} {weight.tolist()}"
        for name, weight in state["model"].items()
    }
    return {"architecture": architecture(state), **settings_of(state)}, weights


def check_alike(kind: tuple[dict, dict], first: tuple[dict, dict], message: str) -> None:
    """Refuse another kind; a setting that one checkpoint does not have cannot differ."""
    (settings, weights), (first_settings, first_weights) = kind, first
    pairs = {n: (settings[n], first_settings[n]) for n in settings.keys() & first_settings.keys()}
    for name in weights.keys() | first_weights.keys():
        pairs[name] = weights.get(name, "missing"), first_weights.get(name, "missing")
    unlike = [f"its {name} is {a}, not {b}" for name, (a, b) in sorted(pairs.items()) if a != b]
    if unlike:
        raise UserError(f"{message}: {few(unlike, 3)}")


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


def chosen_files(
    paths: Sequence[Path],
    *,
    last_updates: int | None = None,
    last_epochs: int | None = None,
    up_to: int | None = None,
) -> Sequence[Path]:
    """The checkpoints to average: these, or the last ones in a directory."""
    for flag, count in (("--last-updates", last_updates), ("--last-epochs", last_epochs)):
        if count:
            if len(paths) != 1 or not paths[0].is_dir():
                raise UserError(f"{flag} chooses among the checkpoints of one directory: give that")
            return last_files(paths[0], flag, count, up_to)
    if up_to is not None:
        raise UserError("--up-to limits --last-updates or --last-epochs; give one of them")
    for path in paths:
        if path.is_dir():
            raise UserError(f"{path} is a directory; add --last-updates N or --last-epochs N")
    return paths


def last_files(directory: Path, flag: str, count: int, up_to: int | None) -> list[Path]:
    """The last checkpoints up to a number of updates (or epoch), oldest first."""
    numbered = []
    for path in directory.iterdir():
        match = _NUMBERED[flag].fullmatch(path.name)
        if match and (up_to is None or int(match.groups()[-1]) <= up_to):
            # By the last number first: within a training run, updates grow from epoch to epoch.
            numbered.append(([int(number) for number in reversed(match.groups())], path))
    found = [path for _, path in sorted(numbered)]
    if len(found) < count:
        limit = "" if up_to is None else f" up to {up_to}"
        names = ", ".join(path.name for path in found) or "none"
        raise UserError(f"{flag} {count}: {directory} has only {len(found)}{limit} ({names})")
    if flag == "--last-updates":
        warn_of_unnumbered(directory, found, found[-count], up_to)
    return found[-count:]


def warn_of_unnumbered(
    directory: Path, numbered: list[Path], first: Path, up_to: int | None
) -> None:
    """Warn of updates after ``first`` that are in a checkpoint of an epoch, or the last, alone."""
    known = {int(path.stem.rpartition("_")[2]) for path in numbered}
    every = math.gcd(*known)  # the updates between two checkpoints
    epoch, start = map(int, first.stem.split("_")[1:])
    for path in sorted(directory.glob("checkpoint*.pt")):
        match = _NUMBERED["--last-epochs"].fullmatch(path.name)
        if not (path.name == "checkpoint_last.pt" or (match and int(match[1]) >= epoch)):
            continue
        made = updates(read_checkpoint(path))
        if start < made <= (up_to or made) and made % every == 0 and made not in known:
            print(
                f"warning: {path.name} is of update {made:,}, and there is no numbered file of it; "
                "name the files to average it as well",
                file=sys.stderr,
            )


def write_checkpoint(state: dict, path: Path) -> None:
    with atomic_write(path) as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:
            # On a full disk, torch complains about the unfinished archive, not about the disk.
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise
