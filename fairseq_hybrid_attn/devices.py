"""What devices, precisions and compilers can do; it needs torch alone."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

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


def has_bfloat16(kind: str = "cpu") -> bool:
    """Return whether this CPU, or this GPU, multiplies bfloat16 numbers."""
    if kind != "cpu":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def bfloat16_pays() -> bool:
    """Return whether this CPU multiplies bfloat16 numbers faster than single precision.

    Intel's processors do with AMX alone: their AVX512-BF16 takes longer, AMD's does not.
    """
    if torch.cpu._is_amx_tile_supported():
        return True
    return torch.cpu._is_avx512_bf16_supported() and _is_amd()


def _is_amd() -> bool:
    cpu = Path("/proc/cpuinfo")
    return cpu.exists() and "AuthenticAMD" in cpu.read_text()
