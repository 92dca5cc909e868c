"""The attention module: against stock fairseq, alone and in a batch, its parts and records."""

import copy
import math
from functools import partial

import pytest
import torch
from fairseq.modules import MultiheadAttention
from torch import nn

from fairseq_hybrid_attn.attention import AttentionPlan, PatternedSelfAttention, record_attention
from fairseq_hybrid_attn.attention.fusion import Concat, GatedSum, HiddenGate, QueryGate, Sum
from fairseq_hybrid_attn.attention.gaussian import GaussianBias
from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, local, local_past

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


def attention(plan, *, dtype=torch.float64, dropout=0.0, seed=0):
    torch.manual_seed(seed)
    module = PatternedSelfAttention(D, H, plan, dropout=dropout)
    for parameter in module.parameters():  # biases start at zero, which would hide mistakes
        nn.init.normal_(parameter, std=0.5)
    return module.to(dtype).eval()


def call(module, x, padding=None):
    return module(x, x, x, key_padding_mask=padding, need_weights=False)[0]


@pytest.mark.parametrize("padded", ["none", "right", "left"])
@pytest.mark.parametrize(
    "plan", [AttentionPlan(), AttentionPlan.of_heads((GLOBAL,) * H, H)], ids=["branch", "heads"]
)
def test_all_global_is_stock_attention(plan, padded):
    """Values, weights and all gradients equal those of fairseq's MultiheadAttention."""
    ours = attention(plan)
    stock = MultiheadAttention(D, H, self_attention=True).double().eval()
    stock.load_state_dict(ours.state_dict())
    padding = None
    if padded != "none":
        padding = torch.zeros(2, 7, dtype=torch.bool)
        padding[1, slice(4, 7) if padded == "right" else slice(0, 3)] = True
    results = []
    for module in (ours, stock):
        torch.manual_seed(1)
        x = torch.randn(7, 2, D, dtype=torch.float64, requires_grad=True)
        y, weights = module(
            x, x, x, key_padding_mask=padding, need_weights=True, need_head_weights=False
        )
        real = y if padding is None else y[~padding.T]
        (real**2).sum().backward()
        results.append([real, weights, x.grad] + [p.grad for p in module.parameters()])
    for mine, theirs in zip(*results, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)


def test_stock_weights_load_and_names_are_stock():
    ours = PatternedSelfAttention(D, H, PLANS["heads"])
    stock = MultiheadAttention(D, H, self_attention=True)
    assert list(ours.state_dict()) == list(stock.state_dict())


def test_initialisation_is_that_of_stock_attention():
    torch.manual_seed(3)
    ours = PatternedSelfAttention(D, H, PLANS["heads"]).state_dict()
    torch.manual_seed(3)
    stock = MultiheadAttention(D, H, self_attention=True).state_dict()
    assert all(ours[name].equal(stock[name]) for name in stock)


LENGTHS = [1, 2, 5, 9]


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", PLANS)
def test_ragged_batch_is_each_sentence_alone(name, side):
    """Outputs and gradients, of parameters and inputs, in double precision."""
    torch.manual_seed(5)
    sentences = [torch.randn(n, D, dtype=torch.float64) for n in LENGTHS]
    weight = torch.randn(D, dtype=torch.float64)  # a loss that is no constant of anything

    alone = attention(PLANS[name])
    outputs, input_grads = [], []
    for sentence in sentences:
        x = sentence.unsqueeze(1).requires_grad_()
        y = call(alone, x)
        (torch.tanh(y) @ weight).sum().backward()
        outputs.append(y[:, 0])
        input_grads.append(x.grad[:, 0])

    batched = attention(PLANS[name])
    n = max(LENGTHS)
    x = torch.randn(n, len(LENGTHS), D, dtype=torch.float64)  # padding holds anything at all
    padding = torch.ones(len(LENGTHS), n, dtype=torch.bool)
    places = [slice(0, m) if side == "right" else slice(n - m, n) for m in LENGTHS]
    for b, (place, sentence) in enumerate(zip(places, sentences, strict=True)):
        x[place, b] = sentence
        padding[b, place] = False
    x.requires_grad_()
    y = call(batched, x, padding)
    assert y.isfinite().all()
    (torch.tanh(y)[~padding.T] @ weight).sum().backward()

    for b, place in enumerate(places):
        torch.testing.assert_close(y[place, b], outputs[b], rtol=0, atol=1e-10)
        torch.testing.assert_close(x.grad[place, b], input_grads[b], rtol=0, atol=1e-10)
    for (parameter, mine), theirs in zip(
        batched.named_parameters(), alone.parameters(), strict=True
    ):
        torch.testing.assert_close(
            mine.grad, theirs.grad, rtol=0, atol=1e-10, msg=lambda m, p=parameter: f"{p}: {m}"
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("n", [1, 6])
@pytest.mark.parametrize("name", PLANS)
def test_finite_in_every_precision(name, n, dtype):
    module = attention(PLANS[name], dtype=dtype)
    x = torch.randn(n, 3, D).to(dtype).requires_grad_()
    padding = torch.zeros(3, n, dtype=torch.bool)
    padding[1, : n - 1] = True
    padding[2] = True  # a sentence of padding only
    y = call(module, x, padding)
    assert y.dtype == dtype
    assert y.isfinite().all()
    y.float().pow(2).sum().backward()
    assert x.grad.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters())


