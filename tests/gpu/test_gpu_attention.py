"""Each way of computing attention against the definition in double precision."""

import pytest
import torch
from attention_problems import WAYS, check_nothing_comes_of_nothing, converted, solve
from attention_problems import make as make_problem

from fairseq_hybrid_attn.attention.reference import reference

#: The largest error as a share of the largest number of a tensor.
BOUNDS = {torch.float32: 2e-5, torch.float16: 5e-3, torch.bfloat16: 3e-2}
#: Branches, and the width of a head.
PAPERS = {"hysan": 64, "decoder": 64, "hybrid": 64, "heads": 128, "beside": 64}


@pytest.mark.parametrize("way", ("reference", "sdpa"))
@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
def test_ways_are_the_definition(way, dtype, device):
    lengths = (30, 134, 600) if device == "cuda" else (8,)
    for branches, width in PAPERS.items():
        for n in lengths:
            for padded in ("none", "left"):
                sizes = {"batch": (3, 4), "width": width, "numbers": (False, 1.0)}
                problem = make_problem(
                    branches, n, dtype=dtype, device=device, padded=padded, **sizes
                )
                (want,), expected = solve(reference, converted(problem, torch.float64))
                (got,), gradients = solve(WAYS[way], problem)
                check_nothing_comes_of_nothing(problem, [got], gradients, f"{branches} {n}")
                pairs = {"outputs": (got, want)}
                pairs |= {of: (gradients[of], expected[of]) for of in expected}
                for of, (found, exact) in pairs.items():
                    error = (found.double() - exact).abs().max() / exact.abs().max()
                    assert error <= BOUNDS[dtype], f"{branches}, {n}, {padded}, {of}: {error}"
