"""Rotary positions and ALiBi, against a loop over complex numbers and distances."""

import cmath
import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from models import build_language_model, build_tiny
from torch import nn

from fairseq_hybrid_attn.attention import AttentionPlan, PatternedAttention
from fairseq_hybrid_attn.attention.compute import compute
from fairseq_hybrid_attn.attention.fusion import Concat, GatedSum, HiddenGate, QueryGate, Sum
from fairseq_hybrid_attn.attention.gaussian import GaussianBias
from fairseq_hybrid_attn.attention.multihead import KeyValueCache
from fairseq_hybrid_attn.attention.positions import slopes_of
from fairseq_hybrid_attn.attention.reference import reference
from fairseq_hybrid_attn.attention.sdpa import sdpa
from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, local, local_past

D, H = 24, 4
KINDS = ("rotary", "alibi")
PLANS = {
    "heads": AttentionPlan.of_heads((GLOBAL, local(1), FUTURE, PAST), H),
    "gated": AttentionPlan.of_branches(
        (GLOBAL, PAST, FUTURE, local(2)), partial(GatedSum, squeeze_ratio=4)
    ),
    "causal": AttentionPlan.of_branches((PAST, local_past(2)), Sum),
    "concat": AttentionPlan.of_branches((GLOBAL, local(1)), Concat),
    "hidden-gate": AttentionPlan.of_branches((GLOBAL, local(1)), HiddenGate),
    "query-gate": AttentionPlan.of_branches((GLOBAL, local(1)), QueryGate),
    "local-s": AttentionPlan(bias=partial(GaussianBias, predict_centre=True, window=None)),
}
CAUSAL = [AttentionPlan.of_heads((PAST, local_past(1), PAST, local_past(2)), H)] + [
    AttentionPlan.of_branches((PAST, local_past(2)), fusion)
    for fusion in (Sum, Concat, HiddenGate, QueryGate, partial(GatedSum, squeeze_ratio=4))
]


def attention(plan, kind, dtype=torch.float64):
    torch.manual_seed(0)
    module = PatternedAttention(D, H, replace(plan, relative_positions=kind))
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module.to(dtype).eval()


def by_loops(module, x, padding):
    """Weights ``[l, b, h, n, n]``, a product of two numbers at a time."""
    queries, keys = (layer(x).detach() for layer in (module.q_proj, module.k_proj))
    n, b, _ = x.shape
    width, bias = D // H, torch.zeros(b, 1, n, n)
    if module.bias is not None:
        bias = module.bias(queries.transpose(0, 1), padding)
    weights = torch.zeros(len(module.branches), b, H, n, n, dtype=torch.float64)
    for s in range(b):
        for h in range(H):
            q, k = (
                y[:, s, h * width : (h + 1) * width].reshape(n, -1, 2).tolist()
                for y in (queries, keys)
            )
            for i in range(n):
                scores = []
                for j in range(n):
                    score = sum(
                        (
                            complex(*a)
                            * complex(*c).conjugate()
                            * (
                                cmath.exp(1j * (i - j) / 10000 ** (2 * pair / width))
                                if module.relative_positions == "rotary"
                                else 1
                            )
                        ).real
                        for pair, (a, c) in enumerate(zip(q[i], k[j], strict=True))
                    )
                    score = score / math.sqrt(width) + bias[s, 0, i, j].item()
                    if module.relative_positions == "alibi":
                        score -= abs(i - j) / 4 ** (h + 1)  # four heads: 2^(-8 / 4) and so on
                    scores.append(score)
                for number, branch in enumerate(module.branches):
                    sees = branch[h if len(branch) > 1 else 0].mask(n, n)[i]
                    parts = [
                        math.exp(score) if sees[j] and not padding[s, j] else 0.0
                        for j, score in enumerate(scores)
                    ]
                    if total := sum(parts):
                        weights[number, s, h, i] = torch.tensor(parts, dtype=torch.float64) / total
    return weights


