"""The region path and its kernel against the reference, and when they step aside."""

import dataclasses
import logging

import pytest
import torch
from attention_problems import (
    PADDED,
    assert_equals_reference,
    assert_no_worse_than_reference,
    assert_zero_without_keys,
    inputs,
    make,
    solve,
)

from fairseq_hybrid_attn.attention import flash, region_layout, regions
from fairseq_hybrid_attn.attention.reference import reference
from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, Band, local, local_past

BRANCHES = {
    "hysan": ((GLOBAL,), (PAST,), (FUTURE,), (local(5),)),
    "everything": ((GLOBAL,), (PAST,), (FUTURE,), (local(1),), (local(2),), (local(5),)),
    "hybrid-gate": ((GLOBAL,), (local(1),)),
    "decoder": ((PAST,), (local_past(5),)),
    "past": ((PAST,),),
    "future": ((FUTURE,), (local(40),)),
    "past-future": ((PAST,), (FUTURE,)),
    "global-future": ((GLOBAL,), (FUTURE,)),
    "past-global": ((PAST,), (GLOBAL,)),
    "twice": ((PAST,), (GLOBAL,), (PAST,), (GLOBAL,)),
    "heads-alike": ((PAST, PAST), (GLOBAL, GLOBAL)),
    "wide": ((local(1000),), (Band(0, 3),), (Band(70, 2),)),
}


@pytest.fixture(params=["squares", "undivided"])
def cutting(request, monkeypatch):
    """Short sentences cut as the longer ones are, or not at all as the longest."""
    monkeypatch.setattr(region_layout, "STEP", 16)
    monkeypatch.setattr(region_layout, "UNDIVIDED", 10**6 if request.param == "squares" else 0)


@pytest.mark.parametrize("mix", [False, True])
@pytest.mark.parametrize("scale", [1.0, 20.0])
@pytest.mark.parametrize("padded", PADDED)
@pytest.mark.parametrize("n", [17, 100])
@pytest.mark.parametrize("name", BRANCHES)
def test_equals_reference(name, n, padded, scale, mix, cutting):
    problem = make(BRANCHES[name], n=n, padded=padded, scale=scale, mix=mix, seed=n)
    assert regions.able(problem)
    assert_equals_reference(regions.regions, problem)


@pytest.mark.parametrize("padded", PADDED)
@pytest.mark.parametrize("n", [1031, 3100])
def test_equals_reference_in_long_sentences(n, padded):
    """Several blocks of the kernel, also such as are nothing but padding."""
    b = 1 if n > 3000 else 3
    problem = make(BRANCHES["hysan"], n=n, b=b, h=1, width=4, padded=padded, scale=5.0)
    assert regions.applies(problem)
    assert_equals_reference(regions.regions, problem)


@pytest.mark.parametrize("mix", [False, True])
@pytest.mark.parametrize("padded", PADDED)
@pytest.mark.parametrize("name", BRANCHES)
def test_double_precision(name, padded, mix, cutting):
    problem = make(BRANCHES[name], n=50, padded=padded, mix=mix, dtype=torch.float64, scale=3.0)
    assert_equals_reference(regions.regions, problem, output_bound=1e-12, gradient_bound=1e-12)


@pytest.mark.parametrize("mix", [False, True])
@pytest.mark.parametrize("name", ["hysan", "hybrid-gate", "decoder"])
def test_gradcheck(name, mix, cutting):
    problem = make(
        BRANCHES[name], n=18, b=3, h=1, width=2, padded="left", mix=mix, dtype=torch.float64
    )

    def outputs(q, k, v, mix=None):
        given = dataclasses.replace(problem, q=q, k=k, v=v, mix=mix)
        return regions.regions(given).outputs

    assert torch.autograd.gradcheck(outputs, inputs(problem), fast_mode=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 20.0, 200.0])
