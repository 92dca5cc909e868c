"""Several branches over sentences of middle length, in blocks of queries (path ``blocks``).

In each branch, all queries of a block see a key on one *side*, far from the block, or none of them
do.  Only in a narrow *zone* around the diagonal do queries of a block see different keys.  The
scores of a block are therefore computed once, with one softmax P.  Every side is multiplied with
its values once, for all branches that see it.  Only the zone is masked branch by branch, with
masks M_b::

    Z_b      = sum over b's sides of P + sum over the zone of P M_b
    output_b = (sum over b's sides of P V + (P M_b) V in the zone) / Z_b

This is the definition with the normalisation of each branch moved to the end.  It costs about as
much arithmetic as one attention.  The gradient is that of the softmax, written by hand.  The only
matrix of n x m that it needs is P, which is saved, or recomputed if it is large.

A branch whose keys have almost no share in P would lose digits.  ``Z_b`` shows this, and
:mod:`.short`, which gives each branch its own softmax, then solves the problem.

Shape letters as in ``problem.py``, and

========  =========================================================
``B``     heads of sentences that are computed together
``p``     queries of a panel, which is one or more blocks
``r``     queries of a block
``z``     keys of a block's zone
========  =========================================================
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor

from ..patterns import Pattern
from .autograd import first_order
from .block_layout import layout
from .problem import AttentionProblem, AttentionResult
from .short import SMALLEST_SUM, short

logger = logging.getLogger(__name__)

#: The minimum number of keys at which this is faster than ``short``: for separate branches, and for
#: mixed ones, which ``short`` adds up before it multiplies them with the values.
SHORTEST, SHORTEST_MIXED = 96, 384

#: The maximum number of scores that are computed together.
CHUNK = 2**21

#: Up to this number, scores are kept for the gradient, not recomputed.
SMALL = 2**22


def blocks(problem: AttentionProblem) -> AttentionResult:
    """Solve ``problem``, for which :func:`able` must hold."""
    dtype = problem.v.dtype
    # On a CPU, half precision is for storage; computing in single precision loses nothing.
    work = torch.promote_types(dtype, torch.float32)
    with torch.autocast(problem.q.device.type, enabled=False):
        outputs = solve(
            *(x.to(work) for x in (problem.q, problem.k, problem.v)),
            problem.key_padding,
            tuple(branch[0] for branch in problem.branches),
        )
        if outputs is None:
            _tell_once()
            return short(problem)
        if problem.mix is not None:
            outputs = (problem.mix.to(work) * outputs).sum(dim=0, keepdim=True)
    return AttentionResult(outputs=outputs.to(dtype))


@cache
def _tell_once() -> None:
    logger.info("path blocks leaves problems with very small shares to path short")


def able(problem: AttentionProblem) -> bool:
    """Whether this path can solve ``problem``.

    Not with dropout: branches that share a side would drop the same weights in it, but each must
    draw its own.
    """
    return (
        problem.dropout == 0
        and problem.bias is None
        and not problem.need_weights
        and problem.q.numel() > 0
        and all(len(set(branch)) == 1 for branch in problem.branches)
    )


def applies(problem: AttentionProblem) -> bool:
    """Whether this path can solve ``problem`` and is the fastest."""
    shortest = SHORTEST if problem.mix is None else SHORTEST_MIXED
    return problem.k.size(2) >= shortest and problem.q.device.type == "cpu" and able(problem)


def solve(
    q: Tensor, k: Tensor, v: Tensor, padding: Tensor | None, patterns: tuple[Pattern, ...]
) -> Tensor | None:
    """Return the outputs of the problem, ``[l, b, h, n, d_k]``, with one pattern for each branch.

    None if the share of a branch is too small to be computed exactly.
    """
    if padding is not None and not padding.any():
        padding = None
    trained = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))
    with torch.no_grad():
        found = _forward(q, k, v, padding, patterns, keep=trained)
    if found is None:
        return None
    if not trained:
        return found[0]
    return _Blocks.apply(q, k, v, padding, patterns, *found)


class _Blocks(torch.autograd.Function):
    """Gives a computed result its gradient."""

    @staticmethod
    def forward(ctx, q, k, v, padding, patterns, outputs, inverse, shares):
        ctx.save_for_backward(q, k, v, padding, outputs, inverse, *shares)
        ctx.patterns = patterns
        return outputs

    @staticmethod
    @first_order
    def backward(ctx, grads):
        q, k, v, padding, outputs, inverse, *shares = ctx.saved_tensors
        gradients = _backward(q, k, v, padding, ctx.patterns, outputs, inverse, shares, grads)
        return *gradients, None, None, None, None, None


def _forward(q, k, v, padding, patterns, *, keep) -> tuple[Tensor, Tensor, list[Tensor]] | None:
    """Return outputs, 1 / Z as ``[b, h, l, n, 1]``, and with ``keep`` each panel's P if small."""
    (b, h, n, d), m, l = q.shape, k.size(2), len(patterns)  # noqa: E741
    # Heads side by side, as the layer needs them: joining them copies nothing.
    outputs = v.new_empty(l, b, n, h, d).permute(1, 3, 0, 2, 4)
    inverse = v.new_empty(b, h, l, n, 1)
    panels = layout(patterns, n, m, q.dtype, q.device)
    kept, keep = [], keep and b * h * n * m <= SMALL
    for at in _chunks(b, h, n, m):
        q_at, k_at, v_at = (_rows(x[at]) for x in (q, k, v))
        real = _real(padding, at, h, q)
        for panel in panels:
            shares = panel.shares(q_at, k_at, real)
            if keep:
                kept.append(shares)
            for block in panel.blocks:
                zone = block.masked(shares)
                gathered = torch.bmm(zone.flatten(1, 2), v_at[:, block.zone])
                gathered = gathered.view(*zone.shape[:3], d)
                total = zone.sum(dim=-1, keepdim=True)  # Z, [B, l, r, 1]
                for side in block.sides:
                    part = shares[:, block.places, side.columns]
                    product = torch.bmm(part, v_at[:, side.keys])
                    whole = part.sum(dim=-1, keepdim=True)
                    for branch in side.branches:
                        gathered[:, branch] += product
                        total[:, branch] += whole
                if total.min() < SMALLEST_SUM:
                    unseen = ~block.sees(real)
                    if not total.masked_fill(unseen, 1.0).min() >= SMALLEST_SUM:
                        return None
                    total.masked_fill_(unseen, torch.inf)  # so that 1 / Z is 0
                here = (*at, slice(None), block.rows)
                factor = total.reciprocal_().view(inverse[here].shape)
                torch.mul(gathered.view(outputs[here].shape), factor, out=outputs[here])
                inverse[here] = factor
    return outputs.permute(2, 0, 1, 3, 4), inverse, kept


