"""A decoding step: one query, at the position of the last key (path ``step``).

For this query, *past* means all keys, *future* its own key, and *local past* with k keys behind the
last k + 1 keys.  Masks over all keys would mostly be wasted: translating to 200 tokens with HySAN
e1 takes 6 % less time than by ``short``, to 25 tokens as much.

Shape letters as in ``problem.py``; n = 1.
"""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import Tensor

from ..patterns import Band, sees_itself
from .problem import AttentionProblem, AttentionResult
from .reference import masked_softmax, scaled_scores

#: From this number of keys on, in single precision and without padding, a local branch reads only
#: its own keys.  With fewer, the additional call costs more than it saves.
SLICED_FROM = 128


def step(problem: AttentionProblem) -> AttentionResult:
    """Solve ``problem``, for which :func:`able` must hold."""
    return (_by_slices if _slices_pay(problem) else _by_rows)(problem)


def able(problem: AttentionProblem) -> bool:
    """Whether this path can solve ``problem``."""
    return (
        problem.q.size(2) == 1
        and problem.q.numel() > 0
        and problem.bias is None
        and problem.dropout == 0
        and all(
            len(set(branch)) == 1 and isinstance(branch[0], Band) and sees_itself(branch[0])
            for branch in problem.branches
        )
    )


#: Wherever it works, it is also the fastest.
applies = able


def _slices_pay(problem: AttentionProblem) -> bool:
    return (
        problem.k.size(2) >= SLICED_FROM
        and problem.key_padding is None
        and not problem.need_weights
        and problem.v.dtype in (torch.float32, torch.float64)
        and not torch.is_autocast_enabled(problem.q.device.type)
    )


def _by_slices(problem: AttentionProblem) -> AttentionResult:
    """Compute each branch over its own keys."""
    m = problem.k.size(2)
    found: dict[int, Tensor] = {}
    firsts = [0 if behind is None else max(0, m - 1 - behind) for behind in _behind(problem)]
    for first in firsts:
        if first not in found:
            k, v = problem.k[:, :, first:], problem.v[:, :, first:]
            found[first] = F.scaled_dot_product_attention(problem.q, k, v, scale=1.0)
    outputs = torch.stack([found[first] for first in firsts])
    if problem.mix is not None:
        outputs = (problem.mix * outputs).sum(0, keepdim=True)
    return AttentionResult(outputs=outputs)


def _by_rows(problem: AttentionProblem) -> AttentionResult:
    """Compute scores once, a row of weights for each branch, and one product with the values."""
    b, h, m, width = problem.k.shape
    v = problem.v.flatten(0, 1)
    if v.dtype == torch.float32:
        scores = torch.bmm(problem.q.flatten(0, 1), problem.k.flatten(0, 1).mT)
        scores = scores.float()  # under autocast, it may be in half precision
    else:
        scores = scaled_scores(problem).flatten(0, 1)  # [b * h, 1, m]
    behind = _behind(problem)
    # Keys count from the last, so the bias of few keys is the end of that of many keys; [l, m].
    size = max(64, 1 << (m - 1).bit_length())
    bias = _kept_bias(behind, size, scores.dtype, scores.device)[:, size - m :]
    if problem.key_padding is None:
        weights = F.softmax(scores + bias, dim=-1)  # [b * h, l, m]; each row sees its own key
    else:
        allowed = (bias == 0) & ~problem.key_padding.unsqueeze(1)  # [b, l, m]
        weights = masked_softmax(scores, allowed.repeat_interleave(h, dim=0))
    kept = None
    if problem.need_weights:
        kept = weights.view(b, h, -1, m).permute(2, 0, 1, 3).unsqueeze(3)
    if problem.mix is not None:
        mix = problem.mix.expand(-1, b, h, 1, 1).flatten(1, 2).squeeze(-1).transpose(0, 1)
        weights = (mix * weights).sum(1, keepdim=True)  # mix: [b * h, l, 1]
    outputs = torch.bmm(weights.to(v.dtype), v).view(b, h, -1, 1, width)
    return AttentionResult(outputs=outputs.permute(2, 0, 1, 3, 4), weights=kept)


def _behind(problem: AttentionProblem) -> tuple[int | None, ...]:
    """Return how far back each branch sees; the last query has nothing ahead."""
    return tuple([branch[0].behind for branch in problem.branches])


@functools.lru_cache(maxsize=32)
def _kept_bias(
    behind: tuple[int | None, ...], m: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Return 0 where a branch may attend, else minus infinity, ``[l, m]``."""
    # A tensor made in inference mode could never be used for a gradient later.
    with torch.inference_mode(False):
        allowed = torch.cat([Band(behind=width).mask(1, m, device=device) for width in behind])
        bias = torch.zeros(allowed.shape, dtype=dtype, device=device)
        return bias.masked_fill_(~allowed, -torch.inf)
