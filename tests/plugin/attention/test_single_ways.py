"""What only one way can get wrong; test_ways.py holds all of them against the reference."""

import dataclasses

import numpy
import torch
from attention_problems import make, solve
from brute_force import KINDS
from scipy.special import softmax

from fairseq_hybrid_attn.attention import masks
from fairseq_hybrid_attn.attention.reference import reference
from fairseq_hybrid_attn.attention.sdpa import sdpa
from fairseq_hybrid_attn.patterns import GLOBAL, PAST

HALF = (torch.float16, torch.bfloat16)


class TestReference:
    def test_it_is_the_definition_position_by_position(self):
        for words in (
            [["global"], ["past"], ["future"], ["local2"]],
            [["past"], ["local_past2"]],
            [["global", "local1", "future", "past"]],
            [["local3", "past", "past", "global"], ["future"]],
            [[f"{kind}{k}"] for k in range(1, 10) for kind in ("local", "local_past")],
        ):
            branches = tuple(tuple(KINDS[word][0] for word in branch) for branch in words)
            for n, padded in ((1, "left"), (2, "right"), (4, "left"), (7, "right"), (8, "left")):
                settings = {"padded": padded, "bias": "bhnm", "seed": n, "dtype": torch.float64}
                problem = make(branches, n, width=3, need_weights=True, **settings)
                result, mix = reference(problem), torch.rand(len(branches), 4, 1, n, 1).double()
                names = ("q", "k", "v", "bias", "key_padding")
                q, k, v, bias, padding = (getattr(problem, x).numpy(force=True) for x in names)
                weights = numpy.zeros((len(branches), *bias.shape))
                for branch, b, h, i in numpy.ndindex(weights.shape[:4]):
                    heads = words[branch]
                    _, allows = KINDS[heads[h % len(heads)]]
                    seen = [j for j in range(n) if not padding[b, j] and allows(i, j)]
                    if seen:
                        scores = k[b, h, seen] @ q[b, h, i] + bias[b, h, i, seen]
                        weights[branch, b, h, i, seen] = softmax(scores)
                for found, want in ((result.weights, weights), (result.outputs, weights @ v)):
                    torch.testing.assert_close(found, torch.from_numpy(want), rtol=0, atol=1e-12)
                mixed = reference(dataclasses.replace(problem, mix=mix)).outputs
                expected = sum(share * x for share, x in zip(mix, result.outputs, strict=True))
                torch.testing.assert_close(mixed, expected[None], rtol=0, atol=1e-12)

    def test_half_precision_scores_beyond_its_range(self):
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

    def test_softmax_of_half_precision_is_taken_in_single(self):
        for dtype in HALF:
            result = reference(make("global", 50, dtype=dtype, need_weights=True))
            assert result.weights.dtype == torch.float32 and result.outputs.dtype == dtype
            assert (result.weights.sum(-1) - 1).abs().max() < 1e-6

    def test_dropout_of_nearly_nothing_and_of_all(self):
        for p in (1e-9, 0.5, 1.0):
            given = make("hysan", 5, dropout=p)
            (outputs,), gradients = solve(reference, given)
            assert all(x.isfinite().all() for x in (outputs, *gradients.values()))
            assert (outputs == 0).all() == (p == 1.0)
            if p == 1e-9:
                whole = reference(dataclasses.replace(given, dropout=0)).outputs
                torch.testing.assert_close(outputs, whole)


class TestSdpa:
    def test_a_bias_may_be_out_of_the_range_of_half_precision(self):
        """A row of minus infinities would be NaN."""
        problem = make("local", 9, padded="left", bias="b1nm", dtype=torch.float16)
        problem = dataclasses.replace(problem, bias=problem.bias.float() * 1e9 - 1e10)
        assert sdpa(problem).outputs.isfinite().all()


def test_masks_are_remembered_within_bounds(monkeypatch):
    monkeypatch.setattr(masks, "_remembered", {})
    monkeypatch.setattr(masks, "MOST_BYTES", 2**19)
    for n in (600, *range(20, 60), 59):
        for way in (reference, sdpa):
            way(make("hysan", n, batch=(1, 1), width=2))
        held = [x for made in masks._remembered.values() for x in made if x is not None]
        assert sum(x.numel() * x.element_size() for x in held) <= 2**19
    lengths = {key[2] for key in masks._remembered}
    assert 59 in lengths and not {20, 600} & lengths