@pytest.mark.parametrize("padded", PADDED[1:])
def test_rows_without_keys(padded, scale, dtype, cutting):
    problem = make(BRANCHES["hysan"], n=40, padded=padded, scale=scale, dtype=dtype)
    assert_zero_without_keys(regions.regions, problem)
    problem = make(BRANCHES["hysan"], n=40, padded=padded, scale=scale, dtype=dtype, mix=True)
    assert_zero_without_keys(regions.regions, problem)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scale", [1.0, 20.0])
@pytest.mark.parametrize("mix", [False, True])
def test_half_precision_is_no_worse_than_the_reference(mix, scale, dtype):
    problem = make(BRANCHES["hysan"], n=100, padded="right", scale=scale, dtype=dtype, mix=mix)
    assert_no_worse_than_reference(regions.regions, problem)


@pytest.mark.parametrize("share", [(2, 1, 1, 1, 1), (2, 4, 1, 50, 1), (2, 4, 2, 1, 1)])
def test_mix_may_be_of_size_one_anywhere(share):
    problem = make(((GLOBAL,), (PAST,)), n=50)
    mix = torch.rand(share).requires_grad_()
    assert_equals_reference(regions.regions, dataclasses.replace(problem, mix=mix))


def test_layouts():
    """As from a projection, expanded over sentences, and with rows spread out in memory."""
    problem = make(BRANCHES["hysan"], n=33)
    b, h, n, width = problem.q.shape
    q = problem.q.detach().permute(2, 0, 1, 3).contiguous().permute(1, 2, 0, 3).requires_grad_()
    k = problem.k.detach()[:1].expand(b, h, n, width).requires_grad_()
    v = problem.v.detach().mT.contiguous().mT.requires_grad_()
    assert not q.is_contiguous() and k.stride(0) == 0 and v.stride(-1) != 1
    assert_equals_reference(regions.regions, dataclasses.replace(problem, q=q, k=k, v=v))


@pytest.mark.parametrize("b, h, width", [(1, 1, 1), (1, 3, 5), (2, 1, 16)])
def test_small_shapes(b, h, width):
    assert_equals_reference(regions.regions, make(BRANCHES["hysan"], n=21, b=b, h=h, width=width))


def test_only_some_gradients_wanted():
    problem = make(BRANCHES["hysan"], n=30)
    problem = dataclasses.replace(problem, q=problem.q.detach(), v=problem.v.detach())
    outputs = regions.regions(problem).outputs
    (ours,) = torch.autograd.grad(outputs.sin().sum(), problem.k)
    (theirs,) = torch.autograd.grad(reference(problem).outputs.sin().sum(), problem.k)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-5)


def test_training_after_inference():
    """What inference leaves behind serves a gradient afterwards."""
    problem = make(BRANCHES["hysan"], n=77)
    with torch.inference_mode():
        expected = regions.regions(problem).outputs
    assert solve(regions.regions, problem)[1][0].isfinite().all()
    torch.testing.assert_close(regions.regions(problem).outputs, expected)


def test_what_it_is_not_able_to():
    problem = make(BRANCHES["hysan"], n=1050, b=1, h=2)
    assert regions.applies(problem)
    for change in (
        {"dropout": 0.1},
        {"need_weights": True},
        {"bias": torch.zeros(1)},
        {"branches": ((GLOBAL, PAST),)},
        {"branches": ((Band(behind=3),),)},
        {"q": problem.q[:, :, 1:]},
    ):
        assert not regions.able(dataclasses.replace(problem, **change))
    short = make(BRANCHES["hysan"], n=300, b=1)
    assert regions.able(short) and not regions.applies(short)


