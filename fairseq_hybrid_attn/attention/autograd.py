"""Helpers for gradients that are written by hand, and what the choice of a way depends on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps

import torch


def first_order(backward: Callable) -> Callable:
    """Make the ``backward`` of a function raise a RuntimeError under ``create_graph``.

    PyTorch's ``once_differentiable`` notices a second derivative only if the upstream gradient
    needs one; otherwise it would silently drop a penalty on gradients.  The gradient keeps its
    precision if it is asked for under autocast.
    """

    @wraps(backward)
    def only_once(ctx, *grads):
        if torch.is_grad_enabled():
            raise RuntimeError(
                "no second derivative: use fairseq's criterion, and for attention (except for a "
                "gated sum) PatternedAttention.compute = staticmethod(reference)"
            )
        kinds = [grad.device.type for grad in grads if grad is not None]
        with without_autocast(kinds[0] if kinds else "cpu"):
            return backward(ctx, *grads)

    return only_once


def without_autocast(kind: str) -> AbstractContextManager:
    """Compute in the precision of the numbers on devices of a kind."""
    if torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()


def is_cpu(device: torch.device) -> bool:
    """Whether numbers on a device can be looked at without waiting for it."""
    return device.type == "cpu"


def is_tracing() -> bool:
    """Whether a compiler or an exporter is tracing, which needs plain operations."""
    return torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[attr-defined]
