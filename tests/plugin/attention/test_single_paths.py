"""What only one path can get wrong; test_paths.py holds all of them against the reference."""

import dataclasses
from itertools import product

import numpy
import pytest
import torch
from attention_problems import WAYS, make, solve, tensors
from brute_force import KINDS
from scipy.special import softmax

from fairseq_hybrid_attn.attention import flash, regions, short
from fairseq_hybrid_attn.attention.reference import masked_softmax, reference
from fairseq_hybrid_attn.attention.region_layout import Layout
from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, local

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


def everything(way, problem):
    parts, gradients = solve(way, problem)
    return [*parts, *gradients.values()]


class TestShort:
    def test_dropout_of_nearly_nothing_and_of_all(self):
        for p in (1e-9, 0.5, 1.0):
            given = make("hysan", 5, dropout=p)
            outputs, *gradients = everything(WAYS["short"], given)
            assert all(x.isfinite().all() for x in (outputs, *gradients))
            assert (outputs == 0).all() == (p == 1.0)
            if p == 1e-9:
                whole = reference(dataclasses.replace(given, dropout=0)).outputs
                torch.testing.assert_close(outputs, whole)

    def test_autocast_changes_no_more_than_its_inputs(self):
        for dtype in HALF:
            given = make("hysan", 10, dtype=dtype)
            plain = everything(WAYS["short"], given)
            with torch.autocast("cpu", dtype=dtype):
                cast = everything(WAYS["short"], given)
                assert short.short(make("hysan", 10)).outputs.dtype == torch.float32
            assert all(a.equal(b) for a, b in zip(plain, cast, strict=True))

    def test_masks_are_remembered_within_bounds(self):
        short._masks.cache_clear()
        for n in range(1, 200):
            short.short(make("hybrid", n, batch=(1, 1)))
        info = short._masks.cache_info()
        assert info.currsize <= info.maxsize and info.hits == 0
        assert info.maxsize * short.LARGEST_CACHED_MASK * 4 <= 64 * 2**20
        short.short(make("six", 600, batch=(1, 1)))
        assert short._masks.cache_info().misses == info.misses
        short.short(make("hybrid", 199, batch=(1, 1)))
        assert short._masks.cache_info().hits == 1

    def test_weights_of_every_branch_are_kept_for_the_gradient_only_if_they_are_few(self):
        """Of more, those that the branches share, even if padding leaves queries without keys."""
        for n, branches in ((100, 4), (200, 1)):
            outputs = short.short(make("hysan", n, padded="left")).outputs
            saved = outputs.grad_fn.next_functions[0][0].saved_tensors
            weights = [x for x in saved if x is not None and x.dim() == 5 and x.size(-1) == n]
            assert {x.size(2) for x in weights} == {branches}


class TestRegions:
    """The kernel under the path, and when it is not used."""

    @pytest.fixture(autouse=True)
    def untested(self):
        flash._passes_its_test.cache_clear()
        yield
        flash._passes_its_test.cache_clear()

    def test_the_kernel_passes_its_test_and_can_be_switched_off(self, monkeypatch):
        torch.manual_seed(0)
        expected = torch.rand(3)
        torch.manual_seed(0)
        for dtype in (torch.float32, torch.float64):
            assert flash.available(torch.zeros(1, dtype=dtype))
        assert torch.rand(3).equal(expected)  # random numbers are left alone
        assert not flash.available(torch.zeros(1, dtype=torch.float16))
        assert not flash.available(torch.zeros(1, device="meta"))
        monkeypatch.setattr(flash, "ENABLED", False)
        assert not regions.able(make("hysan", 1050, batch=(1, 1)))

    def test_a_kernel_that_fails_is_not_used(self, monkeypatch, caplog):
        forward, backward = flash.forward, flash.backward
        problem = make("hysan", 1050, batch=(1, 2))
        errors = AttributeError("no operator"), TypeError("x")
        for fault in ("lse", "nan", "causal", 0, 1, 2, *errors):

            def faulty_forward(*args, causal=False, fault=fault, **kwargs):
                if isinstance(fault, Exception):
                    raise fault
                output, lse = forward(*args, causal=causal and fault != "causal", **kwargs)
                if fault == "lse":  # as if rows without keys had another one
                    lse = lse.masked_fill(lse == 0, -torch.inf)
                if fault == "nan":
                    output = output.where(output != output.max(), torch.nan)
                return output, lse

            def faulty_backward(*args, fault=fault, **kwargs):
                found = enumerate(backward(*args, **kwargs))
                return [x * (1.001 if fault == i else 1) for i, x in found]

            monkeypatch.setattr(flash, "forward", faulty_forward)
            monkeypatch.setattr(flash, "backward", faulty_backward)
            flash._passes_its_test.cache_clear()
            caplog.clear()
            assert not any(regions.applies(problem) for _ in range(2)), fault
            assert len(caplog.records) == 1 and "slower" in caplog.text, fault

    def test_a_region_that_no_other_branch_needs_a_part_of_is_one_call(self):
        half = 4 + 3  # squares and rectangles of 1,024 positions
        for branches, calls in (
            ((GLOBAL,), 1),
            ((PAST,), 1),
            ((FUTURE,), 1),
            ((GLOBAL, local(1)), 2),
            ((GLOBAL, PAST), 2 * half),
            ((GLOBAL, FUTURE), 2 * half + 1),
            ((PAST, FUTURE), 2 * half + 1),
        ):
            assert sum(map(len, Layout.of(branches, 1024).layers)) == calls, branches

    def test_stand_in(self):
        """Its product with the gradient is delta, and the gradient hardly changes."""
        dtypes, sizes = (torch.float32, torch.float64), (0.0, 1e-30, 1e-14, 1e-5, 1.0, 1e10)
        for dtype, size, delta in product(dtypes, sizes, (0.0, 1e-20, -3.0, 1e8)):
            torch.manual_seed(0)
            grad = torch.randn(2, 3, 5, 8, dtype=dtype) * size
            before, deltas = grad.clone(), torch.full((2, 3, 5), delta, dtype=dtype)
            stand_in = flash.stand_in(grad, deltas)
            assert stand_in.isfinite().all()
            off = (grad.double() * stand_in.double()).sum(-1) - deltas.double()
            # Numbers of 1e-15 are added where there is next to nothing.
            assert off.abs().max() <= 1e-6 * abs(delta) + 1e-14, (dtype, size, delta)
            changed = (grad - before).abs().max()
            assert changed <= max(1e-15, 2e-12 * abs(delta)), (dtype, size, delta)

    def test_branches_whose_gradients_cancel(self):
        """The shares of grad vanish in a region; what must be subtracted does not."""
        settings = {"batch": (1, 1), "width": 2, "dtype": torch.float64}
        upstream = torch.randn(2, 1, 1, 20, 2, dtype=torch.float64)
        # In row i the past has the share w in global and 1 in past: grad_past = -w grad_global.
        ours, theirs = (make(((GLOBAL,), (PAST,)), 20, **settings) for _ in range(2))
        scores = (ours.q @ ours.k.mT).detach()[0, 0]
        past = scores.masked_fill(torch.ones(20, 20).triu(1).bool(), -torch.inf)
        upstream[1] = -(past.logsumexp(-1) - scores.logsumexp(-1)).exp()[:, None] * upstream[0]
        results = [
            torch.autograd.grad((path(given).outputs * upstream).sum(), [*tensors(given).values()])
            for path, given in ((regions.regions, ours), (reference, theirs))
        ]
        for got, want in zip(*results, strict=True):
            torch.testing.assert_close(got, want, rtol=0, atol=1e-9)
