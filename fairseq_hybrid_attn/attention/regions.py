"""Attention to long sentences: each region of the score matrix once, then merged.

All branches of the papers are unions of a few regions::

    past    keys up to the query         a causal mask
    ahead   keys after the query         a causal mask over the sentence turned round
    own     the query's own key
    whole   all keys                     where neither half is wanted by itself
    near    keys within a band           cut into blocks, see banded.py

    global = past + ahead (or whole),  past = past,  future = own + ahead,  local = near

Each region is computed once, by a kernel that never holds its scores, with a maximum and a
log-sum-exp of its own; then a branch's output is the sum of its regions' outputs, each times
exp(lse of the region - lse of the branch).  So all branches cost about as much arithmetic as
a single attention does, and as little memory.  One maximum for all branches would not do: a
branch whose scores lie far below another's would underflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.linalg import vecdot

from ..patterns import FUTURE, GLOBAL, PAST, Band, Pattern
from . import flash
from .banded import Blocks
from .problem import AttentionProblem, AttentionResult

#: Shorter sentences are for other paths: with a gradient wanted, and without.
SHORTEST, SHORTEST_FORWARD = 1024, 512
#: In very short ones rounding, which here does not cancel within a row, is a larger part of
#: the small gradients.
SHORTEST_ABLE = 16

#: The kernel takes keys in blocks of 512, each as a whole if any of it is wanted, so a causal
#: mask saves nothing where there are 512 keys or fewer.  Sentences shorter than UNDIVIDED
#: are cut into rectangles, and squares of about STEP along the diagonal.
STEP = 256
UNDIVIDED = 3072


def regions(problem: AttentionProblem) -> AttentionResult:
    """Solve ``problem``, for which :func:`able` must hold."""
    dtype, inner = problem.v.dtype, _inner(problem)
    with torch.autocast(problem.q.device.type, enabled=False):
        outputs = solve(
            *(x.to(inner) for x in (problem.q, problem.k, problem.v)),
            None if problem.mix is None else problem.mix.to(inner),
            problem.key_padding,
            tuple(branch[0] for branch in problem.branches),
        )
    return AttentionResult(outputs=outputs.to(dtype))


def solve(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mix: Tensor | None,
    padding: Tensor | None,
    patterns: tuple[Band, ...],
) -> Tensor:
    """The outputs of :class:`~.problem.AttentionResult`, one pattern for each branch.

    The arguments are as in :class:`~.problem.AttentionProblem`; n = m.
    """
    # The kernel wants the numbers of a row to be neighbours in memory.
    q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
    return _Merged.apply(q, k, v, mix, padding, patterns)


def able(problem: AttentionProblem) -> bool:
    """Whether this path is right for ``problem``.

    Not with dropout: branches that share a region would share what is dropped in it, and
    each is to draw anew.
    """
    n, m = problem.q.size(2), problem.k.size(2)
    return (
        n == m >= SHORTEST_ABLE
        and problem.dropout == 0
        and problem.bias is None
        and not problem.need_weights
        and all(len(set(branch)) == 1 and known(branch[0]) for branch in problem.branches)
        and not torch.compiler.is_compiling()
        and flash.available(problem.q.new_empty(0, dtype=_inner(problem)))
    )


def applies(problem: AttentionProblem) -> bool:
    """Whether this path is right for ``problem`` and faster than others."""
    trained = torch.is_grad_enabled() and any(
        x.requires_grad for x in (problem.q, problem.k, problem.v)
    )
    return problem.q.size(2) >= (SHORTEST if trained else SHORTEST_FORWARD) and able(problem)


def known(pattern: Pattern) -> bool:
    """Whether ``pattern`` is a union of the regions here."""
    if pattern in (GLOBAL, PAST, FUTURE):
        return True
    return isinstance(pattern, Band) and None not in (pattern.behind, pattern.ahead)


def _inner(problem: AttentionProblem) -> torch.dtype:
    """Half precision is for storage on a CPU; computed in single, it loses nothing."""
    return torch.promote_types(problem.v.dtype, torch.float32)


class _Merged(torch.autograd.Function):
    """From q, k, v (and mix) to the outputs, with the gradient written out.

    With o_r and lse_r of region r, w_br = exp(lse_r - lse_b), and c_br = mix_b w_br, which
    is w_br itself without mix:

        output_b = sum_r c_br o_r        (summed over b as well with mix)

    A score of region r, with probability p_ij *within the region*, has the gradient

        sum_b c_br p_ij (grad_b . v_j - t_b)   with t_b = grad_b . (sum_r w_br o_r)
        = p_ij (grad_r . v_j - delta_r)        with grad_r = sum_b c_br grad_b,
                                                    delta_r = sum_b c_br t_b

    so each region takes one backward pass, given grad_r and delta_r.
    """

    @staticmethod
    def forward(ctx, q, k, v, mix, padding, branches):
        if padding is not None and not padding.any():
            padding = None
        plan = Plan.of(branches, q.size(2))
        found = [
            [region.forward(*region.cut(q, k, v, padding)) for region in layer]
            for layer in plan.layers
        ]
        shares = _shares(plan, found, padding, q)  # w, [l, layers, b, h, n]
        amounts, members = shares, plan.members
        if mix is not None:
            amounts = _times(mix, shares).sum(0, keepdim=True)
            members = (range(len(plan.layers)),)
        outputs = q.new_zeros(len(members), *q.shape)
        for output, amount, layers in zip(outputs, amounts, members, strict=True):
            for i in layers:
                for region, (o_r, _) in zip(plan.layers[i], found[i], strict=True):
                    rows = region.queries
                    output[:, :, rows].addcmul_(o_r, amount[i, :, :, rows, None])
        ctx.plan = plan
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
    @once_differentiable
    def backward(ctx, grads):
        q, k, v, mix, padding, shares, outputs, *rest = ctx.saved_tensors
        plan, rest = ctx.plan, iter(rest)
        found = [[(next(rest), next(rest)) for _ in layer] for layer in plan.layers]
        if mix is None:
            amounts = shares  # c, [l, layers, b, h, n]
            t = torch.stack([vecdot(g, o) for g, o in zip(grads, outputs, strict=True)])
        else:
            amounts = _times(mix, shares)
            t_of_layers = torch.zeros_like(shares[0])
            for layer, results, t_r in zip(plan.layers, found, t_of_layers, strict=True):
                for region, (o_r, _) in zip(layer, results, strict=True):
                    rows = region.queries
                    t_r[:, :, rows] = vecdot(grads[0, :, :, rows], o_r)
            t = (shares * t_of_layers).sum(1)  # [l, b, h, n]
        totals = [torch.zeros_like(x, memory_format=torch.contiguous_format) for x in (q, k, v)]
        for i, layer in enumerate(plan.layers):
            users = [branch for branch, layers in enumerate(plan.members) if i in layers]
            merged = any(len(plan.members[branch]) > 1 for branch in users)
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
    """Sum of weights ``[b, h, n]`` times tensors ``[b, h, n, d_k]``."""
    total = weights[0].unsqueeze(-1) * tensors[0]
    for weight, tensor in zip(weights[1:], tensors[1:], strict=True):
        total.addcmul_(weight.unsqueeze(-1), tensor)
    return total


def _times(mix: Tensor, shares: Tensor) -> Tensor:
    """mix ``[l, b, 1 or h, n, 1]`` times shares ``[l, layers, b, h, n]``."""
    return mix.squeeze(-1).unsqueeze(1) * shares


def _shares(
    plan: Plan, found: list[list[tuple[Tensor, Tensor]]], padding: Tensor | None, q: Tensor
) -> Tensor:
    """w_br = exp(lse_r - lse_b), 0 for a layer that is not of the branch.

    Args:
        found: output and log-sum-exp of each region of each layer.

    Returns:
        ``[l, layers, b, h, n]``.
    """
    merged = {i for members in plan.members if len(members) > 1 for i in members}
    lse = q.new_full((len(plan.layers), *q.shape[:3]), -torch.inf)
    for i in merged:
        for region, (_, lse_r) in zip(plan.layers[i], found[i], strict=True):
            if padding is not None:  # of a row that sees nothing, the kernel says 0
                seen = region.seen(~padding[:, region.keys])
                lse_r = lse_r.masked_fill(~seen.unsqueeze(1), -torch.inf)
            lse[i, :, :, region.queries] = lse_r
    shares = torch.zeros_like(lse.expand(len(plan.members), *lse.shape))
    for share, members in zip(shares, plan.members, strict=True):
        if len(members) == 1:
            share[members[0]] = 1
            continue
        its_lse = [lse[i] for i in members]
        # Finite where nothing is seen at all, so that all shares are 0 there.
        top = reduce(torch.maximum, its_lse).clamp_min(torch.finfo(q.dtype).min)
        weights = [(x - top).exp_() for x in its_lse]
        whole = sum(weights).clamp_min_(torch.finfo(q.dtype).tiny)
        for i, weight in zip(members, weights, strict=True):
            torch.div(weight, whole, out=share[i])
    return shares


@dataclass(frozen=True)
class Plan:
    """What to compute.

    Attributes:
        layers: regions; those of one layer have no query in common.
        members: the layers that make up each branch, as indices.
    """

    layers: tuple[Layer, ...]
    members: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, branches: tuple[Band, ...], n: int) -> Plan:
        """Plan for sentences of n positions."""
        past, ahead = _halves(n)
        whole, future = past + ahead, [(Own(0, n, 0, n),), *ahead]
        # What nothing else has a part of is one call.
        if PAST not in branches and FUTURE not in branches:
            whole = [(Rectangle(0, n, 0, n),)]
        if PAST not in branches and GLOBAL not in branches:
            future = [(Ahead(0, n, 0, n),)]
        if FUTURE not in branches and GLOBAL not in branches:
            past = [(Past(0, n, 0, n),)]
        wanted = []
        for branch in branches:
            if branch == GLOBAL:
                wanted.append(whole)
            elif branch == PAST:
                wanted.append(past)
            elif branch == FUTURE:
                wanted.append(future)
            else:
                wanted.append([(Near(0, n, 0, n, Blocks.of(branch, n)),)])
        layers = tuple(dict.fromkeys(layer for its in wanted for layer in its))
        return cls(layers, tuple(tuple(layers.index(layer) for layer in its) for its in wanted))


def _halves(n: int) -> tuple[list[Layer], list[Layer]]:
    """The layers that make up the keys up to the query, and the keys after it."""
    steps = 1 if n >= UNDIVIDED else max(1, round(n / STEP))
    edges = [step * n // steps for step in range(steps + 1)]
    squares = list(pairwise(edges))
    past = [tuple(Past(start, end, start, end) for start, end in squares)]
    ahead = [tuple(Ahead(start, end - 1, start + 1, end) for start, end in squares)]
    if steps > 1:
        past.append(tuple(Rectangle(start, end, 0, start) for start, end in squares[1:]))
        ahead.append(tuple(Rectangle(start, end, end, n) for start, end in squares[:-1]))
    return past, ahead


@dataclass(frozen=True)
class Region:
    """A part of the score matrix, computed by one call.

    Attributes:
        row, row_end: its queries.
        column, column_end: the keys that the call is given.
    """

    row: int
    row_end: int
    column: int
    column_end: int

    @property
    def queries(self) -> slice:
        return slice(self.row, self.row_end)

    @property
    def keys(self) -> slice:
        return slice(self.column, self.column_end)

    def cut(self, q: Tensor, k: Tensor, v: Tensor, padding: Tensor | None):
        """q, k, v and padding of its rows and columns."""
        return (
            q[:, :, self.queries],
            k[:, :, self.keys],
            v[:, :, self.keys],
            None if padding is None else padding[:, self.keys],
        )

    def forward(self, q, k, v, padding) -> tuple[Tensor, Tensor]:
        """Outputs ``[b, h, rows, d_k]`` and log-sum-exps ``[b, h, rows]`` of the region.

        Args: as :meth:`cut` gave them.

        The log-sum-exp of a row that sees no key may be anything; see :meth:`seen`.
        """
        return flash.forward(q, k, v, causal=self.causal, bias=_bias(padding, q))

    def backward(self, grad, delta, output, lse, q, k, v, padding):
        """The gradients of q, k and v as :meth:`cut` gave them.

        Args:
            grad: ``[b, h, rows, d_k]``.
            delta: ``[b, h, rows]``.
            output: something whose product with grad is delta.
            lse: as :meth:`forward` gave it.
        """
        return flash.backward(
            grad, output, q, k, v, lse, causal=self.causal, bias=_bias(padding, q)
        )

    def seen(self, real: Tensor) -> Tensor:
        """Which rows see any key.

        Args:
            real: ``[b, columns]``, True = a token.

        Returns:
            ``[b, rows]``, or ``[b, 1]`` for all rows alike.
        """
        raise TypeError(f"{type(self).__name__} does not define seen()")


#: Regions without a query in common.
Layer = tuple[Region, ...]


class Rectangle(Region):
    """All its queries see all its keys."""

    causal = False

    def seen(self, real):
        return real.any(1, keepdim=True)


class Past(Region):
    """A square on the diagonal; queries see the keys up to their own."""

    causal = True

    def seen(self, real):
        return real.cumsum(1) > 0


class Ahead(Region):
    """A square on the diagonal; queries see the keys from their own on.

    If it lies one key further to the right, they see those after their own.  Turned round,
    it is a :class:`Past`.
    """

    causal = True

    def cut(self, q, k, v, padding):
        q, k, v, padding = super().cut(q, k, v, padding)
        return (
            *(x.flip(2) for x in (q, k, v)),
            None if padding is None else padding.flip(1),
        )

    def forward(self, q, k, v, padding):
        return tuple(x.flip(2) for x in super().forward(q, k, v, padding))

    def backward(self, grad, delta, output, lse, q, k, v, padding):
        grad, output, lse = grad.flip(2), output.flip(2), lse.flip(2)
        parts = super().backward(grad, delta, output, lse, q, k, v, padding)
        return tuple(part.flip(2) for part in parts)

    def seen(self, real):
        return real.flip(1).cumsum(1).flip(1) > 0


class Own(Region):
    """The diagonal."""

    def forward(self, q, k, v, padding):
        return v, vecdot(q, k)

    def backward(self, grad, delta, output, lse, q, k, v, padding):
        slope = (vecdot(grad, v) - delta).unsqueeze(-1)
        return slope * k, slope * q, grad

    def seen(self, real):
        return real


@dataclass(frozen=True)
class Near(Region):
    """Always the only region of its branch.

    Its log-sum-exps stay in blocks, ``[s, h, B]``.
    """

    blocks: Blocks

    def forward(self, q, k, v, padding):
        bias = self.blocks.bias(len(q), padding, like=q)
        output, lse = flash.forward(*self._in_blocks(q, k, v), bias=bias)
        return self.blocks.positions(output), lse

    def backward(self, grad, delta, output, lse, q, k, v, padding):
        bias = self.blocks.bias(len(q), padding, like=q)
        grad, output = self.blocks.queries(grad), self.blocks.queries(output)
        of_q, of_k, of_v = flash.backward(grad, output, *self._in_blocks(q, k, v), lse, bias=bias)
        return self.blocks.positions(of_q), self.blocks.gather(of_k), self.blocks.gather(of_v)

    def _in_blocks(self, q, k, v):
        return self.blocks.queries(q), self.blocks.keys(k), self.blocks.keys(v)


def _bias(padding: Tensor | None, like: Tensor) -> Tensor | None:
    """Padding ``[b, m]`` as what is added to the scores, ``[b, 1, 1, m]``."""
    if padding is None:
        return None
    bias = like.new_zeros(padding.shape).masked_fill_(padding, -torch.inf)
    return bias[:, None, None]
