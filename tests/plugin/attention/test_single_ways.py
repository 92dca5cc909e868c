"""What only one way can get wrong; test_ways.py holds all of them against the reference."""

import dataclasses

import numpy
import torch
from attention_problems import WAYS, check, make, solve
from brute_force import KINDS
from scipy.special import softmax

from fairseq_hybrid_attn.attention import sdpa, short
from fairseq_hybrid_attn.attention.reference import masked_softmax, reference
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

    def test_forbidden_scores_cannot_be_seen_whatever_they_are(self):
        scores = torch.tensor([[1.0, 2.0, float("inf")], [1.0, 2.0, 3e38], [-3e38, -3e38, 0.0]])
        weights = masked_softmax(scores, torch.tensor([True, True, False]))
        first = torch.tensor([1.0, 2.0]).softmax(-1).tolist()
        torch.testing.assert_close(weights, torch.tensor([[*first, 0], [*first, 0], [0.5, 0.5, 0]]))

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


class TestShort:
    def test_dropout_of_nearly_nothing_and_of_all(self):
        for p in (1e-9, 0.5, 1.0):
            given = make("hysan", 5, dropout=p)
            (outputs,), gradients = solve(WAYS["short"], given)
            assert all(x.isfinite().all() for x in (outputs, *gradients.values()))
            assert (outputs == 0).all() == (p == 1.0)
            if p == 1e-9:
                whole = reference(dataclasses.replace(given, dropout=0)).outputs
                torch.testing.assert_close(outputs, whole)

    def test_weights_of_every_branch_are_kept_for_the_gradient_only_if_they_are_few(self):
        """Of more, those that the branches share, even if padding leaves queries without keys."""
        for n, branches in ((100, 4), (200, 1)):
            outputs = short.short(make("hysan", n, padded="left")).outputs
            saved = outputs.grad_fn.next_functions[0][0].saved_tensors
            weights = [x for x in saved if x is not None and x.dim() == 5 and x.size(-1) == n]
            assert {x.size(2) for x in weights} == {branches}


class TestSdpa:
    def test_rows_of_masks_are_aligned(self):
        """PyTorch's kernels on GPUs copy a mask whose rows begin anywhere, at each call."""
        for name, lengths, padded in (("hysan", 30, "none"), ("heads", (3, 50), "left")):
            mask, _ = sdpa._mask(make(name, lengths, padded=padded))
            assert all(stride % 16 == 0 for stride in mask.stride()[:-1]) and mask.stride(-1) == 1

    def test_nothing_is_added_where_nothing_is_forbidden(self):
        assert sdpa._mask(make("global", 9)) == (None, None)
        assert sdpa._mask(make("twice", (1, 9))) == (None, None)  # the last position's past
        mask, sees = sdpa._mask(make("heads", 9))
        assert mask is not None and sees is None  # each position sees itself
        _, sees = sdpa._mask(make("beside", 9))
        assert not sees[..., 0, :].any() and sees[..., 1:, :].all()  # the first sees no past

    def test_layers_of_a_forward_pass_share_masks_but_only_of_the_same_padding(self, monkeypatch):
        made, add = [], sdpa._added
        monkeypatch.setattr(sdpa, "_added", lambda *given: (made.append(1), add(*given))[1])
        first, other = make("hysan", 9, padded="left"), make("hysan", 9, padded="right")
        decoder = dataclasses.replace(first, branches=((PAST,),))
        with sdpa.shared_masks():
            for problem in (first, other, decoder) * 2:
                check(problem, ways={"sdpa": WAYS["sdpa"]})
            assert len(made) == 3
            first.key_padding.logical_not_()  # the same tensor, with other numbers
            check(first, ways={"sdpa": WAYS["sdpa"]})
            with torch.inference_mode():
                sdpa.sdpa(other)
            check(other, ways={"sdpa": WAYS["sdpa"]})
            assert len(made) == 5
            large = make("hysan", 300, batch=(1, 1), width=2)
            for _ in range(2):
                sdpa.sdpa(large)
            assert len(made) == 6
        for _ in range(2):
            check(first, ways={"sdpa": WAYS["sdpa"]})
        assert len(made) == 8


def test_masks_are_remembered_within_bounds():
    for way, compute, cached, padded in (
        (short, short.short, short._masks, "none"),
        (sdpa, sdpa.sdpa, sdpa._unpadded, "none"),
        (sdpa, sdpa.sdpa, sdpa._allowed, "left"),
    ):
        cached.cache_clear()
        for name, n, misses, hits in (("six", 600, 0, 0), ("hysan", 60, 1, 0), ("hysan", 60, 1, 1)):
            compute(make(name, n, batch=(1, 1), width=2, padded=padded))
            assert cached.cache_info()[:2] == (hits, misses), cached
        size = 4 if way is short else 2  # bytes of a number
        assert cached.cache_info().maxsize * way.LARGEST_CACHED_MASK * size <= 64 * 2**20
