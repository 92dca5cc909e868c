"""All branches in one tensor, for sentences of ordinary length on CPUs (way ``cpu``).

The branches share their scores, and so their softmax.  With P the weights of an attention
without patterns, and M_l the mask of a branch, 0 and 1, the branch has the weights

    A_l = P * M_l / Z_l,    Z_l = the sum of P * M_l over the keys.

This takes one softmax for all branches, and one batched product of all A_l with V.  With ``mix``,
the A_l are added up before the product, which is then that of a single attention.  A branch whose
keys have almost no share in P would lose digits.  ``Z_l`` shows this, and each branch then gets its
own softmax.

The gradient is that of the softmax, written by hand.  It keeps only P, 1 / Z and (with dropout) the
random numbers, and recomputes the rest.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from .autograd import first_order, without_autocast
from .dropout import factors, noise
from .masks import allowed, remembered
from .problem import AttentionProblem, AttentionResult

#: The smallest Z that is computed from the shared softmax.  Its scores are less than 28 below the
#: highest, a difference that is exact to 1e-6.
SMALLEST_SUM = 1e-12

#: The maximum number of weights, of all branches, that are computed together.
CHUNK = 2**19

#: Up to this number, the weights of all branches are kept, not recomputed.
SMALL = 2**20


def on_cpu(problem: AttentionProblem) -> AttentionResult:
    """Compute ``problem`` with all branches in one tensor."""
    tensors = (problem.q, problem.k, problem.v, problem.bias, problem.mix)
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors):
        rest = dataclasses.replace(problem, q=None, k=None, v=None, bias=None, mix=None)
        outputs, weights = _OnCPU.apply(rest, *tensors)
    else:
        outputs, weights, _ = _forward(problem, keep=False)
    return AttentionResult(
        outputs=outputs.permute(2, 0, 1, 3, 4),
        weights=None if weights is None else weights.permute(2, 0, 1, 3, 4),
    )


class _OnCPU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rest, q, k, v, bias, mix):
        ctx.set_materialize_grads(False)
        problem = dataclasses.replace(rest, q=q, k=k, v=v, bias=bias, mix=mix)
        outputs, weights, states = _forward(problem, keep=True)
        ctx.rest = rest
        ctx.save_for_backward(q, k, v, bias, mix, *(tensor for state in states for tensor in state))
        return outputs, weights

    @staticmethod
    @first_order
    def backward(ctx, grad_outputs, grad_weights):
        q, k, v, bias, mix, *saved = ctx.saved_tensors
        problem = dataclasses.replace(ctx.rest, q=q, k=k, v=v, bias=bias, mix=mix)
        states = [_Saved(*saved[i : i + 3]) for i in range(0, len(saved), 3)]
        wanted = ctx.needs_input_grad[4:]
        return None, *_backward(problem, states, grad_outputs, grad_weights, *wanted)


class _Saved(NamedTuple):
    """What the gradient of a part of the problem needs.

    Attributes:
        shares: P, ``[b, h, 1, n, m]``; or A itself, ``[b, h, l, n, m]``.
        inverse: 1 / Z, ``[b, h, l, n, 1]``; None if ``shares`` are A.
        noise: a random 16-bit number per weight, ``[b, h, l, n, m]``; None without dropout.
    """

    shares: Tensor
    inverse: Tensor | None
    noise: Tensor | None

    def weights(self, mask: Tensor) -> Tensor:
        """A, before dropout."""
        return self.shares if self.inverse is None else (self.shares * mask).mul_(self.inverse)


class _Part(NamedTuple):
    """Some sentences and heads of a problem, in the precision of the computation.

    Attributes:
        at: the index of these sentences and heads in ``[b, h, ...]``.
        size: the numbers of sentences and heads.
        q, k, v: ``[b * h, n or m, d_k]``.
        bias: ``[b, h, n, m]`` or None.
        mix: ``[b, h, l, n, 1]`` or None.
        mask: M, ``[1 or h, l, n, m]``.
        unseen: added to the scores: 0, or almost minus infinity where no branch looks,
            ``[1 or h, 1, n, m]``; None = every key is seen by some branch.
        real: 1 for a token and 0 for padding, ``[b, 1, 1, 1, m]``; None = no padding.
    """

    at: tuple[slice, slice]
    size: tuple[int, int]
    q: Tensor
    k: Tensor
    v: Tensor
    bias: Tensor | None
    mix: Tensor | None
    mask: Tensor
    unseen: Tensor | None
    real: Tensor | None

    def sees_keys(self) -> Tensor:
        """Return which queries may attend to any key, ``[b, 1 or h, l, n, 1]``."""
        if self.real is None:
            return self.mask.any(dim=-1, keepdim=True)
        return torch.einsum("hlnm,bm->bhln", self.mask, self.real[:, 0, 0, 0]).unsqueeze(-1) > 0


def _forward(
    problem: AttentionProblem, *, keep: bool
) -> tuple[Tensor, Tensor | None, list[_Saved]]:
    """Return outputs ``[b, h, l or 1, n, d_k]``, weights ``[b, h, l, n, m]``, and what to keep."""
    (b, h, n, _), d_k = problem.q.shape, problem.v.size(-1)
    m, l, work = problem.k.size(2), len(problem.branches), _precision(problem)  # noqa: E741
    mixed = problem.mix is not None
    outputs = problem.q.new_empty(b, h, 1 if mixed else l, n, d_k, dtype=work)
    weights = outputs.new_empty(b, h, l, n, m) if problem.need_weights else None
    states = []
    small = b * h * l * n * m <= SMALL
    with without_autocast(problem.q.device.type):
        for part in _parts(problem):
            state, a = _weights(part, small)
            if weights is not None:
                weights[part.at] = a
            if problem.dropout:
                state = state._replace(noise=noise(a))
                a = a * factors(state.noise, problem.dropout, work)
            if mixed:
                a = (a * part.mix).sum(dim=2, keepdim=True)
            torch.bmm(_rows(a), part.v, out=_rows(outputs[part.at]))
            if keep:
                states.append(state)
    return outputs.to(problem.v.dtype), weights, states


def _backward(
    problem: AttentionProblem,
    states: list[_Saved],
    grad_outputs: Tensor | None,
    grad_weights: Tensor | None,
    wants_bias: bool,
    wants_mix: bool,
) -> tuple[Tensor | None, ...]:
    """Return gradients of q, k, v, bias and mix, from those of :func:`_forward`'s results."""
    (b, h, n, _), d_k = problem.q.shape, problem.v.size(-1)
    m, l, work = problem.k.size(2), len(problem.branches), _precision(problem)  # noqa: E741
    mixed = problem.mix is not None
    if grad_outputs is None:
        grad_outputs = problem.q.new_zeros(b, h, 1 if mixed else l, n, d_k)
    grad_q, grad_k, grad_v = (
        x.new_empty(x.shape, dtype=work) for x in (problem.q, problem.k, problem.v)
    )
    grad_bias = grad_q.new_empty(b, h, n, m) if wants_bias else None
    grad_mix = grad_q.new_empty(b, h, l, n, 1) if wants_mix else None
    for part, state in zip(_parts(problem), states, strict=True):
        a = state.weights(part.mask)
        used, keep = a, None
        if state.noise is not None:
            keep = factors(state.noise, problem.dropout, work)
            used = a * keep
        grad_out = _rows(grad_outputs[part.at].to(work))
        grad = torch.bmm(grad_out, part.v.transpose(1, 2))
        grad = grad.view(*a.shape[:2], -1, n, m)
        if grad_mix is not None:
            grad_mix[part.at] = (used * grad).sum(dim=-1, keepdim=True)
        if mixed:
            used = (used * part.mix).sum(dim=2, keepdim=True)
            grad = grad * part.mix
        torch.bmm(_rows(used).transpose(1, 2), grad_out, out=_rows(grad_v[part.at]))
        if keep is not None:
            grad.mul_(keep)
        if grad_weights is not None:
            grad.add_(grad_weights[part.at])
        # Of the scores: the gradient of a softmax, summed over the branches.
        grad = torch._softmax_backward_data(grad, a, -1, work).sum(dim=2)
        if grad_bias is not None:
            grad_bias[part.at] = grad
        grad = grad.flatten(0, 1)
        torch.bmm(grad, part.k, out=_rows(grad_q[part.at]))
        torch.bmm(grad.transpose(1, 2), part.q, out=_rows(grad_k[part.at]))
    if grad_bias is not None:
        grad_bias = grad_bias.sum_to_size(problem.bias.shape).to(problem.bias.dtype)
    if grad_mix is not None:
        grad_mix = grad_mix.permute(2, 0, 1, 3, 4).sum_to_size(problem.mix.shape)
        grad_mix = grad_mix.to(problem.mix.dtype)
    return (
        grad_q.to(problem.q.dtype),
        grad_k.to(problem.k.dtype),
        grad_v.to(problem.v.dtype),
        grad_bias,
        grad_mix,
    )


