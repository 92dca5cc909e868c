"""Attention over long sentences: each region of the score matrix once, then merged (``regions``).

All branches of the papers are unions of a few regions::

    past    keys up to the query         a causal mask
    ahead   keys after the query         a causal mask over the reversed sentence
    own     the query's own key
    whole   all keys                     if no branch needs a half alone
    near    keys within a band           cut into blocks, see banded.py

    global = past + ahead (or whole),  past = past,  future = own + ahead,  local = near

Each region is computed once, with its own maximum and log-sum-exp, by a kernel that never holds
its scores.  The output of a branch is the sum of its regions' outputs, each times
exp(lse of the region - lse of the branch).  All branches together need about the arithmetic and
the memory of a single attention.  One maximum for all branches would not work: a branch with
scores far below another's would underflow.

The heads of a branch may have different patterns (MMA).  Those of one pattern are then computed
together, on little more than the keys that it allows.

With sentences of 512 tokens, a whole training step takes 30 % less time than by ``short`` for
HySAN e1, and 10 % less for MMA.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor
from torch.linalg import vecdot

from ..patterns import Band
from . import flash
from .autograd import first_order
from .problem import AttentionProblem, AttentionResult, Branch
from .region_layout import Layout, known

#: ``short`` is as fast for shorter sentences.
SHORTEST = 256
#: Rounding does not cancel within a row here.  In very short sentences, it would be too large a
#: part of the small gradients.
SHORTEST_ABLE = 16


def regions(problem: AttentionProblem) -> AttentionResult:
    """Solve ``problem``, for which :func:`able` must hold."""
    dtype, inner = problem.v.dtype, _inner(problem)
    mix = None if problem.mix is None else problem.mix.to(inner)
    with torch.autocast(problem.q.device.type, enabled=False):
        given = [x.to(inner) for x in (problem.q, problem.k, problem.v)]
        if all(len(set(branch)) == 1 for branch in problem.branches):
            patterns = tuple(branch[0] for branch in problem.branches)
            outputs = solve(*given, mix, problem.key_padding, patterns)
        else:
            outputs = _by_heads(*given, problem.key_padding, problem.branches[0]).unsqueeze(0)
            outputs = outputs if mix is None else mix * outputs
    return AttentionResult(outputs=outputs.to(dtype))


def _by_heads(q: Tensor, k: Tensor, v: Tensor, padding: Tensor | None, branch: Branch) -> Tensor:
    """Return the output of a branch with a pattern for each head, ``[b, h, n, d_k]``."""
    patterns = list(dict.fromkeys(branch))
    order = sorted(range(len(branch)), key=lambda head: patterns.index(branch[head]))
    moved = order != list(range(len(branch)))  # if equal patterns are neighbours, nothing moves
    if moved:
        q, k, v = (x[:, order] for x in (q, k, v))
    sizes = [branch.count(pattern) for pattern in patterns]
    groups = zip(patterns, *(x.split(sizes, dim=1) for x in (q, k, v)), strict=True)
    outputs = [solve(*its, None, padding, (pattern,))[0] for pattern, *its in groups]
    output = torch.cat(outputs, dim=1)
    return output[:, torch.tensor(order).argsort()] if moved else output


def solve(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mix: Tensor | None,
    padding: Tensor | None,
    patterns: tuple[Band, ...],
) -> Tensor:
    """Return the outputs of the problem with one pattern for each branch; n = m."""
    # The kernel needs the numbers of a row to be contiguous in memory.
    q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
    return _Merged.apply(q, k, v, mix, padding, patterns)


def able(problem: AttentionProblem) -> bool:
    """Whether this path can solve ``problem``.

    Not with dropout: branches that share a region would drop the same weights in it, but each
    must draw its own.
    """
    n, m = problem.q.size(2), problem.k.size(2)
    return (
        n == m >= SHORTEST_ABLE
        and problem.dropout == 0
        and problem.bias is None
        and not problem.need_weights
        and (len(problem.branches) == 1 or all(len(set(its)) == 1 for its in problem.branches))
        and all(known(pattern) for branch in problem.branches for pattern in branch)
        and flash.available(problem.q.new_empty(0, dtype=_inner(problem)))
    )


def applies(problem: AttentionProblem) -> bool:
    """Whether this path can solve ``problem`` and is the fastest."""
    return problem.q.size(2) >= SHORTEST and able(problem)


def _inner(problem: AttentionProblem) -> torch.dtype:
    """On a CPU, half precision is for storage; computing in single precision loses nothing."""
    return torch.promote_types(problem.v.dtype, torch.float32)


class _Merged(torch.autograd.Function):
    """From q, k, v (and mix) to the outputs, with the gradient written by hand.

    With o_r and lse_r of region r, w_br = exp(lse_r - lse_b), and c_br = mix_b w_br, or w_br
    without mix:

        output_b = sum_r c_br o_r        (with mix, also summed over b)

    A score of region r, with probability p_ij *within the region*, has the gradient

        sum_b c_br p_ij (grad_b . v_j - t_b)   with t_b = grad_b . (sum_r w_br o_r)
        = p_ij (grad_r . v_j - delta_r)        with grad_r = sum_b c_br grad_b,
                                                    delta_r = sum_b c_br t_b

    Each region therefore needs one backward pass, with grad_r and delta_r.
    """

    @staticmethod
    def forward(ctx, q, k, v, mix, padding, branches):
        if padding is not None and not padding.any():
            padding = None
        layout = Layout.of(branches, q.size(2))
        found = [
            [region.forward(*region.cut(q, k, v, padding)) for region in layer]
            for layer in layout.layers
        ]
        shares = _shares(layout, found, padding, q)  # w, [l, layers, b, h, n]
        amounts, members = shares, layout.members
        if mix is not None:
            amounts = _times(mix, shares).sum(0, keepdim=True)
            members = (range(len(layout.layers)),)
        outputs = q.new_zeros(len(members), *q.shape)
        for output, amount, layers in zip(outputs, amounts, members, strict=True):
            for i in layers:
                for region, (o_r, _) in zip(layout.layers[i], found[i], strict=True):
                    rows = region.queries
                    output[:, :, rows].addcmul_(o_r, amount[i, :, :, rows, None])
        ctx.layout = layout
        ctx.save_for_backward(
            q,
            k,
            v,
            mix,
            padding,
            shares,
            outputs if mix is None else None,
            *(tensor for layer in found for pair in layer for tensor in pair),
        )
        return outputs

    @staticmethod
    @first_order
    def backward(ctx, grads):
        q, k, v, mix, padding, shares, outputs, *rest = ctx.saved_tensors
        layout, rest = ctx.layout, iter(rest)
        found = [[(next(rest), next(rest)) for _ in layer] for layer in layout.layers]
        if mix is None:
            amounts = shares  # c, [l, layers, b, h, n]
            t = torch.stack([vecdot(g, o) for g, o in zip(grads, outputs, strict=True)])
        else:
            amounts = _times(mix, shares)
            t_of_layers = torch.zeros_like(shares[0])
            for layer, results, t_r in zip(layout.layers, found, t_of_layers, strict=True):
                for region, (o_r, _) in zip(layer, results, strict=True):
                    rows = region.queries
                    t_r[:, :, rows] = vecdot(grads[0, :, :, rows], o_r)
            t = (shares * t_of_layers).sum(1)  # [l, b, h, n]
        totals = [torch.zeros_like(x, memory_format=torch.contiguous_format) for x in (q, k, v)]
        for i, layer in enumerate(layout.layers):
            users = [branch for branch, layers in enumerate(layout.members) if i in layers]
            merged = any(len(layout.members[branch]) > 1 for branch in users)
            amount = [amounts[branch, i] for branch in users]
            delta = sum(c * t[branch] for c, branch in zip(amount, users, strict=True))
            if mix is None:
                grad = _weighted_sum(amount, [grads[branch] for branch in users])
            else:
                grad = _weighted_sum([sum(amount)], grads)
            stand_in = flash.stand_in(grad, delta) if merged else None
            for region, (o_r, lse_r) in zip(layer, found[i], strict=True):
                rows = region.queries
                parts = region.backward(
                    grad[:, :, rows],
                    delta[:, :, rows],
                    stand_in[:, :, rows] if merged else o_r,
                    lse_r,
                    *region.cut(q, k, v, padding),
                )
                places = (rows, region.keys, region.keys)
                for total, part, place in zip(totals, parts, places, strict=True):
                    total[:, :, place].add_(part)
        grad_mix = None if mix is None else t.unsqueeze(-1).sum_to_size(mix.shape)
        return *totals, grad_mix, None, None


def _weighted_sum(weights: Sequence[Tensor], tensors: Sequence[Tensor]) -> Tensor:
    """Return the sum of weights ``[b, h, n]`` times tensors ``[b, h, n, d_k]``."""
    total = weights[0].unsqueeze(-1) * tensors[0]
    for weight, tensor in zip(weights[1:], tensors[1:], strict=True):
        total.addcmul_(weight.unsqueeze(-1), tensor)
    return total


def _times(mix: Tensor, shares: Tensor) -> Tensor:
    """mix ``[l, b, 1 or h, n, 1]`` times shares ``[l, layers, b, h, n]``."""
    return mix.squeeze(-1).unsqueeze(1) * shares


def _shares(
    layout: Layout, found: list[list[tuple[Tensor, Tensor]]], padding: Tensor | None, q: Tensor
) -> Tensor:
    """Return w_br = exp(lse_r - lse_b), 0 for layers of other branches, ``[l, layers, b, h, n]``.

    Args:
        found: output and log-sum-exp of each region of each layer.
    """
    merged = {i for members in layout.members if len(members) > 1 for i in members}
    lse = q.new_full((len(layout.layers), *q.shape[:3]), -torch.inf)
    for i in merged:
        for region, (_, lse_r) in zip(layout.layers[i], found[i], strict=True):
            if padding is not None:  # for a row that sees nothing, the kernel returns 0
                seen = region.seen(~padding[:, region.keys])
                lse_r = lse_r.masked_fill(~seen.unsqueeze(1), -torch.inf)
            lse[i, :, :, region.queries] = lse_r
    shares = torch.zeros_like(lse.expand(len(layout.members), *lse.shape))
    for share, members in zip(shares, layout.members, strict=True):
        if len(members) == 1:
            share[members[0]] = 1
            continue
        its_lse = [lse[i] for i in members]
        # Finite even where nothing is seen, so that all shares are 0 there.
        top = reduce(torch.maximum, its_lse).clamp_min(torch.finfo(q.dtype).min)
        weights = [(x - top).exp_() for x in its_lse]
        whole = sum(weights).clamp_min_(torch.finfo(q.dtype).tiny)
        for i, weight in zip(members, weights, strict=True):
            torch.div(weight, whole, out=share[i])
    return shares
