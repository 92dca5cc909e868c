"""Every path in single precision against the reference in double precision.

The bounds are those that any path has to keep: 5e-6 for outputs and 2e-5 for gradients, at
real tokens, with scores of up to about 20 in size.
"""

import dataclasses

import pytest
import torch

from fairseq_hybrid_attn.attention.paths import CALLS, PATHS, compute
from fairseq_hybrid_attn.attention.problem import AttentionProblem
from fairseq_hybrid_attn.attention.reference import reference
from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, local, local_past

BRANCHES = {
    "global": ((GLOBAL,),),
    "hysan": ((GLOBAL,), (PAST,), (FUTURE,), (local(5),)),
    "decoder": ((PAST,), (local_past(5),)),
    "heads": ((GLOBAL, local(1), FUTURE, PAST),),
}


def problem(branches, *, n, m, dtype, seed, padded, scale):
    torch.manual_seed(seed)
    shape = (3, 4, m, 8)
    q, k, v = (torch.randn(shape, dtype=torch.float64) for _ in range(3))
    padding = None
    if padded != "none":
        padding = torch.zeros(3, m, dtype=torch.bool)
        padding[1, slice(m // 2 + 1, m) if padded == "right" else slice(0, m // 2)] = True
    return AttentionProblem(
        q=(q[:, :, m - n :] * scale).to(dtype).requires_grad_(),
        k=k.to(dtype).requires_grad_(),
        v=v.to(dtype).requires_grad_(),
        branches=branches,
        key_padding=padding,
        need_weights=True,
    )


def solve(path, given):
    """Outputs, weights and gradients, of real queries only."""
    result = path(given)
    m, n = given.k.size(2), given.q.size(2)
    real = torch.ones(3, n, dtype=torch.bool)
    if given.key_padding is not None:
        real = ~given.key_padding[:, m - n :]
    outputs = result.outputs.permute(1, 3, 0, 2, 4)[real]
    weights = result.weights.permute(1, 3, 0, 2, 4)[real]
    torch.tanh(outputs).sum().backward()
    return (outputs, weights), (given.q.grad, given.k.grad, given.v.grad)


@pytest.mark.parametrize("scale", [0.35, 5.0])
@pytest.mark.parametrize("padded", ["none", "right", "left"])
@pytest.mark.parametrize("n, m", [(1, 1), (2, 2), (25, 25), (64, 64), (1, 40), (3, 40)])
@pytest.mark.parametrize("branches", BRANCHES)
@pytest.mark.parametrize("path", PATHS)
def test_single_precision_path(path, branches, n, m, padded, scale):
    shape = {"n": n, "m": m, "seed": n + m, "padded": padded, "scale": scale}
    single = problem(BRANCHES[branches], dtype=torch.float32, **shape)
    double = problem(BRANCHES[branches], dtype=torch.float64, **shape)
    # The same numbers: what single precision cannot hold is no fault of a path.
    double = dataclasses.replace(
        double,
        **{x: getattr(single, x).detach().double().requires_grad_() for x in ("q", "k", "v")},
    )
    results, gradients = solve(PATHS[path], single)
    expected, expected_gradients = solve(reference, double)
    for got, want in zip(results, expected, strict=True):
        assert (got.double() - want).abs().max() <= 5e-6
    for got, want in zip(gradients, expected_gradients, strict=True):
        assert (got.double() - want).abs().max() <= 2e-5 * max(1.0, want.abs().max())


def test_calls_are_counted():
    given = problem(
        BRANCHES["heads"], n=3, m=3, dtype=torch.float32, seed=0, padded="none", scale=1.0
    )
    before = CALLS.total()
    compute(given)
    assert CALLS.total() == before + 1
