"""Relative positions, which all branches share, as they share scores.

Both kinds depend on j - i alone, so padding on either side of a sentence changes nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .masks import remembered

#: What ``AttentionPlan.relative_positions`` may be.
ROTARY, ALIBI = "rotary", "alibi"
RELATIVE_POSITIONS = (ROTARY, ALIBI)


def rotated(x: Tensor, first: int) -> Tensor:
    """Turn each pair of dimensions of queries or keys (RoFormer, Su et al. 2021, Eq. 15 and 34).

    Dimensions 2 i and 2 i + 1 of position p turn by p * 10000^(-2 i / d_k), so the product of a
    query and a key depends on their distance.

    Args:
        x: ``[b, h, n, d_k]``, with an even d_k.
        first: the position of the first of the n.
    """
    dtype = torch.promote_types(x.dtype, torch.float32)
    cos, sin = _turns(first, x.size(2), x.size(3), dtype, x.device)
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = torch.stack([even * cos - odd * sin, odd * cos + even * sin], dim=-1)
    return turned.flatten(-2).to(x.dtype)


@remembered
def _turns(first, n, d_k, dtype, device) -> tuple[Tensor, Tensor]:
    """Cosines and sines, ``[n, d_k / 2]``."""
    position = torch.arange(first, first + n, dtype=torch.float64, device=device)
    pair = torch.arange(0, d_k, 2, dtype=torch.float64, device=device)
    angle = torch.outer(position, 10000 ** (-pair / d_k))
    return angle.cos().to(dtype), angle.sin().to(dtype)


def alibi(heads: int, n: int, m: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return what ALiBi adds to the scores, -m_h |i - j|, ``[1, h, n, m]`` (Press et al. 2022).

    The queries are the last n of the m positions.  The paper looks at the past alone; that both
    directions cost the same is ours.
    """
    return _alibi(heads, n, m, torch.promote_types(dtype, torch.float32), device)[0]


@remembered
def _alibi(heads, n, m, dtype, device) -> tuple[Tensor]:
    i = torch.arange(m - n, m, dtype=dtype, device=device).unsqueeze(1)
    distance = (torch.arange(m, dtype=dtype, device=device) - i).abs()
    slopes = torch.tensor(slopes_of(heads), dtype=dtype, device=device)
    return ((-slopes[:, None, None] * distance).unsqueeze(0),)


def slopes_of(heads: int) -> list[float]:
    """Return the slope m_h of each head: 2^(-8 / h), 2^(-16 / h), …

    If h is no power of two: those of the next lower power, then every other one of twice as many,
    as in the authors' code.
    """
    power = 2 ** (heads.bit_length() - 1)
    slopes = [2 ** (-8 * k / power) for k in range(1, power + 1)]
    between = [2 ** (-8 * k / (2 * power)) for k in range(1, 2 * power, 2)]
    return slopes + between[: heads - power]
