"""Branches added up before they meet the values: the same as after, gradients included."""

from functools import partial

import pytest
import torch
from test_attention import PLANS, D, H, attention, call

from fairseq_hybrid_attn.attention import multihead, record_attention
from fairseq_hybrid_attn.attention.fusion import Concat, GatedSum, HiddenGate, QueryGate, Sum
from fairseq_hybrid_attn.attention.problem import AttentionProblem
from fairseq_hybrid_attn.attention.reference import reference
from fairseq_hybrid_attn.patterns import GLOBAL, PAST, local

MIXED = ("sum", "hidden-gate", "query-gate")


def padded():
    torch.manual_seed(0)
    x = torch.randn(6, 3, D, dtype=torch.float64)
    padding = torch.zeros(3, 6, dtype=torch.bool)
    padding[0, :2] = True
    padding[2, 4:] = True
    return x, padding


@pytest.mark.parametrize("fusion", [Sum, HiddenGate, QueryGate])
def test_mixture_is_forward(fusion):
    torch.manual_seed(0)
    n, b = 5, 3
    module = fusion(D, H, 2).double()
    branches = torch.randn(2, n, b, D, dtype=torch.float64)
    hidden, queries = (torch.randn(n, b, D, dtype=torch.float64) for _ in range(2))
    mix = module.mixture(hidden, queries)
    by_head = branches.view(2, n, b, H, D // H).permute(0, 2, 3, 1, 4)  # [l, b, h, n, d_k]
    mixed = (mix * by_head).sum(dim=0).permute(2, 0, 1, 3).reshape(n, b, D)
    torch.testing.assert_close(mixed, module(branches, hidden, queries)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("fusion", [Concat, partial(GatedSum, squeeze_ratio=4)])
def test_fusions_that_look_at_outputs_have_no_mixture(fusion):
    x = torch.randn(5, 3, D)
    assert fusion(D, H, 2).mixture(x, x) is None


def test_a_single_branch_is_not_mixed():
    x = torch.randn(5, 3, D)
    assert Sum(D, H, 1).mixture(x, x) is None


def test_mix_of_the_reference_from_its_definition():
    torch.manual_seed(0)
    b, h, n, d_k = 2, 3, 4, 5
    given = {
        "q": torch.randn(b, h, n, d_k),
        "k": torch.randn(b, h, n, d_k),
        "v": torch.randn(b, h, n, d_k),
        "branches": ((GLOBAL,), (PAST,), (local(1),)),
    }
    mix = torch.rand(3, b, h, n, 1)
    apart = reference(AttentionProblem(**given)).outputs
    together = reference(AttentionProblem(**given, mix=mix)).outputs
    assert together.shape == (1, b, h, n, d_k)
    expected = mix[0] * apart[0] + mix[1] * apart[1] + mix[2] * apart[2]
    torch.testing.assert_close(together[0], expected)


@pytest.mark.parametrize("name", PLANS)
def test_only_these_plans_are_mixed(name, monkeypatch):
    seen = []
    compute = multihead.compute
    monkeypatch.setattr(multihead, "compute", lambda p: (seen.append(p.mix), compute(p))[1])
    module, (x, padding) = attention(PLANS[name]), padded()
    call(module, x, padding)
    with record_attention(module):
        call(module, x, padding)
    assert (seen[0] is not None) == (name in MIXED)
    assert seen[1] is None


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("name", PLANS)
def test_recorded_training_is_training(name, dropout):
    """Outputs and gradients, with the same random numbers dropped."""
    results = []
    for recorded in (False, True):
        module = attention(PLANS[name], dropout=dropout).train()
        x, padding = padded()
        x.requires_grad_()
        torch.manual_seed(4)
        if recorded:
            with record_attention(module) as records:
                y = call(module, x, padding)
        else:
            y = call(module, x, padding)
        y[~padding.T].tanh().sum().backward()
        results.append([y, x.grad] + [p.grad for p in module.parameters()])
    for plain, same in zip(*results, strict=True):
        torch.testing.assert_close(plain, same, rtol=0, atol=1e-10)
    (record,) = records[""]
    assert record.branches is not None and record.weights is not None
    assert (record.gates is not None) == (name in ("gated", "hidden-gate", "query-gate"))


@pytest.mark.parametrize("wanted", [True, False])
def test_branches_and_gates_on_request(wanted):
    module, (x, padding) = attention(PLANS["hidden-gate"]), padded()
    record = module.attend(x, padding, need_weights=wanted, need_branches=wanted)
    for part in (record.weights, record.branches, record.gates):
        assert (part is not None) == wanted
    torch.testing.assert_close(record.output, call(module, x, padding), rtol=0, atol=1e-12)


# --- the gated sum, whose gradient is written down ---------------------------------------


def plain_gated_sum(module, branches):
    gates = torch.sigmoid(module.expand(torch.relu(module.squeeze(branches))))
    return (branches * gates).sum(dim=0), gates


@pytest.mark.parametrize("of", ["fused", "gates", "both"])
def test_gated_sum_is_its_plain_form(of):
    torch.manual_seed(0)
    module = GatedSum(D, H, 3, squeeze_ratio=2).double()
    branches = torch.randn(3, 5, 2, D, dtype=torch.float64, requires_grad=True)
    results = []
    for function in (lambda m, x: m(x, None, None), plain_gated_sum):
        module.zero_grad()
        branches.grad = None
        fused, gates = function(module, branches)
        loss = fused.sin().sum() if of != "gates" else 0.0
        loss = loss + gates.cos().sum() if of != "fused" else loss
        loss.backward()
        results.append([fused, gates, branches.grad, *(p.grad for p in module.parameters())])
    for mine, want in zip(*results, strict=True):
        torch.testing.assert_close(mine, want, rtol=0, atol=1e-12)


def test_gated_sum_gradcheck():
    torch.manual_seed(0)
    module = GatedSum(D, H, 2, squeeze_ratio=2).double()
    x = torch.randn(2, 3, 2, D, dtype=torch.float64).transpose(1, 2).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x, *_: module(x, None, None), (x, module.squeeze.weight, module.expand.weight)
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gated_sum_in_mixed_precision(dtype):
    torch.manual_seed(0)
    module = GatedSum(D, H, 2, squeeze_ratio=2)
    x = torch.randn(2, 3, 2, D).to(dtype).requires_grad_()
    with torch.autocast("cpu", dtype=dtype):
        fused, _ = module(x, None, None)
    fused.sum().backward()
    expected, _ = plain_gated_sum(module, x.detach().float())
    torch.testing.assert_close(fused.float(), expected, rtol=0.02, atol=0.02)
    assert module.squeeze.weight.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gated_sum_of_half_precision_is_no_worse_than_its_plain_form(dtype):
    torch.manual_seed(0)
    size = 64
    module = GatedSum(size, H, 4, squeeze_ratio=4).to(dtype)
    x = torch.randn(4, 10, 8, size).to(dtype)
    results = []
    for function, kind in (
        (lambda m, x: m(x, None, None), dtype),
        (plain_gated_sum, dtype),
        (plain_gated_sum, torch.float64),
    ):
        module.to(kind).zero_grad()
        inputs = x.detach().clone().to(kind).requires_grad_()
        fused, _ = function(module, inputs)
        fused.tanh().sum().backward()
        results.append([fused, inputs.grad, *(p.grad.clone() for p in module.parameters())])
    for mine, plain, exact in zip(*results, strict=True):
        assert mine.dtype == dtype
        error, allowed = ((y.double() - exact).pow(2).mean().sqrt() for y in (mine, plain))
        assert error <= 1.05 * allowed
