"""What gradients written by hand share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import torch


def first_order(backward: Callable) -> Callable:
    """Mark the ``backward`` of a function that has no second derivative.

    PyTorch's own ``once_differentiable`` notices a second derivative only where the gradient
    from above needs one; otherwise a penalty on gradients would be left out without a word.

    Raises (when a gradient is asked for with ``create_graph``):
        RuntimeError: always.
    """

    @wraps(backward)
    def only_once(ctx, *grads):
        if torch.is_grad_enabled():
            raise RuntimeError(
                "this attention has no second derivative; with the environment variable "
                "FAIRSEQ_HYBRID_ATTN_PATH=reference it has one (not a gated sum's)"
            )
        return backward(ctx, *grads)

    return only_once


def watched() -> bool:
    """Whether a compiler or an exporter looks on, which wants plain operations."""
    return torch.compiler.is_compiling() or torch.jit.is_tracing()