@pytest.mark.parametrize("dtype, tolerance", [(torch.float16, 0.02), (torch.bfloat16, 0.15)])
@pytest.mark.parametrize("name", PLANS)
def test_half_precision_is_near_double(name, dtype, tolerance):
    x = torch.randn(6, 2, D, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    half = attention(PLANS[name], dtype=dtype)
    double = attention(PLANS[name])
    double.load_state_dict(half.state_dict())
    expected = call(double, x.to(dtype).double())
    scale = expected.abs().max()
    error = (call(half, x.to(dtype)).double() - expected).abs().max() / scale
    assert error < tolerance


# --- fusions, from their equations -------------------------------------------------------


def branches_and_context():
    torch.manual_seed(7)
    shape = (2, 5, 3, D)
    return torch.randn(shape), torch.randn(shape[1:]), torch.randn(shape[1:])


def test_sum():
    branches, hidden, queries = branches_and_context()
    fused, gates = Sum(D, H, 2)(branches, hidden, queries)
    torch.testing.assert_close(fused, branches[0] + branches[1])
    assert gates is None


def test_concat_is_a_linear_map_of_all_branches():
    branches, hidden, queries = branches_and_context()
    fused, _ = Concat(D, H, 2)(branches, hidden, queries)
    assert fused.shape == (5, 3, 2 * D)
    assert fused[4, 2].equal(torch.cat([branches[0, 4, 2], branches[1, 4, 2]]))


def test_gated_sum_position_by_position():
    branches, hidden, queries = branches_and_context()
    fusion = SG(D, H, 2)
    fused, gates = fusion(branches, hidden, queries)
    f1, f2 = fusion.squeeze.weight, fusion.expand.weight
    assert f1.shape == (D // 4, D) and f2.shape == (D, D // 4)
    for n in range(5):
        for b in range(3):
            total = torch.zeros(D)
            for branch in range(2):
                x = branches[branch, n, b]
                gate = 1 / (1 + torch.exp(-(f2 @ (f1 @ x).clamp(min=0))))
                torch.testing.assert_close(gates[branch, n, b], gate)
                total = total + x * gate
            torch.testing.assert_close(fused[n, b], total)


def test_hidden_gate_is_one_number_per_position():
    branches, hidden, queries = branches_and_context()
    fusion = HiddenGate(D, H, 2)
    fused, gates = fusion(branches, hidden, queries)
    assert gates.shape == (5, 3, 1)
    for n in range(5):
        for b in range(3):
            g = torch.sigmoid(fusion.gate.weight[0] @ hidden[n, b])
            torch.testing.assert_close(gates[n, b, 0], g)
            expected = (1 - g) * branches[0, n, b] + g * branches[1, n, b]
            torch.testing.assert_close(fused[n, b], expected)


def test_query_gate_is_one_number_per_position_and_head():
    branches, hidden, queries = branches_and_context()
    fusion = QueryGate(D, H, 2)
    fused, gates = fusion(branches, hidden, queries)
    assert gates.shape == (5, 3, H)
    for n in range(5):
        for b in range(3):
            for head in range(H):
                part = slice(head * D // H, (head + 1) * D // H)
                g = torch.sigmoid(fusion.gate.weight[head] @ queries[n, b])
                torch.testing.assert_close(gates[n, b, head], g)
                expected = (1 - g) * branches[0, n, b, part] + g * branches[1, n, b, part]
                torch.testing.assert_close(fused[n, b, part], expected)


def test_query_gate_starts_small():
    torch.manual_seed(0)
    weight = QueryGate(512, 8, 2).gate.weight
    assert abs(weight.std().item() - 0.1) < 0.01


@pytest.mark.parametrize("bias, branch", [(-1e4, 0), (1e4, 1)])
def test_gate_forced_shut_or_open_is_one_branch(bias, branch):
    """With W H = -inf the hybrid layer is the global one, with +inf the local one."""
    hybrid = attention(PLANS["hidden-gate"])
    with torch.no_grad():
        hybrid.fusion.gate.weight.zero_()
        hybrid.fusion.gate.weight[0, 0] = bias
    single = attention(AttentionPlan(branches=((GLOBAL,),) if branch == 0 else ((local(1),),)))
    single.load_state_dict(
        {k: v for k, v in hybrid.state_dict().items() if not k.startswith("fusion")}
    )
    x = torch.randn(6, 2, D, dtype=torch.float64)
    x[..., 0] = 1.0
    record = hybrid.attend(x)
    assert (record.gates == branch).all()
    torch.testing.assert_close(record.output, call(single, x), rtol=0, atol=1e-12)


def test_single_branch_has_no_fusion_parameters():
    module = PatternedSelfAttention(D, H, AttentionPlan.of_branches((PAST,), SG))
    assert not list(module.fusion.parameters())


# --- records -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", PLANS)
def test_recording_changes_nothing_and_explains_the_output(name):
    module = attention(PLANS[name])
    x = torch.randn(6, 2, D, dtype=torch.float64)
    padding = torch.zeros(2, 6, dtype=torch.bool)
    padding[1, 4:] = True
    plain = call(module, x, padding)
    with record_attention(module) as records:
        recorded = call(module, x, padding)
    # Unrecorded, branches with known shares are added up before the value product.
    torch.testing.assert_close(recorded, plain, rtol=0, atol=1e-12)
    assert module.listeners == []
    (record,) = records[""]

    weights = record.weights  # [l, b, h, n, m]
    for branch, patterns in enumerate(PLANS[name].branches):
        for head in range(H):
            allowed = patterns[head % len(patterns)].mask(6, 6) & ~padding[:, None, :]
            got = weights[branch, :, head]
            assert (got[~allowed] == 0).all()
            rows = allowed.any(-1)
            torch.testing.assert_close(got.sum(-1), rows.double(), rtol=0, atol=1e-12)
    scores = torch.einsum(
        "nbhc,mbhc->bhnm", *(p(x).view(6, 2, H, -1) for p in (module.q_proj, module.k_proj))
    ) / math.sqrt(D // H)
    if module.bias is not None:
        scores = scores + module.bias(module.q_proj(x).transpose(0, 1), padding)
    for branch, patterns in enumerate(PLANS[name].branches):
        allowed = torch.stack([p.mask(6, 6) for p in patterns]) & ~padding[:, None, None, :]
        expected = scores.masked_fill(~allowed, -math.inf).softmax(-1)
        expected = expected.where(allowed.any(-1, keepdim=True), 0.0)
        torch.testing.assert_close(weights[branch], expected, rtol=0, atol=1e-12)

    v = module.v_proj(x).view(6, 2, H, D // H)
    again = torch.einsum("lbhnm,mbhc->lnbhc", weights, v).reshape(-1, 6, 2, D)
    torch.testing.assert_close(again, record.branches, rtol=0, atol=1e-12)
    fused, _ = module.fusion(record.branches, x, module.q_proj(x) * module.scaling)
    torch.testing.assert_close(module.out_proj(fused), plain, rtol=0, atol=1e-12)


def test_recordings_nest_and_copies_do_not_listen():
    module = attention(PLANS["gated"])
    x = torch.randn(5, 2, D, dtype=torch.float64)
    with record_attention(module) as outer:
        call(module, x)
        with record_attention(module) as inner:
            call(module, x)
        call(copy.deepcopy(module), x)
        call(module, x)
    call(module, x)
    assert (len(outer[""]), len(inner[""])) == (3, 1)


def test_attention_dropout_is_for_training():
    module = attention(PLANS["gated"], dropout=0.5)
    x = torch.randn(5, 2, D, dtype=torch.float64)
    assert call(module, x).equal(call(module, x))
    module.train()
    assert not call(module, x).equal(call(module, x))
    module.eval()
    module.dropout_module.apply_during_inference = True  # fairseq's --retain-dropout
    assert not call(module, x).equal(call(module, x))


@pytest.mark.parametrize("name", PLANS)
def test_every_parameter_learns_from_the_first_step(name):
    torch.manual_seed(0)
    module = PatternedSelfAttention(D, H, PLANS[name])  # as initialised
    x = torch.randn(7, 2, D)
    (call(module, x) * torch.randn(D)).sum().backward()
    for parameter_name, parameter in module.named_parameters():
        if parameter_name != "k_proj.bias":  # it moves all scores of a query alike
            assert parameter.grad.abs().max() > 1e-8, parameter_name


def test_weights_of_one_branch_come_as_fairseq_returns_them():
    module = attention(PLANS["heads"])
    x = torch.randn(5, 2, D, dtype=torch.float64)
    _, mean = module(x, x, x, need_weights=True)
    _, heads = module(x, x, x, need_head_weights=True)
    assert mean.shape == (2, 5, 5) and heads.shape == (H, 2, 5, 5)
    torch.testing.assert_close(heads.mean(0), mean)


def test_weights_of_several_branches_are_refused_here():
    module = attention(PLANS["sum"])
    x = torch.randn(5, 2, D, dtype=torch.float64)
    with pytest.raises(ValueError, match="record_attention"):
        module(x, x, x, need_weights=True)


def test_only_self_attention():
    module = attention(PLANS["global"])
    x = torch.randn(5, 2, D, dtype=torch.float64)
    with pytest.raises(ValueError, match="same tensor"):
        module(x, x.clone(), x, need_weights=False)


# --- the Gaussian bias, from its equation ------------------------------------------------


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("kind", ["neighbor", "local-h", "local-s"])
def test_gaussian_bias_is_its_equation(kind, side):
    torch.manual_seed(2)
    bias = PLANS[kind].bias(D).double()
    queries = torch.randn(1, 6, D, dtype=torch.float64)
    padding = torch.zeros(1, 6, dtype=torch.bool)
    padding[0, slice(4, 6) if side == "right" else slice(0, 2)] = True
    first, n = (0, 4) if side == "right" else (2, 4)
    got = bias(queries, padding)[0, 0]

    def predicted(module, query):
        w, u = module.transform.weight, module.score.weight[0]
        return n / (1 + torch.exp(-(u @ torch.tanh(w @ query))))

    for i in range(1, n + 1):
        query = queries[0, first + i - 1]
        centre = i if kind == "neighbor" else predicted(bias.centre, query)
        window = 4.0 if kind == "local-h" else predicted(bias.window, query)
        sigma = window / 2
        for j in range(1, n + 1):
            expected = -((j - centre) ** 2) / (2 * sigma**2)
            torch.testing.assert_close(
                got[first + i - 1, first + j - 1].double(),
                torch.as_tensor(expected).double(),
                rtol=1e-6,
                atol=1e-9,
            )


def test_gaussian_window_of_zero_is_the_token_itself():
    bias = GaussianBias(D, predict_centre=False, window=None)
    with torch.no_grad():
        bias.window.score.weight.fill_(-1e4)
        bias.window.transform.weight.fill_(1.0)
    queries = torch.ones(1, 5, D, requires_grad=True)
    got = bias(queries, None)[0, 0]
    assert got.isfinite().all()
    torch.testing.assert_close(got.softmax(-1), torch.eye(5))
    got.softmax(-1)[:, 0].sum().backward()
    assert queries.grad.isfinite().all()


def test_a_plan_with_local_past_is_causal():
    module = attention(AttentionPlan.of_branches((PAST, local_past(2)), SG))
    x = torch.randn(6, 1, D, dtype=torch.float64)
    before = call(module, x)
    x[4:] = 0
    assert call(module, x)[:4].equal(before[:4])
