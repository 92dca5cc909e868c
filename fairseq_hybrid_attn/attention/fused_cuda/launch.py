"""All branches in one pass on a GPU: an attention kernel in Triton, an optional dependency.

The kernels compute each block of q k^T once and share it among the branches; no matrix of n x m
ever reaches memory.  For a block of queries, branches differ only in a narrow *zone* of offsets
j - i around the bounds of their patterns.  This makes them cheap:

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

The kernels have been run in Triton's interpreter on a CPU, and compiled for NVIDIA GPUs on machines
without one.  **They were neither run nor timed on a GPU**, and the block sizes are guesses.
Therefore each kernel, as compiled for a type, width, number of branches and block size, is used
only if it passes a self-test on the present GPU.
"""

from __future__ import annotations

import importlib.util
import logging
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from ...patterns import FUTURE, GLOBAL, PAST, Band, local
from ..autograd import first_order
from ..problem import AttentionProblem, AttentionResult
from ..reference import reference
from .bounds import HEADER, OPEN, bounds_table

logger = logging.getLogger(__name__)

DTYPES = (torch.float16, torch.bfloat16, torch.float32)

#: The largest error that passes the self-test.
TOLERANCE = {torch.float32: 2e-4, torch.float16: 2e-2, torch.bfloat16: 0.15}

#: With several branches, wider heads would not fit into registers.
WIDEST_HEAD = 128

#: The entries of the two sides, left and right, follow those of the branches.
SIDES = 2


def fused_cuda(problem: AttentionProblem) -> AttentionResult:
    """Solve ``problem``, for which :func:`able` must hold."""
    bounds = bounds_table(problem.branches, problem.q.size(1), problem.q.device)
    with torch.cuda.device_of(problem.q):  # where Triton launches; no effect for a CPU
        outputs = _Fused.apply(problem.q, problem.k, problem.v, problem.key_padding, bounds)
    if problem.mix is not None:
        outputs = (problem.mix * outputs).sum(dim=0, keepdim=True).to(outputs.dtype)
    return AttentionResult(outputs=outputs)


def able(problem: AttentionProblem) -> bool:
    """Whether the kernels can solve ``problem`` on its device."""
    return (
        problem.q.is_cuda
        and _triton_is_there()
        and supports(problem)
        and _works(problem.q.device, problem.q.dtype, _shape(problem))
    )


#: Used wherever it works: on a GPU, every other path launches more kernels.  Not measured.
applies = able


def supports(problem: AttentionProblem) -> bool:
    """Whether the kernels are made for such a problem, on any device."""
    q, k, v = problem.q, problem.k, problem.v
    return (
        q.dtype in DTYPES
        and q.dtype == k.dtype == v.dtype
        and q.size(-1) == v.size(-1) <= WIDEST_HEAD
        and q.numel() > 0
        and k.size(2) < OPEN
        and not problem.dropout
        and not problem.need_weights
        and problem.bias is None
        and all(isinstance(pattern, Band) for branch in problem.branches for pattern in branch)
    )


# --- autograd -------------------------------------------------------------------------------


class _Fused(torch.autograd.Function):
    """Branch outputs ``[l, b, h, n, d_k]`` from q, k, v, key padding and bounds."""

    @staticmethod
    def forward(ctx, q, k, v, key_padding, bounds):
        from . import kernels  # needs Triton

        q, k, v = (_unit_stride(x) for x in (q, k, v))
        b, h, n, d_k = q.shape
        branches = (bounds.size(1) - HEADER) // 2
        # Heads side by side, as the layer needs them: joining them copies nothing.
        outputs = torch.empty(branches, b, n, h, d_k, dtype=v.dtype, device=v.device)
        outputs = outputs.transpose(2, 3)
        # What the outputs lose by rounding to half precision.  The gradients of sharp
        # distributions need it, since they multiply it by large differences of values.
        rounded = v.dtype != torch.float32 and any(ctx.needs_input_grad)
        rest = torch.empty_like(outputs) if rounded else outputs
        lse = torch.empty(branches + SIDES, b * h, n, dtype=torch.float32, device=q.device)
        sizes = _sizes(q, k, branches, key_padding)
        padding, padding_strides = _padding(key_padding, q)
        kernels.forward_kernel[(_blocks(n, sizes["BLOCK_Q"]) * b * h,)](
            *(q, k, v, padding, bounds, outputs, rest, lse),
            *(*q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *padding_strides),
            *(*outputs.stride()[:4], bounds.stride(0)),
            *(b * h, h, n, k.size(2)),
            ROUNDED=rounded,
            **sizes,
        )
        ctx.save_for_backward(q, k, v, key_padding, bounds, outputs, rest, lse)
        return outputs

    @staticmethod
    @first_order
    def backward(ctx, upstream):
        from . import kernels

        q, k, v, key_padding, bounds, outputs, rest, lse = ctx.saved_tensors
        upstream = _unit_stride(upstream)
        b, h, n, d_k = q.shape
        m = k.size(2)
        branches = outputs.size(0)
        delta = torch.empty_like(lse)
        # With a single branch, the sides gather that branch itself.
        sides = upstream
        if branches > 1:
            sides = torch.empty(SIDES, b, h, n, d_k, dtype=upstream.dtype, device=q.device)
        sizes = _sizes(q, k, branches, key_padding)
        padding, padding_strides = _padding(key_padding, q)
        common = (b * h, h, n, m)
        query_blocks = _blocks(n, sizes["BLOCK_Q"]) * b * h
        key_blocks = _blocks(m, sizes["BLOCK_K"]) * b * h
        kernels.rows_kernel[(query_blocks,)](
            *(outputs, rest, upstream, bounds, lse, delta, sides),
            *(*outputs.stride()[:4], *upstream.stride()[:4], *sides.stride()[:4]),
            *(bounds.stride(0), b * h, h, n),
            ROUNDED=v.dtype != torch.float32,
            **{key: sizes[key] for key in ("L", "DK", "D", "BLOCK_Q", "num_warps")},
        )
        given = (q, k, v, padding, bounds, upstream, sides, lse, delta)
        strides = (
            *(*q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *padding_strides),
            *(*upstream.stride()[:4], *sides.stride()[:4], bounds.stride(0)),
        )
        dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
        kernels.query_gradient_kernel[(query_blocks,)](
            *given, dq, *strides, *dq.stride()[:3], *common, **sizes
        )
        kernels.key_gradient_kernel[(key_blocks,)](
            *given, dk, dv, *strides, *dk.stride()[:3], *dv.stride()[:3], *common, **sizes
        )
        return dq, dk, dv, None, None


