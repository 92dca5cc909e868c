"""What autograd, devices and compilers decide for the code of this package."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch._guards import active_fake_mode


def without_autocast(kind: str) -> AbstractContextManager:
    """Compute in the precision of the numbers on devices of a kind."""
    if torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()


def is_cpu(device: torch.device) -> bool:
    """Whether numbers on a device can be looked at without waiting for it."""
    return device.type == "cpu"


def is_tracing() -> bool:
    """Whether a compiler or an exporter is tracing, which needs plain operations.

    It may also run them on fake tensors, which have no numbers.
    """
    compiling = torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[attr-defined]
    return compiling or active_fake_mode() is not None
