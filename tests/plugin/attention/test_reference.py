"""The reference path against double loops, and where softmax goes wrong."""

import dataclasses

import torch
from attention_problems import make
from brute_force import KINDS, attention_head

from fairseq_hybrid_attn.attention.reference import masked_softmax, reference
from fairseq_hybrid_attn.patterns import GLOBAL, PAST

BRANCHES = [
    [["global"], ["past"], ["future"], ["local2"]],
    [["past"], ["local_past2"]],
    [["global", "local1", "future", "past"]],
    [["local3", "past", "past", "global"], ["future"]],
    [[f"{kind}{k}"] for k in range(1, 10) for kind in ("local", "local_past")],
]


def test_reference_is_the_double_loop():
    for words in BRANCHES:
        branches = tuple(tuple(KINDS[word][0] for word in branch) for branch in words)
        for n, padded in ((1, "left"), (2, "right"), (4, "left"), (7, "right"), (8, "left")):
            settings = {"padded": padded, "bias": "bhnm", "seed": n, "dtype": torch.float64}
            problem = make(branches, n, width=3, need_weights=True, **settings)
            bias, mix = problem.bias, torch.rand(len(branches), 4, 1, n, 1).double()
            result = reference(problem)
            for branch, heads in enumerate(words):
                for b, h in [(b, h) for b in range(4) for h in range(problem.q.size(1))]:
                    found = attention_head(
                        *(x[b, h].tolist() for x in (problem.q, problem.k, problem.v, bias)),
                        KINDS[heads[h % len(heads)]][1],
                        (~problem.key_padding[b]).tolist(),
                    )
                    for got, want in zip((result.outputs, result.weights), found, strict=True):
                        want = torch.tensor(want, dtype=torch.float64)
                        torch.testing.assert_close(got[branch, b, h], want, rtol=0, atol=1e-12)
            mixed = reference(dataclasses.replace(problem, mix=mix)).outputs
            expected = sum(share * x for share, x in zip(mix, result.outputs, strict=True))
            torch.testing.assert_close(mixed, expected[None], rtol=0, atol=1e-12)


def test_forbidden_scores_cannot_be_seen_whatever_they_are():
    scores = torch.tensor([[1.0, 2.0, float("inf")], [1.0, 2.0, 3e38], [-3e38, -3e38, 0.0]])
    weights = masked_softmax(scores, torch.tensor([True, True, False]))
    first = torch.tensor([1.0, 2.0]).softmax(-1).tolist()
    torch.testing.assert_close(weights, torch.tensor([[*first, 0], [*first, 0], [0.5, 0.5, 0]]))


def test_half_precision_scores_beyond_its_range():
    """q k = -90,000 and 90,000, where float16 ends at 65,504."""
    problem = dataclasses.replace(
        make(((PAST,), (GLOBAL,)), 2, batch=(1, 1), need_weights=True),
        q=torch.tensor([[-300.0, 0], [300.0, 0]]).half()[None, None],
        k=torch.tensor([[300.0, 0], [300.0, 0]]).half()[None, None],
        v=torch.ones(1, 1, 2, 1).half(),
    )
    assert (reference(problem).outputs == 1).all()
    with torch.autocast("cpu", dtype=torch.float16):
        assert (reference(problem).outputs == 1).all()


def test_softmax_of_half_precision_is_taken_in_single():
    for dtype in (torch.float16, torch.bfloat16):
        result = reference(make("global", 50, dtype=dtype, need_weights=True))
        assert result.weights.dtype == torch.float32 and result.outputs.dtype == dtype
        assert (result.weights.sum(-1) - 1).abs().max() < 1e-6