def _weights(part: _Part, small: bool) -> tuple[_Saved, Tensor]:
    """Return what the gradient needs, and the weights of each branch, ``[b, h, l, n, m]``."""
    b, h = part.size
    scores = torch.bmm(part.q, part.k.transpose(1, 2))
    scores = scores.view(b, h, 1, *scores.shape[1:])  # [b, h, 1, n, m]
    if part.bias is not None:
        scores += part.bias.unsqueeze(2)
    if part.unseen is not None:
        scores += part.unseen
    shares = torch.softmax(scores, dim=-1)
    if part.real is not None:
        shares *= part.real
    a = shares * part.mask
    total = a.sum(dim=-1, keepdim=True)
    if total.min() < SMALLEST_SUM:
        total.masked_fill_(~part.sees_keys(), 1.0)
    if not total.min() < SMALLEST_SUM:
        inverse = total.reciprocal_()
        a.mul_(inverse)
        return _Saved(a, None, None) if small else _Saved(shares, inverse, None), a
    seen = part.mask if part.real is None else part.mask * part.real
    lowest = torch.finfo(scores.dtype).min
    shares = torch.softmax(scores.masked_fill(seen == 0, lowest), dim=-1).mul_(seen)
    return _Saved(shares, None, None), shares


def _precision(problem: AttentionProblem) -> torch.dtype:
    """At least single on all devices: half precision has too small a range."""
    dtype = torch.promote_types(problem.q.dtype, torch.float32)
    return dtype if problem.bias is None else torch.promote_types(dtype, problem.bias.dtype)


