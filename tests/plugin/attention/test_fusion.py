"""Fusions: their equations, and shares known before attention."""

from functools import partial

import pytest
import torch

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.attention import AttentionPlan, PatternedAttention
from fairseq_hybrid_attn.attention.fusion import Concat, GatedSum, HiddenGate, QueryGate, Sum
from fairseq_hybrid_attn.patterns import PAST

L, N, B, D, H = 2, 5, 3, 16, 4
SG = partial(GatedSum, squeeze_ratio=4)


def random(*shape, dtype=torch.float64):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(len(shape)))


def defined(fusion, x):
    """HySAN Eq. 13 and 14."""
    gates = torch.sigmoid(torch.relu(x @ fusion.squeeze.weight.T) @ fusion.expand.weight.T)
    return (x * gates).sum(0), gates


def test_fusions_are_their_equations():
    torch.manual_seed(0)
    hidden, queries = random(N, B, D), random(B, N, D).transpose(0, 1)
    branches = random(L, N, B, D)
    first, second = branches
    gated, by_hidden, by_query = (f(D, H, L).double() for f in (SG, HiddenGate, QueryGate))
    assert gated.squeeze.weight.shape == (D // 4, D) and gated.expand.weight.shape == (D, D // 4)
    g = torch.sigmoid((hidden * by_hidden.gate.weight[0]).sum(-1, keepdim=True))  # [n, b, 1]
    of_heads = torch.sigmoid(torch.einsum("nbd,hd->nbh", queries, by_query.gate.weight))
    wide = torch.stack([of_heads] * (D // H), -1).flatten(2)
    for fusion, fused, its_gates in (
        (Sum(D, H, L), first + second, None),
        (Concat(D, H, L), torch.stack([first, second], 2).flatten(2), None),
        (gated, *defined(gated, branches)),
        (by_hidden, (1 - g) * first + g * second, g),
        (by_query, (1 - wide) * first + wide * second, of_heads),
    ):
        got, got_gates = fusion(branches, hidden, queries)
        torch.testing.assert_close(got, fused)
        assert fusion.width == fused.size(-1)
        assert (got_gates is None) == (its_gates is None)
        if its_gates is not None:
            torch.testing.assert_close(got_gates, its_gates)
        mix = fusion.mixture(hidden, queries)
        assert (mix is None) == isinstance(fusion, Concat | GatedSum)
        if mix is not None:
            by_head = branches.view(L, N, B, H, D // H).permute(0, 2, 3, 1, 4)  # [l, b, h, n, d_k]
            mixed = (mix * by_head).sum(0).permute(2, 0, 1, 3).flatten(2)
            torch.testing.assert_close(mixed, fused, rtol=0, atol=1e-12)
    assert abs(QueryGate(512, 8, 2).gate.weight.std().item() - 0.1) < 0.01


def test_a_single_branch_is_not_fused():
    assert Sum(D, H, 1).mixture(random(N, B, D), random(N, B, D)) is None
    module = PatternedAttention(D, H, AttentionPlan.of_branches((PAST,), SG))
    assert not list(module.fusion.parameters())


def gated_sum(dtype=torch.float64):
    torch.manual_seed(0)
    return SG(D, H, 4).to(dtype)


def solve(compute, fusion, x, learned="both"):
    x = x.detach().requires_grad_()
    fused, gates = compute(x)
    loss = {"fused": fused.sin().sum(), "gates": gates.cos().sum()}
    loss["both"] = loss["fused"] + loss["gates"]
    return fused, gates, *torch.autograd.grad(loss[learned], (x, *fusion.parameters()))


def test_gated_sum_is_its_definition():
    half = ((torch.float16, 0), (torch.bfloat16, 0))
    for dtype, bound in ((torch.float64, 1e-12), (torch.float32, 1e-5), *half):
        fusion, x = gated_sum(dtype), random(4, B, N, D, dtype=dtype).transpose(1, 2)
        for learned in ("fused", "gates", "both"):
            got = solve(lambda x, f=fusion: f(x, x, x), fusion, x, learned)
            expected = solve(partial(defined, fusion), fusion, x, learned)
            for mine, want in zip(got, expected, strict=True):
                torch.testing.assert_close(mine, want, rtol=0, atol=bound, msg=learned)


def test_gated_sum_has_second_derivatives():
    fusion, x = gated_sum(), random(4, 2, 1, D).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: fusion(x, x, x)[0], x, fast_mode=True)


def test_gated_sum_under_autocast():
    for dtype in (torch.float16, torch.bfloat16):
        fusion, x = gated_sum(torch.float32), random(4, 3, 2, D).to(dtype)
        with torch.autocast("cpu", dtype=dtype):
            fused, _, *gradients = solve(lambda x, f=fusion: f(x, x, x), fusion, x)
        want = defined(fusion, x.float())[0]
        torch.testing.assert_close(fused.float(), want, rtol=0.02, atol=0.02)
        assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("ratio", [0, -4, 3, 2 * D])
def test_a_squeeze_ratio_divides_the_width(ratio):
    """Beyond the width, gates would have no width and be 0.5 for ever."""
    with pytest.raises(UserError, match=f"squeeze_ratio={ratio} .*divisor of the width, {D}"):
        GatedSum(D, H, L, squeeze_ratio=ratio)
