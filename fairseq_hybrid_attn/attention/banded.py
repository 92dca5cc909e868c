"""Cut a sentence into blocks of queries, each with the window of keys that a local pattern allows.

A block of B queries sees a window of behind + B + ahead keys.  A sentence of n positions becomes
n / B small masked attentions, and keys far away are never read.

Shape letters as in ``problem.py``, and

========  =========================================================
``s``     blocks of the whole batch, b times those of a sentence
``B``     queries of a block
``W``     keys of a window
========  =========================================================
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ..patterns import Band

#: Queries per block.  Small blocks compute fewer masked scores, large ones have faster matrix
#: products: 2.9, 2.9 and 4.9 ms for 16, 32 and 64 with n = 1024, h = 8, d_k = 64, 5 keys to each
#: side (AVX2, one thread).
_BLOCK = 32


@dataclass(frozen=True)
class Blocks:
    """How to cut sentences of n positions for a band, which is clipped to the sentence."""

    n: int
    behind: int
    ahead: int

    @classmethod
    def of(cls, band: Band, n: int) -> Blocks:
        """Cut for a ``band`` that is bounded on both sides."""
        return cls(n, min(band.behind, n - 1), min(band.ahead, n - 1))

    @property
    def size(self) -> int:
        """B."""
        return _BLOCK if self.behind + self.ahead <= _BLOCK else 2 * _BLOCK

    @property
    def window(self) -> int:
        """W."""
        return self.behind + self.size + self.ahead

    @property
    def count(self) -> int:
        """Blocks of a sentence."""
        return math.ceil(self.n / self.size)

    def queries(self, x: Tensor) -> Tensor:
        """``[b, h, n, d_k]`` -> ``[s, h, B, d_k]``, zeros after the last position."""
        b, h, n, width = x.shape
        if n < self.count * self.size:
            x = F.pad(x, (0, 0, 0, self.count * self.size - n))
        x = x.unflatten(2, (self.count, self.size)).transpose(1, 2)
        return x.reshape(b * self.count, h, self.size, width)

    def positions(self, x: Tensor) -> Tensor:
        """``[s, h, B, d_k]`` -> ``[b, h, n, d_k]``, the inverse of :meth:`queries`."""
        return x.unflatten(0, (-1, self.count)).transpose(1, 2).flatten(2, 3)[:, :, : self.n]

    def keys(self, x: Tensor) -> Tensor:
        """``[b, h, n, d_k]`` -> ``[s, h, W, d_k]``, zeros beyond the sentence."""
        b, h, _, width = x.shape
        # [b, h, blocks, d_k, W]
        windows = F.pad(x, (0, 0, self.behind, self._after)).unfold(2, self.window, self.size)
        return windows.permute(0, 2, 1, 4, 3).reshape(b * self.count, h, self.window, width)

    def gather(self, windows: Tensor) -> Tensor:
        """``[s, h, W, d_k]`` -> ``[b, h, n, d_k]``, sums for each key: the gradient of `keys`."""
        windows = windows.unflatten(0, (-1, self.count)).transpose(1, 2)  # [b, h, blocks, W, d_k]
        b, h, _, _, width = windows.shape
        steps = math.ceil(self.window / self.size)
        total = windows.new_zeros(b, h, self.count + steps - 1, self.size, width)
        for step in range(steps):
            part = windows[:, :, :, step * self.size : (step + 1) * self.size]
            total[:, :, step : step + self.count, : part.size(3)] += part
        return total.flatten(2, 3)[:, :, self.behind : self.behind + self.n]

    def bias(self, b: int, padding: Tensor | None, like: Tensor) -> Tensor:
        """Return 0 where a query may attend, else minus infinity, ``[s, 1, B, W]``.

        Args:
            b: number of sentences.
            padding: ``[b, n]``, True = padding.
            like: a tensor of the type and device of the result.
        """
        if padding is None:
            return _bias_without_padding(self, b, like.dtype, like.device)
        return self._bias(~padding, like.dtype)

    @property
    def _after(self) -> int:
        """Zeros after the last key, for the last block's window."""
        return self.count * self.size + self.ahead - self.n

    def _bias(self, real: Tensor, dtype: torch.dtype) -> Tensor:
        """``real``: ``[b, n]``, True = a token."""
        query = torch.arange(self.size, device=real.device).unsqueeze(1)
        key = torch.arange(self.window, device=real.device) - self.behind
        in_band = Band(self.behind, self.ahead).allows(key - query)  # [B, W]
        real = F.pad(real, (self.behind, self._after)).unfold(1, self.window, self.size)
        allowed = in_band & real.unsqueeze(2)  # [b, blocks, B, W]
        bias = torch.zeros(allowed.shape, dtype=dtype, device=real.device)
        return bias.masked_fill_(~allowed, -torch.inf).flatten(0, 1).unsqueeze(1)


@functools.lru_cache(maxsize=2)
def _bias_without_padding(
    blocks: Blocks, b: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    # A tensor made in inference mode could never be used for a gradient later.
    with torch.inference_mode(False):
        return blocks._bias(torch.ones(b, blocks.n, dtype=torch.bool, device=device), dtype)
