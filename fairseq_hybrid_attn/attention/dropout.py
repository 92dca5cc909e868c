"""Random numbers for dropout in an eighth of the time that torch takes on CPUs.

torch draws each number by itself.  Here one random number of 64 bits decides about four elements,
so that the probability is a multiple of 2^-16.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ..devices import is_cpu, is_tracing


def dropout(x: Tensor, p: float) -> Tensor:
    """Return ``x`` with elements dropped with probability ``p``, and the others scaled up."""
    if is_tracing() or not is_cpu(x.device):
        return F.dropout(x, p)
    return x * factors(noise(x), p, x.dtype)


def thinned(x: Tensor, p: float) -> tuple[Tensor, float]:
    """Return ``x`` with elements dropped, and the factor that scales the others up.

    The factor waits until ``x`` is multiplied with something smaller; half precision would round
    it here.
    """
    if is_tracing() or not is_cpu(x.device):
        return F.dropout(x, p), 1.0
    kept = _kept(p)
    return x * _keep(noise(x), kept, x.dtype), 2**16 / kept if kept else 0.0


def noise(like: Tensor) -> Tensor:
    """Draw a random 16-bit number for each element, four at a time."""
    drawn = torch.empty((like.numel() + 3) // 4, dtype=torch.int64, device=like.device)
    drawn.random_(-(2**63), None)
    return drawn.view(torch.int16)[: like.numel()].view(like.shape)


def factors(noise: Tensor, p: float, dtype: torch.dtype) -> Tensor:
    """Return what elements are multiplied with: 0 where dropped, and 1 on average."""
    kept = _kept(p)
    return _keep(noise, kept, dtype).mul_(2**16 / kept if kept else 0.0)


def _keep(noise: Tensor, kept: int, dtype: torch.dtype) -> Tensor:
    """1 where ``noise`` is among the lowest ``kept`` numbers, else 0."""
    keep = torch.empty(noise.shape, dtype=dtype, device=noise.device)
    return torch.le(noise, max(kept - 1, 0) - 2**15, out=keep)


def _kept(p: float) -> int:
    """How many of the numbers from -2**15 to 2**15 - 1, the lowest, stand for what is kept."""
    if not 0 <= p <= 1:
        raise ValueError(f"a dropout of {p}: use a rate from 0 to 1")
    return round((1 - p) * 2**16)
