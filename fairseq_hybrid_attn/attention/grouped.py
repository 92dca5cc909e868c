"""One branch with a pattern for each head (MMA), or with a single pattern (path ``grouped``).

In short sentences, all patterns together are one mask.  In long ones, most of the work would be
masked.  There, heads of one pattern are computed together, on little more than the keys that their
pattern allows: half of the scores for past and future, a band for local.

Shape letters as in ``problem.py``.
"""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import Tensor

from ..patterns import sees_itself
from . import flash, regions
from .dropout import dropout
from .problem import AttentionProblem, AttentionResult, Branch
from .region_layout import known

# Forward + backward against unmasked scaled_dot_product_attention (AVX2, one thread, 8 heads
# of width 64, two heads a pattern, local of width 1; unmasked against itself 0.90 to 1.05):
#
#     n                          25    64   128   192   256   384   512  1024
#     softmax of plain scores  0.79  0.87  1.16  1.26  1.32  1.38  1.34  2.17
#     masked, in blocks        0.96  0.96  1.12  1.09  1.09  1.15  1.14  1.61
#     groups of heads                      1.29  1.25  1.09  1.07  0.95  0.74

#: Up to this number of keys, all scores are held at once.
PLAIN_UP_TO = 128

#: From this number of keys on, heads are grouped.
GROUPED_FROM = 400

#: Masks for up to this number of positions are cached.
_KEPT = 512


def grouped(problem: AttentionProblem) -> AttentionResult:
    """Solve ``problem``, for which :func:`able` must hold."""
    dtype = problem.v.dtype
    # On a CPU, half precision is for storage; computing in single precision loses nothing.
    inner = _inner(problem)
    with torch.autocast(problem.q.device.type, enabled=False):
        q, k, v = (x.to(inner) for x in (problem.q, problem.k, problem.v))
        outputs, weights = _way(problem)(problem, q, k, v)
        if problem.mix is not None:
            outputs = problem.mix[0].to(inner) * outputs
    return AttentionResult(
        outputs=outputs.unsqueeze(0).to(dtype),
        weights=weights.unsqueeze(0) if problem.need_weights else None,
    )


def able(problem: AttentionProblem) -> bool:
    """Whether this path can solve ``problem``."""
    return (
        len(problem.branches) == 1
        and problem.q.device.type == "cpu"
        and problem.bias is None
        and (_few_scores(problem) or not problem.need_weights)
        and all(sees_itself(pattern) for pattern in problem.branches[0])
    )


#: Wherever it works, it is also the fastest.
applies = able


def _inner(problem: AttentionProblem) -> torch.dtype:
    return torch.promote_types(problem.v.dtype, torch.float32)


def _way(problem: AttentionProblem):
    """Choose a function below; each returns outputs ``[b, h, n, d_k]``, and weights or None."""
    if _few_scores(problem):
        return _plain
    n, m = problem.q.size(2), problem.k.size(2)
    groups = (
        n == m >= GROUPED_FROM
        and all(known(pattern) for pattern in problem.branches[0])
        and flash.available(problem.q.new_empty(0, dtype=_inner(problem)))
    )
    return _by_groups if groups else _in_blocks


def _few_scores(problem: AttentionProblem) -> bool:
    """Whether all scores are held at once: they are few, or dropout needs each of them."""
    return problem.dropout > 0 or problem.k.size(2) <= PLAIN_UP_TO