def _blocks(length: int, size: int) -> int:
    return -(-length // size)


def _power_of_two(number: int) -> int:
    """Return the smallest power of two that is not less."""
    return 1 << (number - 1).bit_length()


def _unit_stride(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


def _padding(key_padding: Tensor | None, q: Tensor) -> tuple[Tensor, tuple[int, int]]:
    """Return key padding as bytes, and its strides; without padding, a tensor that is not read."""
    if key_padding is None:
        return q, (0, 0)
    key_padding = key_padding.view(torch.uint8)
    return key_padding, key_padding.stride()


def _sizes(q: Tensor, k: Tensor, branches: int, key_padding: Tensor | None) -> dict:
    """Return the sizes that are compiled into the kernels.

    They are not tuned, since no GPU was available.  They are so large that registers, as the
    compiler for capability 9.0 counts them, hold almost everything.
    ``tests/helpers/compile_kernels.py`` prints the counts.
    """
    d_k = q.size(-1)
    d = max(16, _power_of_two(d_k))  # matrix units need 16 at least
    longest = 32 if q.dtype == torch.float32 or d > 64 else 64
    block_q = min(longest, max(16, _power_of_two(q.size(2))))
    block_k = min(longest, max(16, _power_of_two(k.size(2))))
    return {
        "L": branches,
        "DK": d_k,
        "D": d,
        "PADDED": key_padding is not None,
        "BLOCK_Q": block_q,
        "BLOCK_K": block_k,
        "num_warps": 8 if block_q * block_k * d >= 64 * 64 * 64 or d > 64 else 4,
    }


# --- self-test ------------------------------------------------------------------------------


@cache
def _triton_is_there() -> bool:
    return importlib.util.find_spec("triton") is not None


@dataclass(frozen=True)
class _Shape:
    """What decides which kernels are compiled; the lengths stand for all with the same kernels."""

    branches: int
    d_k: int
    n: int
    m: int
    padded: bool


def _shape(problem: AttentionProblem) -> _Shape:
    l = len(problem.branches)  # noqa: E741
    sizes = _sizes(problem.q, problem.k, l, problem.key_padding)
    n = _typical_length(problem.q.size(2), sizes["BLOCK_Q"])
    m = _typical_length(problem.k.size(2), sizes["BLOCK_K"])
    return _Shape(l, sizes["DK"], n, m, sizes["PADDED"])


def _typical_length(length: int, block: int) -> int:
    """Return a length with the same block size: within one block, or over several."""
    return block - 3 if length <= block else 2 * block + 6


@cache
def _works(device: torch.device, dtype: torch.dtype, shape: _Shape) -> bool:
    """Compile, run and compare with the reference, once for each kernel on each GPU."""
    try:
        fault = _self_test(device, dtype, shape)
    except Exception as error:  # a compiler and a driver may raise anything
        fault = f"{type(error).__name__}: {error}"
    if fault:
        logger.warning(
            "the fused kernel is not used on %s for %s, %s: %s", device, dtype, shape, fault
        )
    return not fault


@torch.inference_mode(False)
@torch.enable_grad()
def _self_test(device: torch.device, dtype: torch.dtype, shape: _Shape) -> str | None:
    """Return what is wrong with outputs and gradients, or None; branches and heads differ."""
    generator = torch.Generator().manual_seed(0)
    some = (GLOBAL, PAST, FUTURE, local(5), local(1))
    branches = tuple((some[i % 5], some[(i + 1) % 5]) for i in range(shape.branches))
    padding = None
    if shape.padded:
        padding = torch.zeros(1, shape.m, dtype=torch.bool, device=device)
        padding[0, : shape.m // 2] = True
    q, k, v, upstream = (
        torch.randn(1, 2, length, shape.d_k, generator=generator).to(device, dtype)
        for length in (shape.n, shape.m, shape.m, shape.n)
    )
    results = []
    with torch.autocast(device.type, enabled=False):
        for compute, kind in ((reference, torch.float64), (fused_cuda, dtype)):
            leaves = [x.to(kind).requires_grad_() for x in (q, k, v)]
            given = AttentionProblem(
                q=leaves[0] * 0.5,
                k=leaves[1],
                v=leaves[2],
                branches=branches,
                key_padding=padding,
            )
            outputs = compute(given).outputs
            gradients = torch.autograd.grad((outputs * upstream.to(kind)).sum(), leaves)
            with torch.no_grad():  # another kernel in half precision
                untrained = compute(given).outputs
            results.append([outputs, untrained, *gradients])
    names = ("output", "output without gradient", "dq", "dk", "dv")
    for name, want, got in zip(names, *results, strict=True):
        worst = (got - want).abs().max().item()
        if not worst <= TOLERANCE[dtype]:  # also catches NaN
            return f"{name} of the self-test is off by {worst:.1e}"
    return None