class TestKernel:
    """attention/flash.py"""

    @pytest.fixture(autouse=True)
    def untested(self):
        flash._passes_its_test.cache_clear()
        yield
        flash._passes_its_test.cache_clear()

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_passes_its_test(self, dtype):
        assert flash.available(torch.zeros(1, dtype=dtype))

    def test_not_for_other_types_or_devices(self):
        assert not flash.available(torch.zeros(1, dtype=torch.float16))
        assert not flash.available(torch.zeros(1, device="meta"))

    @pytest.mark.parametrize("fault", ["lse", "gone", "nan", "gradient", "signature"])
    def test_a_kernel_that_fails_is_not_used(self, fault, monkeypatch, caplog):
        forward, backward = flash.forward, flash.backward

        def faulty_forward(*args, **kwargs):
            output, lse = forward(*args, **kwargs)
            if fault == "gone":
                raise AttributeError("no such operator")
            if fault == "signature":
                raise TypeError("got an unexpected keyword argument")
            if fault == "lse":  # as if rows without keys had another one
                lse = lse.masked_fill(lse == 0, -torch.inf)
            if fault == "nan":
                output = output.clone()
                output[0, 0, 0, 0] = torch.nan
            return output, lse

        def faulty_backward(*args, **kwargs):
            grads = backward(*args, **kwargs)
            return (grads[0], grads[1] * 1.001, grads[2]) if fault == "gradient" else grads

        monkeypatch.setattr(flash, "forward", faulty_forward)
        monkeypatch.setattr(flash, "backward", faulty_backward)
        problem = make(BRANCHES["hysan"], n=1050, b=1)
        with caplog.at_level(logging.WARNING, logger=flash.__name__):
            assert not regions.applies(problem)
            assert not regions.applies(problem)
        assert len(caplog.records) == 1
        assert "slower" in caplog.text

    def test_can_be_switched_off(self, monkeypatch):
        monkeypatch.setattr(flash, "ENABLED", False)
        assert not regions.able(make(BRANCHES["hysan"], n=1050, b=1))

    def test_leaves_random_numbers_alone(self):
        torch.manual_seed(0)
        expected = torch.rand(3)
        torch.manual_seed(0)
        flash.available(torch.zeros(1))
        assert torch.rand(3).equal(expected)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("size", [0.0, 1e-30, 1e-14, 1e-5, 1.0, 1e10])
    @pytest.mark.parametrize("delta", [0.0, 1e-20, -3.0, 1e8])
    def test_stand_in(self, delta, size, dtype):
        torch.manual_seed(0)
        grad = torch.randn(2, 3, 5, 8, dtype=dtype) * size
        before = grad.clone()
        deltas = torch.full((2, 3, 5), delta, dtype=dtype)
        stand_in = flash.stand_in(grad, deltas)
        assert stand_in.isfinite().all()
        product = (grad.double() * stand_in.double()).sum(-1)
        # Numbers of 1e-15 are added where there is next to nothing.
        bound = 1e-6 * abs(delta) + 1e-14
        assert (product - deltas.double()).abs().max() <= bound
        assert (grad - before).abs().max() <= max(1e-15, 2e-12 * abs(delta))

    def test_branches_whose_gradients_cancel(self):
        """The shares of grad vanish in a region, what they have to take off does not."""
        problem = make(((GLOBAL,), (PAST,)), n=20, b=1, h=1, width=2, dtype=torch.float64)
        one = make(((GLOBAL,), (PAST,)), n=20, b=1, h=1, width=2, dtype=torch.float64)
        upstream = torch.randn(2, 1, 1, 20, 2, dtype=torch.float64)
        # In row i the past has the share w in global and 1 in past: grad_past = -w grad_global.
        outputs = regions.regions(problem).outputs
        scores = (problem.q @ problem.k.mT)[0, 0]
        past = scores.tril().masked_fill(torch.ones(20, 20).triu(1).bool(), -torch.inf)
        share = (past.logsumexp(-1) - scores.logsumexp(-1)).exp()
        upstream[1] = -share[:, None] * upstream[0]
        ours = torch.autograd.grad((outputs * upstream.detach()).sum(), inputs(problem))
        theirs = torch.autograd.grad(
            (reference(one).outputs * upstream.detach()).sum(), inputs(one)
        )
        for got, want in zip(ours, theirs, strict=True):
            torch.testing.assert_close(got, want, rtol=0, atol=1e-9)
