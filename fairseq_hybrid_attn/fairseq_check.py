"""Refuse a fairseq that would not run these models, or would run them wrongly."""

from __future__ import annotations

import functools
import logging
import platform
import warnings
from importlib import metadata
from typing import Any

import torch

from .errors import UserError

SUPPORTED = """\
fairseq_hybrid_attn works with these distributions of fairseq (import name: fairseq):
  ve-fairseq 0.12.3       Python 3.11, 3.12   wheels for Linux on x86-64
  fairseq-fixed 0.12.3.1  Python 3.10, 3.11   from source, other platforms
  fairseq 0.12.2, or a checkout of its main branch: Python 3.10
In a fresh environment of Python 3.11:  pip install ve-fairseq==0.12.3"""

#: The copies of its weights that an encoder layer of fairseq 0.12.2 has for its fast path.
COPIES = [
    f"{part}_{of}" for part in ("in_proj", "out_proj", "fc1", "fc2") for of in ("weight", "bias")
]


def check_fairseq() -> None:
    """Import fairseq and check that it is suitable.

    Raises:
        UserError: if it is missing or does not import, or if torch is too old.
    """
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 6):
        raise UserError(f"torch {torch.__version__}: fairseq_hybrid_attn needs 2.6 or later")
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
    if "can_use_fastpath" in TransformerEncoderLayerBase.forward.__code__.co_names:
        leave_fast_path(TransformerEncoderLayerBase)


def leave_fast_path(encoder_layer: Any) -> None:
    """Switch off the fast path of 0.12.2, in fairseq's own models, too.

    It computes attention from copies of the projections instead of calling ``self_attn``, and
    crashes where ``normalize_before`` is not set.
    """
    init = encoder_layer.__init__

    @functools.wraps(init)
    def without(self, *args, **kwargs):
        init(self, *args, **kwargs)
        self.can_use_fastpath = False
        for name in COPIES:
            delattr(self, name)

    encoder_layer.__init__ = without
    encoder_layer._load_from_state_dict = torch.nn.Module._load_from_state_dict


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
