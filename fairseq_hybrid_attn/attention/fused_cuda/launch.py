"""All branches in one pass on a GPU: an attention kernel in Triton, an optional dependency.

No matrix of n x m ever reaches memory.  A short sentence takes one program and one launch a head,
forward and backward (``kernels/whole.py``), which keep nothing but q, k, v.  For longer ones, the
kernels compute each block of q k^T once and share it among the branches.  For a block of queries,
branches differ only in a narrow *zone* of offsets j - i around the bounds of their patterns:

* A branch sees all keys far to the left of the zone, or none.  They are gathered once, with their
  own maximum and sum (a maximum shared with other regions could over- or underflow).  The same
  holds for keys far to the right.
* Each branch starts from the sides that it sees.  Only the few blocks of the zone are then added
  branch by branch, each with its own maximum and sum.
* Blocks that no branch sees are skipped: a local pattern costs O(n).

The backward pass recomputes the weights from the log-sum-exps of the branches.  On a side, all
branches that see it have the same scores and the weights P_l = e^(s - lse_l).  With
c = min_l lse_l, their gradients are those of one attention with log-sum-exp c and the upstream
gradient sum_l e^(c - lse_l) dO_l.  A side therefore costs as much as one attention.

What is kept for each row has two entries for the sides (``SIDES``) after those of the branches.
Gradients are summed in a fixed order, without atomic operations.

A single branch shares nothing, and branches drop different weights: then everything that a branch
sees is the zone.  Random numbers of dropout are never kept: a seed and the place of a weight give
them again.

The kernels have been run in Triton's interpreter on a CPU, and compiled for NVIDIA GPUs on machines
without one.  **They were neither run nor timed on a GPU.**  Therefore each :class:`Variant` is used
only if it passes ``self_test.py`` on the present GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ...patterns import Band
from ..autograd import first_order
from ..problem import AttentionProblem, AttentionResult
from .bounds import HEADER, OPEN, bounds_table
from .philox import DropoutDraw

DTYPES = (torch.float16, torch.bfloat16, torch.float32)

#: Wider heads would not fit into registers.
WIDEST_HEAD = 128

#: As many bits as the kernels have for the dropout of a weight.
MOST_BRANCHES = 31

#: The longest sentence that a program computes as a whole, in half and in single precision.
LONGEST_WHOLE = (64, 32)

#: The entries of the two sides, left and right, follow those of the branches.
SIDES = 2


@dataclass(frozen=True)
class Variant:
    """What decides which kernels are compiled; the lengths stand for all with the same kernels."""

    dtype: torch.dtype
    branches: int
    d_k: int
    n: int
    m: int
    dropout: bool
    mixed: bool

    @classmethod
    def of(cls, problem: AttentionProblem) -> Variant:
        q, k = problem.q, problem.k
        whole, sizes = _is_whole(q, k), _sizes(q, k)
        n, m = (
            sizes[block] - 3 if whole or x.size(2) <= sizes[block] else 2 * sizes[block] + 6
            for x, block in ((q, "BLOCK_Q"), (k, "BLOCK_K"))
        )
        mixed = problem.mix is not None and whole
        return cls(q.dtype, len(problem.branches), q.size(-1), n, m, problem.dropout > 0, mixed)


def supports(problem: AttentionProblem) -> bool:
    """Whether the kernels are made for such a problem, on any device."""
    q, k, v = problem.q, problem.k, problem.v
    return (
        q.dtype in DTYPES
        and q.dtype == k.dtype == v.dtype
        and q.size(-1) == v.size(-1) <= WIDEST_HEAD
        and q.numel() > 0
        and k.size(2) < OPEN
        and len(problem.branches) <= MOST_BRANCHES
        and problem.dropout < 1
        and not problem.need_weights
        and problem.bias is None
        and all(isinstance(pattern, Band) for branch in problem.branches for pattern in branch)
    )


def fused_cuda(problem: AttentionProblem) -> AttentionResult:
    """Solve ``problem``, for which ``able`` must hold."""
    dropout = DropoutDraw.drawn(problem.dropout) if problem.dropout else None
    return AttentionResult(outputs=solve(problem, dropout))


def solve(problem: AttentionProblem, dropout: DropoutDraw | None) -> Tensor:
    """Return the outputs of an :class:`AttentionResult`, with this dropout."""
    q, k, v, mix = problem.q, problem.k, problem.v, problem.mix
    shared = dropout is None and len(problem.branches) > 1
    bounds = bounds_table(problem.branches, q.size(1), q.device, shared)
    given = (problem.key_padding, bounds, dropout)
    with torch.cuda.device_of(q):  # where Triton launches; no effect for a CPU
        if _is_whole(q, k):
            return _Whole.apply(q, k, v, mix, *given)
        trained = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))
        outputs = _Long.apply(q, k, v, *given, trained)
    return outputs if mix is None else (mix * outputs).sum(0, keepdim=True).to(outputs.dtype)


# --- autograd -------------------------------------------------------------------------------


class _Whole(torch.autograd.Function):
    """Branch outputs ``[l, b, h, n, d_k]``, or their sum if there is a mix."""

    @staticmethod
    def forward(ctx, q, k, v, mix, key_padding, bounds, dropout):
        from . import kernels  # needs Triton

        q, k, v = (_rows(x) for x in (q, k, v))
        n, b, h, d_k = q.shape
        branches = 1 if mix is not None else _branches(bounds)
        outputs = q.new_empty(branches, n, b, h, d_k)
        ctx.save_for_backward(q, k, v, mix, key_padding, bounds)
        ctx.dropout = dropout
        _launch(
            kernels.whole_forward_kernel,
            b * h,
            *(q, k, v, _padding(key_padding, q), bounds, q if mix is None else mix, outputs),
            *_mix_strides(mix, (_branches(bounds), b, h, n, 1)),
            *_numbers(q, k, key_padding, dropout),
            L=_branches(bounds),
            MIXED=mix is not None,
            DROPOUT=dropout is not None,
            **_sizes(_heads(q), _heads(k)),
        )
        return _heads(outputs)

    @staticmethod
    @first_order
    def backward(ctx, upstream):
        from . import kernels

        q, k, v, mix, key_padding, bounds = ctx.saved_tensors
        n, b, h, _ = q.shape
        shares = (_branches(bounds), b, h, n, 1)
        dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
        dmix = q if mix is None else mix.new_empty(shares)
        _launch(
            kernels.whole_backward_kernel,
            b * h,
            *(q, k, v, _padding(key_padding, q), bounds, q if mix is None else mix),
            *(_rows(upstream), dq, dk, dv, dmix, *_mix_strides(mix, shares)),
            *_numbers(q, k, key_padding, ctx.dropout),
            L=_branches(bounds),
            MIXED=mix is not None,
            DROPOUT=ctx.dropout is not None,
            **_sizes(_heads(q), _heads(k)),
        )
        dmix = dmix.sum_to_size(mix.shape) if ctx.needs_input_grad[3] else None
        return _heads(dq), _heads(dk), _heads(dv), dmix, None, None, None


class _Long(torch.autograd.Function):
    """Branch outputs ``[l, b, h, n, d_k]``."""

    @staticmethod
    def forward(ctx, q, k, v, key_padding, bounds, dropout, trained):
        from . import kernels

        q, k, v = (_rows(x) for x in (q, k, v))
        (n, b, h, d_k), branches = q.shape, _branches(bounds)
        outputs = q.new_empty(branches, n, b, h, d_k)
        # What the outputs lose by rounding to half precision.  The gradients of sharp
        # distributions need it, since they multiply it by large differences of values.
        rounded = trained and not _is_single(q)
        rest = torch.empty_like(outputs) if rounded else outputs
        lse = q.new_empty(branches + SIDES, b * h, n, dtype=torch.float32)
        ctx.save_for_backward(q, k, v, key_padding, bounds, outputs, rest, lse)
        ctx.dropout = dropout
        sizes = _sizes(_heads(q), _heads(k))
        _launch(
            kernels.forward_kernel,
            _blocks(n, sizes["BLOCK_Q"]) * b * h,
            *(q, k, v, _padding(key_padding, q), bounds, outputs, rest, lse),
            *_numbers(q, k, key_padding, dropout),
            L=branches,
            SHARED=branches > 1 and dropout is None,
            DROPOUT=dropout is not None,
            ROUNDED=rounded,
            **sizes,
        )
        return _heads(outputs)

    @staticmethod
    @first_order
    def backward(ctx, upstream):
        from . import kernels

        q, k, v, key_padding, bounds, outputs, rest, lse = ctx.saved_tensors
        (n, b, h, d_k), branches = q.shape, _branches(bounds)
        upstream = _rows(upstream)
        shared = branches > 1 and ctx.dropout is None
        sides = upstream.new_empty(SIDES, n, b, h, d_k) if shared else upstream
        delta = torch.empty_like(lse)
        sizes = _sizes(_heads(q), _heads(k)) | {"L": branches, "SHARED": shared}
        numbers = _numbers(q, k, key_padding, ctx.dropout)
        query_blocks = _blocks(n, sizes["BLOCK_Q"]) * b * h
        _launch(
            kernels.rows_kernel,
            query_blocks,
            *(outputs, rest, upstream, bounds, lse, delta, sides),
            *(b * h, h, n),
            ROUNDED=not _is_single(q),
            **{name: size for name, size in sizes.items() if name != "BLOCK_K"},
        )
        given = (q, k, v, _padding(key_padding, q), bounds, upstream, sides, lse, delta)
        dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
        sizes["DROPOUT"] = ctx.dropout is not None
        _launch(kernels.query_gradient_kernel, query_blocks, *given, dq, *numbers, **sizes)
        key_blocks = _blocks(k.size(0), sizes["BLOCK_K"]) * b * h
        _launch(kernels.key_gradient_kernel, key_blocks, *given, dk, dv, *numbers, **sizes)
        return _heads(dq), _heads(dk), _heads(dv), None, None, None, None


def _launch(kernel, programs: int, *given, **sizes) -> None:
    kernel[(programs,)](*given, **sizes)


def _rows(x: Tensor) -> Tensor:
    """``[l, b, h, n, d_k]`` -> ``[l, n, b, h, d_k]``, as projections make it: rarely a copy."""
    return x.movedim(-2, -4).contiguous()


def _heads(x: Tensor) -> Tensor:
    """The inverse of :func:`_rows`, always a view."""
    return x.movedim(-4, -2)


def _branches(bounds: Tensor) -> int:
    return (bounds.size(1) - HEADER) // 2


def _padding(key_padding: Tensor | None, q: Tensor) -> Tensor:
    """Return key padding as bytes; without padding, a tensor that is not read."""
    return (q if key_padding is None else key_padding.contiguous()).view(torch.uint8)


def _mix_strides(mix: Tensor | None, shape: tuple[int, ...]) -> tuple[int, ...]:
    return (0, 0, 0, 0) if mix is None else mix.expand(shape).stride()[:4]


def _numbers(q, k, key_padding, dropout) -> tuple:
    """The numbers that all kernels for q and k take, as in their signatures."""
    n, b, h, _ = q.shape
    m = k.size(0)
    return (0 if key_padding is None else m, b * h, h, n, m, *(dropout or (0, 0, 1.0)))


def _is_whole(q: Tensor, k: Tensor) -> bool:
    return max(q.size(2), k.size(2)) <= LONGEST_WHOLE[_is_single(q)]


def _is_single(q: Tensor) -> bool:
    return q.dtype == torch.float32


def _sizes(q: Tensor, k: Tensor) -> dict:
    """Return the sizes that are compiled into the kernels, for ``[b, h, n, d_k]``.

    They were chosen by what the compiler for capabilities 8.0 and 9.0 fits into registers.
    ``tests/helpers/compile_kernels.py`` prints it.
    """
    d_k = q.size(-1)
    d = max(16, _power_of_two(d_k))  # matrix units need 16 at least
    block = 64 if _is_whole(q, k) and max(q.size(2), k.size(2)) > 32 else 32
    large = _is_single(q) or block * d > 32 * 64
    return {
        "DK": d_k,
        "D": d,
        "BLOCK_Q": block,
        "BLOCK_K": block,
        "num_warps": 8 if large else 4,
        "num_stages": 1 if _is_single(q) else 2,  # blocks of keys loaded ahead
    }


def _blocks(length: int, size: int) -> int:
    return -(-length // size)


def _power_of_two(number: int) -> int:
    """Return the smallest power of two that is not less."""
    return 1 << (number - 1).bit_length()
