"""Refuse a fairseq that would not run these models, or would run them wrongly."""

from __future__ import annotations

import logging
import platform
import warnings
from importlib import metadata
from typing import Any

from .errors import UserError

SUPPORTED = """\
fairseq_hybrid_attn works with these distributions of fairseq (import name: fairseq):
  ve-fairseq 0.12.3       Python 3.11, 3.12   wheels for Linux on x86-64
  fairseq-fixed 0.12.3.1  Python 3.11         from source, other platforms
In a fresh environment:  pip install ve-fairseq==0.12.3
The official fairseq 0.12.2 does not work: it does not import on Python 3.11 and later, and
its inference fast path silently bypasses custom attention, which gives wrong translations."""


def check_fairseq() -> None:
    """Import fairseq and check that it is suitable.

    Raises:
        UserError: if it is missing, does not import, or bypasses custom attention.
    """
    # On import, fairseq recommends a speech package to everyone.
    logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)
    # It also makes the root logger show everything that any library logs.
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    try:
        with warnings.catch_warnings():
            # What is outdated in fairseq is no fault of the user's, who may make warnings errors.
            for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
                warnings.simplefilter("ignore", category)
            from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
    except Warning:  # which the user wants as an error
        raise
    except Exception as error:  # whatever an unsuitable fairseq raises on import
        raise UserError(_message(f"cannot be imported ({type(error).__name__}: {error})")) from None
    root.setLevel(level)
    root.handlers[:] = handlers
    if bypasses_custom_attention(TransformerEncoderLayerBase):
        raise UserError(_message("bypasses custom attention at inference"))


def bypasses_custom_attention(encoder_layer: Any) -> bool:
    """Whether fairseq's encoder layer has the fast path of 0.12.2.

    It computes attention from the projections itself instead of calling ``self_attn``.
    """
    return "can_use_fastpath" in encoder_layer.forward.__code__.co_names


def _message(problem: str) -> str:
    installed = [
        f"{name} {metadata.version(name)}"
        for name in ("fairseq", "ve-fairseq", "fairseq-fixed")
        if any(metadata.distributions(name=name))
    ]
    found = " and ".join(installed) or "no fairseq"
    return (
        f"The fairseq of this environment {problem}.\n"
        f"Found: {found}, Python {platform.python_version()}.\n{SUPPORTED}"
    )
