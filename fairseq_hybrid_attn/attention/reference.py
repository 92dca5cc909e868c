"""The definition of multi-branch attention, written to be read.

The faster ways are tested against it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .masks import allowed
from .problem import AttentionProblem, AttentionResult, Branch


def reference(problem: AttentionProblem) -> AttentionResult:
    """Compute scores once, then one masked softmax and one value product per branch.

    HySAN Eq. 8-12 with one pattern per branch; MMA Eq. 7-11 with one branch whose heads
    have a pattern each; hybrid gate Eq. 1-3 with a global and a local branch.
    """
    scores = scaled_scores(problem)  # [b, h, n, m]
    if problem.bias is not None:
        scores = scores + problem.bias

    outputs, weights = [], []
    for branch in problem.branches:
        branch_weights = masked_softmax(scores, allowed_keys(branch, problem))
        dropped = F.dropout(branch_weights, problem.dropout) if problem.dropout else branch_weights
        outputs.append(dropped.to(problem.v.dtype) @ problem.v)
        weights.append(branch_weights)
    gathered = torch.stack(outputs)  # [l, b, h, n, d_k]
    if problem.mix is not None:
        gathered = (problem.mix * gathered).sum(dim=0, keepdim=True).to(gathered.dtype)
    return AttentionResult(
        outputs=gathered,
        weights=torch.stack(weights) if problem.need_weights else None,
    )


def scaled_scores(problem: AttentionProblem) -> Tensor:
    """Return q k^T in at least single precision, ``[b, h, n, m]``.

    float16 ends at 65,504, which a product of large queries and keys exceeds, so its product is
    computed in single precision.  bfloat16 has the range.
    """
    q, k = problem.q, problem.k.transpose(-2, -1)
    if q.dtype == torch.float16:
        with torch.autocast(q.device.type, enabled=False):
            return q.float() @ k.float()
    scores = q @ k
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def allowed_keys(branch: Branch, problem: AttentionProblem) -> Tensor:
    """Return where the heads of a branch may attend: bool, broadcastable to ``[b, h, n, m]``."""
    n, m = problem.q.size(-2), problem.k.size(-2)
    seen = allowed((branch,), n, m, problem.q.device)  # [1 or h, n, m]
    if problem.key_padding is None:
        return seen
    return seen & ~problem.key_padding[:, None, None, :]  # [b, 1 or h, n, m]


def masked_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    """Take a softmax over the allowed keys only; a row without any is exactly zero.

    Forbidden scores become the lowest finite number, not minus infinity: the softmax of a row
    of minus infinities is NaN, and so is its gradient.

    Args:
        scores: ``[..., n, m]``.
        allowed: broadcastable to ``scores``, True = may attend.
    """
    lowest = torch.finfo(scores.dtype).min
    weights = F.softmax(scores.masked_fill(~allowed, lowest), dim=-1)
    return weights.masked_fill(~allowed, 0.0)