def _parts(problem: AttentionProblem) -> Iterator[_Part]:
    """Yield the problem in parts that fit into a processor's cache."""
    b, h, n, _ = problem.q.shape
    m, l, work = problem.k.size(2), len(problem.branches), _precision(problem)  # noqa: E741
    mask, unseen = _masks(problem.branches, n, m, work, problem.q.device)
    real = bias = mix = None
    if problem.key_padding is not None:
        real = (~problem.key_padding).to(work)[:, None, None, None]
    if problem.bias is not None:
        bias = problem.bias.to(work).expand(b, h, n, m)
    if problem.mix is not None:
        mix = problem.mix.to(work).expand(l, b, h, n, 1).permute(1, 2, 0, 3, 4)

    fitting = max(1, CHUNK // (l * n * m))
    heads = min(h, fitting)
    sentences = max(1, fitting // h)
    for first in range(0, b, sentences):
        for head in range(0, h, heads):
            at = (slice(first, first + sentences), slice(head, head + heads))
            q, k, v = (x[at].to(work) for x in (problem.q, problem.k, problem.v))
            yield _Part(
                at=at,
                size=q.shape[:2],
                q=_rows(q),
                k=_rows(k),
                v=_rows(v),
                bias=None if bias is None else bias[at],
                mix=None if mix is None else mix[at],
                mask=mask[at[1]] if mask.size(0) > 1 else mask,
                unseen=unseen[at[1]] if unseen is not None and unseen.size(0) > 1 else unseen,
                real=None if real is None else real[at[0]],
            )


@remembered
def _masks(branches, n, m, dtype, device) -> tuple[Tensor, Tensor | None]:
    """``mask`` and ``unseen`` of a :class:`_Part` with all heads."""
    mask = allowed(branches, n, m, device).unflatten(1, (len(branches), n))
    seen = mask.any(dim=1, keepdim=True)
    unseen = None
    if not seen.all():
        # Half of the lowest number, since a score is added to it.
        lowest = torch.finfo(dtype).min / 2
        unseen = torch.zeros(seen.shape, dtype=dtype, device=device).masked_fill_(~seen, lowest)
    return mask.to(dtype), unseen


def _rows(x: Tensor) -> Tensor:
    """``[b, h, (l,) n, x]`` -> ``[b * h, (l *) n, x]``."""
    return x.reshape(x.size(0) * x.size(1), -1, x.size(-1))
