"""Load a model; if that fails, say what is wrong with its file, which fairseq does not."""

from __future__ import annotations

from pathlib import Path

from fairseq import checkpoint_utils
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from torch import nn

from ... import models  # noqa: F401  (fairseq gets to know them)
from ...errors import UserError
from ..files.checkpoints import architecture, read_checkpoint, setting


def load_model(path: Path, data: Path, **overrides: str | None) -> tuple[nn.Module, object]:
    """Load a model, in evaluation mode, and its task; ``data`` has its dictionaries.

    Settings of the task replace the checkpoint's, except those that are None.
    """
    if not path.is_file():
        raise UserError(f"--path {path}: there is no such file")
    settings = {key: value for key, value in overrides.items() if value is not None}
    # Only training needs these, and their files might not be there.
    settings |= {"data": str(data), "eval_bleu": False, "load_alignments": False}
    settings["truncate_source"] = False  # words would be missing silently
    settings["num_batch_buckets"] = 0  # padding would be read as words
    try:
        models, _, task = checkpoint_utils.load_model_ensemble_and_task(
            [str(path)], arg_overrides=settings
        )
    except Exception as error:  # of many kinds, from torch, omegaconf and fairseq
        fault = _fault(path, data)
        if fault:
            raise UserError(f"--path {path}: {fault}") from error
        if isinstance(error, UserError):
            raise
        # torch's first line is only that there are errors, its second what the first of them is.
        lines = (str(error).strip() or repr(error)).splitlines()
        message = " ".join(line.strip() for line in lines[:2])
        raise UserError(
            f"--path {path} with the dictionaries in {data} cannot be loaded: {message}"
        ) from error
    return models[0].eval(), task


def task_settings(state: dict) -> object:
    """The settings of a checkpoint's task, a dict or a Namespace; see ``checkpoints.setting``."""
    settings = state.get("cfg") or state.get("args")
    return setting(settings, "task") if isinstance(settings, dict) else settings


def _fault(path: Path, data: Path) -> str | None:
    """What is wrong with a checkpoint or its data; None if it is nothing known here."""
    if not data.is_dir():
        return f"there is no folder {data} with its dictionaries"
    try:
        state = read_checkpoint(path)
    except UserError as error:
        return str(error)
    settings = state.get("cfg") or state.get("args")
    if not (setting(settings, "model") or setting(settings, "arch")):
        return "it is not a fairseq checkpoint: it has weights, but no settings of its model"
    arch = architecture(state)
    if arch not in [*ARCH_MODEL_REGISTRY, *MODEL_REGISTRY]:  # a list, since it may be anything
        common = setting(settings, "common") if isinstance(settings, dict) else settings
        folder = setting(common, "user_dir")
        trained = f" (it was trained with {str(folder)!r})" if folder else ""
        return (
            f"its architecture {arch} is registered neither by fairseq nor by this package; give "
            f"--user-dir DIR, the folder that registers it{trained}"
        )
    return None
