"""Load a trained model; if that fails, say what is wrong with its file, which fairseq does not."""

from __future__ import annotations

from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from omegaconf.errors import OmegaConfBaseException
from torch import nn

from ... import models  # noqa: F401  (fairseq gets to know them)
from ...errors import UserError
from ..files.checkpoints import architecture, read_checkpoint, setting
from .trained import TrainedModel


def device_of(name: str) -> str:
    """``cpu`` or ``cuda``; of ``auto``, a GPU if there is one."""
    gpu = torch.cuda.is_available()
    if name == "cuda" and not gpu:
        raise UserError("--device cuda: there is no GPU")
    return "cuda" if gpu and name != "cpu" else "cpu"


def load_model(trained: TrainedModel) -> tuple[nn.Module, Any]:
    """The model, in evaluation mode, and its task."""
    source, target = trained.languages
    settings = {
        **{"data": str(trained.binary), "source_lang": source, "target_lang": target},
        # Only training needs these, and their files might not be there.
        **{"eval_bleu": False, "load_alignments": False},
        "truncate_source": False,  # words would be missing silently
        "num_batch_buckets": 0,  # padding would be read as words
    }
    try:
        loaded, _, task = checkpoint_utils.load_model_ensemble_and_task(
            [str(trained.checkpoint)], arg_overrides=settings
        )
    except Exception as error:
        state = read_checkpoint(trained.checkpoint)
        arch = architecture(state)
        if arch not in [*ARCH_MODEL_REGISTRY, *MODEL_REGISTRY]:  # a list, since it may be anything
            stored = state.get("cfg") or state.get("args")
            common = setting(stored, "common") if isinstance(stored, dict) else stored
            folder = setting(common, "user_dir")
            trained_with = f" (it was trained with {str(folder)!r})" if folder else ""
            raise UserError(
                f"{trained.path}: its architecture {arch} is registered neither by fairseq nor by "
                f"this package; give --user-dir DIR, the folder that registers it{trained_with}"
            ) from error
        if not isinstance(error, OmegaConfBaseException):
            raise
        raise UserError(f"{trained.path} cannot be loaded: {str(error).splitlines()[0]}") from error
    return loaded[0].eval(), task