def padded(dtype=torch.float64):
    """Seven positions, padded on the left, not at all, and on the right."""
    torch.manual_seed(5)
    padding = torch.zeros(3, 7, dtype=torch.bool)
    padding[0, :2] = padding[2, 4:] = True
    return torch.randn(7, 3, D, dtype=dtype), padding


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PLANS)
def test_weights_are_those_of_a_loop(name, kind):
    module, (x, padding) = attention(PLANS[name], kind), padded()
    expected, real = by_loops(module, x, padding), ~padding[:, None, :, None]
    for dtype, bound in ((torch.float64, 1e-12), (torch.float32, 5e-6)):
        found = module.to(dtype).attend(x.to(dtype), padding).weights
        assert ((found - expected) * real).abs().max() < bound


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PLANS)
def test_all_ways_and_their_gradients_agree(name, kind):
    module, (x, padding) = attention(PLANS[name], kind), padded()

    def loss(given):
        record = module.attend(given, padding, need_weights=False, need_branches=False)
        return (record.output * ~padding.t().unsqueeze(2)).sin().sum()

    found = []
    for way in (reference, sdpa, compute):
        module.compute, given = way, x.clone().requires_grad_()
        found.append(
            torch.autograd.grad(loss(given), [given, *module.parameters()], allow_unused=True)
        )
    assert torch.autograd.gradcheck(loss, given, fast_mode=True)  # by finite differences
    for other in found[1:]:
        for gradient, expected in zip(other, found[0], strict=True):
            torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PLANS)
def test_left_padding_changes_nothing(name, kind):
    """Nor would any other shift of a sentence; its order does change something.

    (A mirrored sentence would not do: a symmetric ALiBi cannot tell it from the sentence.)
    """
    module, (x, _) = attention(PLANS[name], kind), padded()
    alone = module.attend(x).output
    padding = torch.arange(12).lt(5).expand(3, 12)
    shifted = module.attend(torch.cat([torch.randn(5, 3, D).double(), x]), padding).output[5:]
    torch.testing.assert_close(shifted, alone, rtol=0, atol=1e-12)
    order = torch.tensor([0, 3, 1, 2, 4, 6, 5])
    assert not torch.allclose(module.attend(x[order]).output, alone[order])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("plan", CAUSAL)
def test_step_by_step_is_the_whole(plan, kind):
    """Positions go on where the cache ends, whatever is padding."""
    module, (x, padding) = attention(plan, kind), padded()
    whole, cache = module.attend(x, padding), KeyValueCache()
    for first, last in ((0, 3), (3, 4), (4, 7)):
        step = module.attend(x[first:last], padding[:, first:last], cache).output
        torch.testing.assert_close(step, whole.output[first:last], rtol=0, atol=1e-12)


def test_slopes_are_those_of_the_paper():
    assert slopes_of(8) == [2.0**-k for k in range(1, 9)]
    twelve = slopes_of(12)
    assert twelve[:8] == slopes_of(8) and twelve[8:] == slopes_of(16)[0:8:2]


@pytest.mark.parametrize("kind", KINDS)
def test_they_replace_embeddings_where_a_side_has_positions(kind):
    odd = {"encoder_embed_dim": 12, "decoder_embed_dim": 16}  # three dimensions a head
    for off, sides in (
        ({}, {"encoder", "decoder"}),
        ({"no_encoder_positions": True, **odd}, {"decoder"}),
        ({"no_decoder_positions": True}, {"encoder"}),
        ({"no_token_positional_embeddings": True}, set()),
    ):
        model = build_tiny("lstm-on-top", relative_positions=kind, **off)
        for side in ("encoder", "decoder"):
            part = getattr(model, side)
            assert part.embed_positions is None
            kinds = {getattr(layer.self_attn, "relative_positions", None) for layer in part.layers}
            assert kinds == {kind if side in sides else None}
    model = build_language_model("transformer_lm_hysan", relative_positions=kind)
    assert model.decoder.embed_positions is None
    assert all(layer.self_attn.relative_positions == kind for layer in model.decoder.layers)


def test_an_odd_width_has_no_rotary_positions():
    with pytest.raises(ValueError, match="pairs"):
        PatternedAttention(12, 4, AttentionPlan(relative_positions="rotary"))
