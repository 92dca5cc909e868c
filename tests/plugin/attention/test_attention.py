"""The attention module; test_models.py has batches, padding and finite gradients."""

import copy
import math
from contextlib import nullcontext
from functools import partial

import pytest
import torch
from fairseq.modules import MultiheadAttention
from torch import nn

from fairseq_hybrid_attn.attention import AttentionPlan, PatternedSelfAttention, multihead
from fairseq_hybrid_attn.attention.fusion import Concat, GatedSum, HiddenGate, QueryGate, Sum
from fairseq_hybrid_attn.attention.gaussian import GaussianBias
from fairseq_hybrid_attn.attention.recording import record_attention
from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, local

D, H = 8, 4
SG = partial(GatedSum, squeeze_ratio=4)
ENCODER = (GLOBAL, PAST, FUTURE, local(2))

PLANS = {
    "global": AttentionPlan(),
    "past": AttentionPlan(branches=((PAST,),)),
    "local": AttentionPlan(branches=((local(1),),)),
    "heads": AttentionPlan.of_heads((GLOBAL, local(1), FUTURE, PAST), H),
    "gated": AttentionPlan.of_branches(ENCODER, SG),
    "sum": AttentionPlan.of_branches(ENCODER, Sum),
    "concat": AttentionPlan.of_branches(ENCODER, Concat),
    "hidden-gate": AttentionPlan.of_branches((GLOBAL, local(1)), HiddenGate),
    "query-gate": AttentionPlan.of_branches((GLOBAL, local(1)), QueryGate),
    "neighbor": AttentionPlan(bias=partial(GaussianBias, predict_centre=False, window=None)),
    "local-h": AttentionPlan(bias=partial(GaussianBias, predict_centre=True, window=4.0)),
    "local-s": AttentionPlan(bias=partial(GaussianBias, predict_centre=True, window=None)),
}
each_plan = pytest.mark.parametrize("name", PLANS)


def attention(plan, *, dtype=torch.float64, dropout=0.0):
    torch.manual_seed(0)
    module = PatternedSelfAttention(D, H, plan, dropout=dropout)
    for parameter in module.parameters():  # biases start at zero, which would hide mistakes
        nn.init.normal_(parameter, std=0.5)
    return module.to(dtype).eval()


def call(module, x, padding=None):
    return module(x, x, x, key_padding_mask=padding, need_weights=False)[0]


def padded():
    """Six positions, padded on the left, not at all, and on the right."""
    torch.manual_seed(5)
    padding = torch.zeros(3, 6, dtype=torch.bool)
    padding[0, :2] = padding[2, 4:] = True
    return torch.randn(6, 3, D, dtype=torch.float64), padding


def test_all_global_is_stock_attention():
    """Values, weights and all gradients equal those of fairseq's MultiheadAttention."""
    for plan in (PLANS["global"], AttentionPlan.of_heads((GLOBAL,) * H, H)):
        ours, stock = attention(plan), MultiheadAttention(D, H, self_attention=True).double().eval()
        stock.load_state_dict(ours.state_dict())
        x, padding = padded()
        for mask in (None, padding):
            results = []
            for module in (ours, stock):
                leaf = x.clone().requires_grad_()
                y, weights = module(leaf, leaf, leaf, key_padding_mask=mask, need_weights=True)
                real = y if mask is None else y[~mask.T]
                leaves = (leaf, *module.parameters())
                results.append([real, weights, *torch.autograd.grad((real**2).sum(), leaves)])
            torch.testing.assert_close(*results, rtol=0, atol=1e-12)


def test_names_and_initialisation_are_those_of_stock_attention():
    torch.manual_seed(3)
    ours = PatternedSelfAttention(D, H, PLANS["heads"]).state_dict()
    torch.manual_seed(3)
    stock = MultiheadAttention(D, H, self_attention=True).state_dict()
    assert list(ours) == list(stock)
    assert all(ours[name].equal(stock[name]) for name in stock)


@each_plan
def test_half_precision_is_near_double(name):
    for dtype, bound in ((torch.float32, 1e-5), (torch.float16, 0.02), (torch.bfloat16, 0.15)):
        module, double = attention(PLANS[name], dtype=dtype), attention(PLANS[name])
        double.load_state_dict(module.state_dict())
        for n in (1, 6):
            x = torch.randn(n, 3, D, generator=torch.Generator().manual_seed(0)).to(dtype)
            y, expected = call(module, x), call(double, x.double())
            error = (y.double() - expected).abs().max() / expected.abs().max()
            assert y.dtype == dtype and error < bound


@each_plan
def test_every_parameter_learns_from_the_first_step(name):
    torch.manual_seed(0)
    module = PatternedSelfAttention(D, H, PLANS[name])  # as initialised
    (call(module, torch.randn(7, 2, D)) * torch.randn(D)).sum().backward()
    for parameter_name, parameter in module.named_parameters():
        if parameter_name != "k_proj.bias":  # it moves all scores of a query alike
            assert parameter.grad.abs().max() > 1e-8, parameter_name


def test_attention_dropout_is_for_training():
    module, (x, _) = attention(PLANS["gated"], dropout=0.5), padded()
    assert call(module, x).equal(call(module, x))
    module.train()
    assert not call(module, x).equal(call(module, x))
    module.eval()
    module.dropout_module.apply_during_inference = True  # fairseq's --retain-dropout
    assert not call(module, x).equal(call(module, x))


