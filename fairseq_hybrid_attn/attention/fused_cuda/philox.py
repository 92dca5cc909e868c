"""Which attention weights are dropped: by a seed per call, drawn again wherever they are needed."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, distributed


class DropoutDraw(NamedTuple):
    """A call's dropout.

    Attributes:
        seed: the key of Philox.
        threshold: a weight is kept if its random number, a signed 32-bit integer, is not less.
        scale: of the weights that are kept.
    """

    seed: int
    threshold: int
    scale: float

    @classmethod
    def drawn(cls, share: float) -> DropoutDraw:
        """Draw a seed, for dropping ``share`` of the weights, from PyTorch's generator of the CPU.

        Reading one from a GPU would stall it.  Activation checkpointing restores this generator.
        fairseq gives the generators of all processes the same seed, hence the rank.
        """
        seed = int(torch.randint(2**32, 2**62, (), device="cpu"))  # always a 64-bit argument
        seed += distributed.get_rank() if distributed.is_initialized() else 0
        return cls(seed, min(round(share * 2**32), 2**32 - 1) - 2**31, 1 / (1 - share))


def kept(dropout: DropoutDraw, sizes: tuple[int, ...], device: torch.device) -> Tensor:
    """Return what ``kernels/memory.py`` keeps, bool ``[l, b, h, n, m]`` for these sizes."""
    branches, b, h, n, m = sizes
    places = (range(n), range(m), range(b * h), range(-(-branches // 4)))
    row, key, head, group = torch.meshgrid(
        *(torch.tensor(place, device=device) for place in places), indexing="ij"
    )
    drawn = torch.stack(philox((row, key, head, group), dropout.seed))  # [4, n, m, bh, groups]
    drawn = drawn.permute(4, 0, 3, 1, 2).flatten(0, 1)[:branches].to(torch.int32)
    return (drawn >= dropout.threshold).view(sizes)


def philox(counter: tuple[Tensor, ...], seed: int) -> tuple[Tensor, ...]:
    """Return four random 32-bit numbers for each counter (Philox4x32-10, Salmon et al. 2011)."""
    low = 2**32 - 1
    a, b, c, d = counter
    x, y = seed & low, seed >> 32
    for _ in range(10):
        first, second = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b = (second >> 32 & low) ^ b ^ x, second & low
        c, d = (first >> 32 & low) ^ d ^ y, first & low
        x, y = (x + 0x9E3779B9) & low, (y + 0xBB67AE85) & low
    return a, b, c, d
