"""The definition of multi-branch attention, written to be read.

It is also the way for short sentences on CPUs, so all branches are computed at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .dropout import thinned
from .masks import make_masks
from .problem import AttentionProblem, AttentionResult

#: Keys from which a softmax in half precision pays.
LONG_ROW = 64


def reference(problem: AttentionProblem) -> AttentionResult:
    """Compute scores once, then one masked softmax and one value product per branch.

    HySAN Eq. 8-12 with one pattern per branch; MMA Eq. 7-11 with one branch whose heads
    have a pattern each; hybrid gate Eq. 1-3 with a global and a local branch.
    """
    scores = scaled_scores(problem)  # [b, h, n, m]
    if problem.bias is not None:
        scores = scores + problem.bias

    l, (n, m) = len(problem.branches), scores.shape[2:]  # noqa: E741
    added, sees = make_masks(problem, scores.dtype)
    scores = scores.unsqueeze(2)
    if added is not None:  # 0 or minus infinity, whose softmax is exactly 0
        scores = scores + _by_branch(added, l, n)[..., :m]
    scores = scores.expand(-1, -1, l, -1, -1)  # [b, h, l, n, m]
    # Of long rows, the product rounds the weights; torch's softmax of short ones is slow in half
    # precision.
    exact = problem.need_weights or (problem.dropout and m < LONG_ROW)
    weights = torch.softmax(scores, dim=-1, dtype=_at_least_single(scores) if exact else None)

    dropped, factor = thinned(weights, problem.dropout) if problem.dropout else (weights, 1.0)
    outputs = dropped.to(problem.v.dtype).flatten(2, 3) @ problem.v
    outputs = outputs.unflatten(2, (l, n))  # [b, h, l, n, d_k]
    if factor != 1:
        outputs = outputs * factor
    if sees is not None:  # a query without keys has the softmax of a row of zeros until here
        sees = _by_branch(sees, l, n)
        outputs = outputs * sees
        weights = weights * sees if problem.need_weights else weights
    outputs = outputs.permute(2, 0, 1, 3, 4)
    if problem.mix is not None:
        outputs = (problem.mix * outputs).sum(dim=0, keepdim=True).to(outputs.dtype)
    return AttentionResult(
        outputs=outputs,
        weights=weights.permute(2, 0, 1, 3, 4) if problem.need_weights else None,
    )


def scaled_scores(problem: AttentionProblem) -> Tensor:
    """Return q k^T, ``[b, h, n, m]``.

    float16 ends at 65,504, which a product of large queries and keys exceeds, so its product is
    computed in single precision.  bfloat16 has the range.
    """
    q, k = problem.q, problem.k.transpose(-2, -1)
    if q.dtype == torch.float16:
        with torch.autocast(q.device.type, enabled=False):
            return q.float() @ k.float()
    return q @ k


def _at_least_single(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def _by_branch(mask: Tensor, l: int, n: int) -> Tensor:  # noqa: E741
    """``[1 or b, 1 or h, 1 or l * n, x]`` -> ``[1 or b, 1 or h, 1 or l, 1 or n, x]``."""
    return mask.unsqueeze(2) if mask.size(2) == 1 else mask.unflatten(2, (l, n))