def test_weights_are_of_one_branch_and_of_self_attention():
    """As fairseq returns them."""
    x, _ = padded()
    module = attention(PLANS["heads"])
    _, mean = module(x, x, x, need_weights=True)
    _, heads = module(x, x, x, need_head_weights=True)
    assert mean.shape == (3, 6, 6) and heads.shape == (H, 3, 6, 6)
    torch.testing.assert_close(heads.mean(0), mean)
    (weights,) = module.attend(x, None, need_weights=True).weights
    torch.testing.assert_close(heads, weights.transpose(0, 1))
    with pytest.raises(ValueError, match="record_attention"):
        attention(PLANS["sum"])(x, x, x, need_weights=True)
    for key, value, more in (
        (x.clone(), x, {}),
        (x, x.clone(), {}),
        (x, x, {"static_kv": True}),
        (x, x, {"before_softmax": True}),
    ):
        with pytest.raises(ValueError, match="same tensor"):
            module(x, key, value, need_weights=False, **more)


@each_plan
def test_recording_changes_nothing_and_explains_the_output(name, monkeypatch):
    module, (x, padding), plan = attention(PLANS[name]), padded(), PLANS[name]
    seen = []
    compute = multihead.compute
    monkeypatch.setattr(multihead, "compute", lambda p: (seen.append(p.mix), compute(p))[1])
    plain = call(module, x, padding)
    with record_attention(module) as records:
        recorded = call(module, x, padding)
    # Unrecorded, branches with known shares are added up before the value product.
    assert (seen[0] is not None) == (name in ("sum", "hidden-gate", "query-gate"))
    assert seen[1] is None and module.listeners == []
    torch.testing.assert_close(recorded, plain, rtol=0, atol=1e-12)
    (record,) = records[""]
    assert (record.gates is not None) == (name in ("gated", "hidden-gate", "query-gate"))

    q, k, v = (p(x).view(6, 3, H, D // H) for p in (module.q_proj, module.k_proj, module.v_proj))
    scores = torch.einsum("nbhc,mbhc->bhnm", q, k) / math.sqrt(D // H)
    if module.bias is not None:
        scores = scores + module.bias(module.q_proj(x).transpose(0, 1), padding)
    for weights, patterns in zip(record.weights, plan.branches, strict=True):  # [b, h, n, m]
        allowed = torch.stack([p.mask(6, 6) for p in patterns]) & ~padding[:, None, None, :]
        expected = scores.masked_fill(~allowed, -math.inf).softmax(-1)
        expected = expected.where(allowed.any(-1, keepdim=True), 0.0)
        torch.testing.assert_close(weights, expected, rtol=0, atol=1e-12)
    branches = torch.einsum("lbhnm,mbhc->lnbhc", record.weights, v).reshape(-1, 6, 3, D)
    torch.testing.assert_close(branches, record.branches, rtol=0, atol=1e-12)
    fused, _ = module.fusion(record.branches, x, module.q_proj(x) * module.scaling)
    torch.testing.assert_close(module.out_proj(fused), plain, rtol=0, atol=1e-12)
    for wanted in (True, False):
        record = module.attend(x, padding, need_weights=wanted, need_branches=wanted)
        assert (record.weights is not None) == wanted
        assert (record.branches is not None) == (wanted or seen[0] is None)
        torch.testing.assert_close(record.output, plain, rtol=0, atol=1e-12)


@each_plan
def test_recorded_training_is_training(name):
    """Outputs and gradients, with the same random numbers dropped."""
    for dropout in (0.0, 0.3):
        results = []
        for recorded in (False, True):
            module, (x, padding) = attention(PLANS[name], dropout=dropout).train(), padded()
            leaves = (x.requires_grad_(), *module.parameters())
            torch.manual_seed(4)
            with record_attention(module) if recorded else nullcontext():
                y = call(module, x, padding)
            loss = y[~padding.T].tanh().sum()
            results.append([y, *torch.autograd.grad(loss, leaves)])
        torch.testing.assert_close(*results, rtol=0, atol=1e-10)


def test_recordings_nest_and_copies_do_not_listen():
    module, (x, _) = attention(PLANS["gated"]), padded()
    with record_attention(module) as outer:
        call(module, x)
        with record_attention(module) as inner:
            call(module, x)
        call(copy.deepcopy(module), x)
        call(module, x)
    call(module, x)
    assert (len(outer[""]), len(inner[""])) == (3, 1)


def test_gaussian_bias_is_its_equation():
    _, padding = padded()

    def predicted(module, query):
        w, u = module.transform.weight, module.score.weight[0]
        return 4 / (1 + torch.exp(-(u @ torch.tanh(w @ query))))

    for kind in ("neighbor", "local-h", "local-s"):
        torch.manual_seed(2)
        bias = PLANS[kind].bias(D).double()
        queries = torch.randn(3, 6, D, dtype=torch.float64)
        got = bias(queries, padding)[:, 0]
        for sentence, first in ((0, 2), (2, 0)):  # of four words each
            for i in range(1, 5):
                query = queries[sentence, first + i - 1]
                centre = i if kind == "neighbor" else predicted(bias.centre, query)
                window = 4.0 if kind == "local-h" else predicted(bias.window, query)
                places = torch.arange(1, 5, dtype=torch.float64)
                expected = -((places - centre) ** 2) / (2 * (window / 2) ** 2)
                row = got[sentence, first + i - 1, first : first + 4]
                torch.testing.assert_close(row, expected, rtol=1e-6, atol=1e-9, msg=kind)


def test_gaussian_window_of_zero_is_the_token_itself():
    bias = GaussianBias(D, predict_centre=False, window=None)
    with torch.no_grad():
        bias.window.score.weight.fill_(-1e4)
        bias.window.transform.weight.fill_(1.0)
    queries = torch.ones(1, 5, D, requires_grad=True)
    weights = bias(queries, None)[0, 0].softmax(-1)
    torch.testing.assert_close(weights, torch.eye(5))
    weights[:, 0].sum().backward()
    assert queries.grad.isfinite().all()
