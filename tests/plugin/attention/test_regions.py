"""The kernel under the region path, and when it steps aside; see test_paths.py for the rest."""

from itertools import product

import pytest
import torch
from attention_problems import make, tensors

from fairseq_hybrid_attn.attention import flash, regions
from fairseq_hybrid_attn.attention.reference import reference
from fairseq_hybrid_attn.patterns import GLOBAL, PAST


@pytest.fixture(autouse=True)
def untested():
    flash._passes_its_test.cache_clear()
    yield
    flash._passes_its_test.cache_clear()


def test_the_kernel_passes_its_test_and_can_be_switched_off(monkeypatch):
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


def test_a_kernel_that_fails_is_not_used(monkeypatch, caplog):
    forward, backward = flash.forward, flash.backward
    problem = make("hysan", 1050, batch=(1, 2))
    for fault in ("lse", "nan", "causal", 0, 1, 2, AttributeError("no operator"), TypeError("x")):

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


def test_stand_in():
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


def test_branches_whose_gradients_cancel():
    """The shares of grad vanish in a region, what they have to take off does not."""
    settings = {"batch": (1, 1), "width": 2, "dtype": torch.float64}
    upstream = torch.randn(2, 1, 1, 20, 2, dtype=torch.float64)
    # In row i the past has the share w in global and 1 in past: grad_past = -w grad_global.
    ours, theirs = (make(((GLOBAL,), (PAST,)), 20, **settings) for _ in range(2))
    scores = (ours.q @ ours.k.mT).detach()[0, 0]
    past = scores.masked_fill(torch.ones(20, 20).triu(1).bool(), -torch.inf)
    upstream[1] = -(past.logsumexp(-1) - scores.logsumexp(-1)).exp()[:, None] * upstream[0]
    results = [
        torch.autograd.grad((path(given).outputs * upstream).sum(), list(tensors(given).values()))
        for path, given in ((regions.regions, ours), (reference, theirs))
    ]
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=1e-9)