def _backward(q, k, v, padding, patterns, outputs, inverse, kept, grads):
    """Return the gradients of q, k and v.

    With g_b the gradient of output b over Z_b, and delta_b = g_b . output_b, a score has the
    gradient sum_b M_b P (g_b . v_j - delta_b); branches that see a side are summed first.
    """
    (b, h, n, _), m = q.shape, k.size(2)
    of_q, of_k, of_v = (
        torch.zeros_like(x, memory_format=torch.contiguous_format) for x in (q, k, v)
    )
    grads, outputs = (x.permute(1, 2, 0, 3, 4) for x in (grads, outputs))
    kept = iter(kept)
    for at in _chunks(b, h, n, m):
        q_at, k_at, v_at, of_q_at, of_k_at, of_v_at = (
            _rows(x[at]) for x in (q, k, v, of_q, of_k, of_v)
        )
        real = _real(padding, at, h, q)
        for panel in layout(patterns, n, m, q.dtype, q.device):
            shares = next(kept, None)
            if shares is None:
                shares = panel.shares(q_at, k_at, real)
            of_scores = torch.empty_like(shares)
            for block in panel.blocks:
                here = (*at, slice(None), block.rows)
                g = grads[here].mul(inverse[here])
                delta = torch.linalg.vecdot(g, outputs[here]).unsqueeze(-1)
                g, delta = g.flatten(0, 1), delta.flatten(0, 1)  # [B, l, r, d_k or 1]
                for side in block.sides:
                    branches = side.branches
                    side_g = _sum([g[:, branch] for branch in branches])
                    side_delta = _sum([delta[:, branch] for branch in branches])
                    part = shares[:, block.places, side.columns]
                    slopes = torch.bmm(side_g, v_at[:, side.keys].mT).sub_(side_delta)
                    torch.mul(slopes, part, out=of_scores[:, block.places, side.columns])
                    of_v_at[:, side.keys] += torch.bmm(part.mT, side_g)
                zone, g = block.masked(shares), g.flatten(1, 2)
                slopes = torch.bmm(g, v_at[:, block.zone].mT).view(zone.shape)
                slopes = slopes.sub_(delta).mul_(zone)
                torch.sum(slopes, dim=1, out=of_scores[:, block.places, block.columns])
                of_v_at[:, block.zone] += torch.bmm(zone.flatten(1, 2).mT, g)
                for columns in block.nobody:
                    of_scores[:, block.places, columns] = 0
            torch.bmm(of_scores, k_at[:, panel.keys], out=of_q_at[:, panel.rows])
            of_k_at[:, panel.keys] += torch.bmm(of_scores.mT, q_at[:, panel.rows])
    return of_q, of_k, of_v


def _sum(tensors: list[Tensor]) -> Tensor:
    total = tensors[0]
    for tensor in tensors[1:]:
        total = total + tensor
    return total


def _rows(x: Tensor) -> Tensor:
    """``[sentences, heads, n, d_k]`` -> ``[B, n, d_k]``; a view if possible."""
    return x.flatten(0, 1)


def _real(padding: Tensor | None, at: tuple[slice, slice], heads: int, like: Tensor):
    """1 for a token and 0 for padding, ``[B, 1, m]``; None without padding."""
    if padding is None:
        return None
    real = (~padding[at[0]]).to(like.dtype).unsqueeze(1)
    return real.repeat_interleave(len(range(*at[1].indices(heads))), dim=0)


def _chunks(b: int, h: int, n: int, m: int) -> Iterator[tuple[slice, slice]]:
    """Yield the sentences and heads to compute together."""
    fitting = max(1, CHUNK // (n * m))
    heads, sentences = min(h, fitting), max(1, fitting // h)
    for first in range(0, b, sentences):
        for head in range(0, h, heads):
            yield slice(first, first + sentences), slice(head, head + heads)
