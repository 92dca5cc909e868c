"""Attention problems to hold paths against the reference with.

Queries and keys have few bits, so that scores are exact in single precision however large:
what is measured is what a path does with them.
"""

from __future__ import annotations

import dataclasses

import torch

from fairseq_hybrid_attn.attention.problem import AttentionProblem
from fairseq_hybrid_attn.attention.reference import reference

PADDED = ["none", "left", "right", "scattered"]


def make(
    branches,
    *,
    n,
    m=None,
    b=4,
    h=2,
    width=8,
    dtype=torch.float32,
    padded="none",
    scale=1.0,
    mix=False,
    seed=0,
):
    """A random problem; of its sentences, one has no padding and one has nothing else.

    ``scale`` is the standard deviation of the scores.
    """
    m = n if m is None else m
    generator = torch.Generator().manual_seed(seed)

    def random(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    q = (random(b, h, n, width) * scale * width**-0.5 * 16).round() / 16
    k = (random(b, h, m, width) * 16).round() / 16
    v = random(b, h, m, width)
    shares = torch.rand(len(branches), b, h, n, 1, generator=generator) if mix else None
    return AttentionProblem(
        q=q.to(dtype).requires_grad_(),
        k=k.to(dtype).requires_grad_(),
        v=v.float().to(dtype).requires_grad_(),
        branches=branches,
        key_padding=_padding(b, m, padded, generator),
        mix=shares.to(dtype).requires_grad_() if mix else None,
    )


def _padding(b, m, padded, generator):
    if padded == "none":
        return None
    padding = torch.zeros(b, m, dtype=torch.bool)
    for sentence in range(1, b):
        # From nothing at all (the first) to everything (the last).
        some = m if sentence == b - 1 else int(torch.randint(0, m + 1, (1,), generator=generator))
        places = {
            "left": slice(0, some),
            "right": slice(m - some, m),
            "scattered": torch.randperm(m, generator=generator)[:some],
        }
        padding[sentence, places[padded]] = True
    return padding


def inputs(problem):
    return [x for x in (problem.q, problem.k, problem.v, problem.mix) if x is not None]


def in_double(problem):
    """The same numbers in double precision."""
    return dataclasses.replace(
        problem,
        **{
            name: getattr(problem, name).detach().double().requires_grad_()
            for name in ("q", "k", "v", "mix")
            if getattr(problem, name) is not None
        },
    )


def solve(path, problem, real=None):
    """Outputs, and gradients from a random gradient that is 0 at padded queries.

    The outputs of padded queries are left out, ``[rows, l, h, d_k]``.
    """
    outputs = path(problem).outputs
    real = real_queries(problem)
    # [l, b, h, n, d_k] -> [rows, l, h, d_k]
    outputs = outputs.permute(1, 3, 0, 2, 4)[real]
    generator = torch.Generator().manual_seed(1)
    upstream = torch.randn(outputs.shape, generator=generator, dtype=torch.float64)
    return outputs, torch.autograd.grad((outputs * upstream).sum(), inputs(problem))


def real_queries(problem):
    """``[b, n]``, True = a token."""
    b, _, n, _ = problem.q.shape
    if problem.key_padding is None:
        return torch.ones(b, n, dtype=torch.bool)
    return ~problem.key_padding[:, problem.k.size(2) - n :]


def assert_equals_reference(path, problem, *, output_bound=5e-6, gradient_bound=2e-5):
    """Hold ``path`` against the reference in double precision.

    The bounds are those of every path in single precision; gradients, which grow with what
    they are multiplied with, relative to the largest if that is more than 1.
    """
    outputs, gradients = solve(path, problem)
    expected, expected_gradients = solve(reference, in_double(problem))
    assert outputs.dtype == problem.v.dtype
    assert outputs.shape == expected.shape
    if outputs.numel():
        assert (outputs.double() - expected).abs().max() <= output_bound
    for got, want in zip(gradients, expected_gradients, strict=True):
        # Not NaN either, which is never less than anything.
        assert (got.double() - want).abs().max() <= gradient_bound * max(1.0, want.abs().max())


def assert_zero_without_keys(path, problem):
    """The last sentence is padding only: its outputs are 0, and it gets no gradient.

    Here every query has a gradient from above, those of padding as well.
    """
    outputs = path(problem).outputs
    assert outputs.isfinite().all()
    expected = reference(problem).outputs
    empty = (expected == 0).all(-1)
    assert empty[:, -1].all()
    assert not outputs[empty].any()
    gradients = torch.autograd.grad((outputs.float() ** 2 + outputs.float()).sum(), inputs(problem))
    assert all(x.isfinite().all() for x in gradients)
    of_q, of_k, of_v = gradients[:3]
    assert not any(x[-1].any() for x in (of_q, of_k, of_v))
    assert not of_q[empty.all(0)].any()


def error(path, problem):
    """Largest errors of outputs and of gradients against the reference in double precision."""
    results = zip(
        [solve(path, problem)[0], *solve(path, problem)[1]],
        [solve(reference, in_double(problem))[0], *solve(reference, in_double(problem))[1]],
        strict=True,
    )
    return [(got.double() - want).abs().max().item() for got, want in results]


def assert_no_worse_than_reference(path, problem):
    """For half precision, where the reference's own error is the measure."""
    for ours, theirs in zip(error(path, problem), error(reference, problem), strict=True):
        assert ours <= 1.05 * theirs
