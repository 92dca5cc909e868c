"""Load a model; if that fails, say what is wrong with its file, which fairseq does not."""

from __future__ import annotations

from pathlib import Path

from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.data.data_utils import infer_language_pair
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from torch import nn

from ... import models  # noqa: F401  (fairseq gets to know them)
from ...errors import UserError
from ..files.checkpoints import architecture, read_checkpoint, setting

#: Each side's embedding among a model's weights, by the side's setting.
_EMBEDDINGS = {
    "source_lang": "encoder.embed_tokens.weight",
    "target_lang": "decoder.embed_tokens.weight",
}


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
        fault = _fault(path, data, overrides)
        if fault:
            raise UserError(f"--path {path}: {fault}") from error
        if isinstance(error, UserError):
            raise
        message = (str(error).strip() or repr(error)).splitlines()[0]
        raise UserError(
            f"--path {path} with the dictionaries in {data} cannot be loaded: {message}"
        ) from error
    return models[0].eval(), task


def task_settings(state: dict) -> object:
    """The settings of a checkpoint's task, a dict or a Namespace; see ``checkpoints.setting``."""
    settings = state.get("cfg") or state.get("args")
    return setting(settings, "task") if isinstance(settings, dict) else settings


def _trained_with(settings: object) -> str:
    """Say which folder of code a model was trained with, which is not imported for that."""
    common = setting(settings, "common") if isinstance(settings, dict) else settings
    folder = setting(common, "user_dir")
    return f" (it was trained with {str(folder)!r})" if folder else ""


def _fault(path: Path, data: Path, overrides: dict[str, str | None]) -> str | None:
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
        return (
            f"its architecture {arch} is registered neither by fairseq nor by this package; give "
            "--user-dir DIR, the folder that registers it" + _trained_with(settings)
        )
    task = task_settings(state)
    inferred = infer_language_pair(str(data))  # as fairseq does, if no flag has named them
    for (side, name), of_data in zip(_EMBEDDINGS.items(), inferred, strict=True):
        language = overrides.get(side) or setting(task, side) or of_data
        if not language:
            continue
        file = data / f"dict.{language}.txt"
        if not file.is_file():
            there = ", ".join(sorted(path.name for path in data.glob("dict.*.txt"))) or "none"
            return f"there is no dictionary {file} (there: {there}); name the folder of its data"
        known, weight = len(Dictionary.load(str(file))), state["model"].get(name)
        if weight is not None and len(weight) != known:
            return (
                f"it knows {len(weight):,} subwords, {file} has {known:,} (both with fairseq's own "
                "symbols); name the folder of its data"
            )
    return None