def _plain(problem: AttentionProblem, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Take a softmax over all scores plus a bias; weights are those before dropout."""
    bias, empty = _mask(problem, q.dtype)
    weights = F.softmax((q @ k.mT).add_(bias), dim=-1)
    if empty is not None:
        weights = weights.masked_fill(empty, 0)
    used = dropout(weights, problem.dropout) if problem.dropout else weights
    return used @ v, weights


def _in_blocks(problem: AttentionProblem, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, None]:
    """Compute the same by PyTorch's attention, which never holds all scores."""
    bias, empty = _mask(problem, q.dtype)
    output = F.scaled_dot_product_attention(q, k, v, bias, scale=1.0)
    return (output if empty is None else output.masked_fill(empty, 0)), None


def _by_groups(problem: AttentionProblem, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, None]:
    """Compute the heads of each pattern separately."""
    branch = problem.branches[0]
    patterns = list(dict.fromkeys(branch))
    if len(patterns) == 1:
        return regions.solve(q, k, v, None, problem.key_padding, branch[:1])[0], None
    order = sorted(range(len(branch)), key=lambda head: patterns.index(branch[head]))
    moved = order != list(range(len(branch)))  # if equal patterns are neighbours, nothing moves
    if moved:
        q, k, v = (x[:, order] for x in (q, k, v))
    sizes = [branch.count(pattern) for pattern in patterns]
    output = torch.cat(
        [
            regions.solve(*of_group, None, problem.key_padding, (pattern,))[0]
            for pattern, *of_group in zip(
                patterns, *(x.split(sizes, dim=1) for x in (q, k, v)), strict=True
            )
        ],
        dim=1,
    )
    return (output[:, torch.tensor(order).argsort()] if moved else output), None


#: Added to the score of a forbidden key.  Twice this number is still finite: the softmax of minus
#: infinities is NaN, and so is its gradient.
_forbidden = functools.cache(lambda dtype: torch.finfo(dtype).min / 2)


def _mask(problem: AttentionProblem, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
    """Return what is added to the scores, and which queries may not attend to any key.

    Returns:
        bias, broadcastable to ``[b, h, n, m]``, and bool ``[b, 1 or h, n, 1]``, None = no
        query.
    """
    n, m = problem.q.size(2), problem.k.size(2)
    branch = problem.branches[0]
    if len(set(branch)) == 1:
        branch = branch[:1]
    if m > _KEPT:
        bias = _bias(branch, m, dtype)
    else:
        # Patterns depend on the offset only: the mask of a short sentence is a corner of that
        # of a longer one.
        bias = _kept_bias(branch, max(64, 1 << (m - 1).bit_length()), dtype)
    bias = bias[..., m - n : m, :m]  # [1, 1 or h, n, m]
    if problem.key_padding is None:
        return bias, None
    return _padded(bias, problem.key_padding, (branch, n, m, dtype))


def _bias(branch: Branch, m: int, dtype: torch.dtype) -> Tensor:
    """Return 0 where a head may attend, else forbidden, ``[1, 1 or h, m, m]``."""
    # A tensor made in inference mode could never be used for a gradient later.
    with torch.inference_mode(False):
        allowed = torch.stack([pattern.mask(m, m) for pattern in branch])
        return torch.zeros(allowed.shape, dtype=dtype).masked_fill_(~allowed, _forbidden(dtype))[
            None
        ]


_kept_bias = functools.lru_cache(maxsize=8)(_bias)


#: The last bias and padding that were joined, and the result: all layers of an encoder get the same
#: padding in turn.
_last: tuple[tuple, Tensor, tuple[Tensor, Tensor | None]] | None = None

#: The largest joined bias that is cached, in elements.
_LARGEST_KEPT = 2**22


def _padded(bias: Tensor, padding: Tensor, key: tuple) -> tuple[Tensor, Tensor | None]:
    """Forbid padded keys as well; return what :func:`_mask` returns.

    Args:
        bias: ``[1, 1 or h, n, m]``.
        padding: ``[b, m]``, True = padding.
        key: what the bias depends on.
    """
    global _last
    last = _last  # read once, since other threads may set it
    if last is not None and last[0] == key and torch.equal(last[1], padding):
        return last[2]
    with torch.inference_mode(False):
        padding = padding.clone()
        of_keys = torch.zeros(padding.shape, dtype=bias.dtype)
        of_keys.masked_fill_(padding, _forbidden(bias.dtype))
        joined = bias + of_keys[:, None, None]  # [b, 1 or h, n, m]
        empty = joined.amax(-1, keepdim=True) < 0
        found = joined, (empty if empty.any() else None)
    if joined.numel() <= _LARGEST_KEPT:
        _last = key, padding, found
    return found
