"""The attention module, plain and for fairseq; test_models.py has whole models."""

import copy
import math
from contextlib import nullcontext
from functools import partial

import pytest
import torch
from fairseq.modules import MultiheadAttention
from torch import nn

from fairseq_hybrid_attn.attention import AttentionPlan, PatternedAttention
from fairseq_hybrid_attn.attention.fusion import Concat, GatedSum, HiddenGate, QueryGate, Sum
from fairseq_hybrid_attn.attention.gaussian import GaussianBias
from fairseq_hybrid_attn.attention.recording import record_attention
from fairseq_hybrid_attn.models.self_attention import PatternedSelfAttention
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


def attention(plan, *, dtype=torch.float64, kind=PatternedAttention, **settings):
    torch.manual_seed(0)
    module = kind(D, H, plan, **settings)
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


def test_names_and_initialisation_are_those_of_stock_attention():
    torch.manual_seed(3)
    ours = PatternedSelfAttention(D, H, PLANS["heads"]).state_dict()
    torch.manual_seed(3)
    stock = MultiheadAttention(D, H, self_attention=True).state_dict()
    assert list(ours) == list(stock)
    assert all(ours[name].equal(stock[name]) for name in stock)


@each_plan
def test_every_parameter_learns_from_the_first_step(name):
    torch.manual_seed(0)
    module = PatternedAttention(D, H, PLANS[name])  # as initialised
    (call(module, torch.randn(7, 2, D)) * torch.randn(D)).sum().backward()
    for parameter_name, parameter in module.named_parameters():
        if parameter_name != "k_proj.bias":  # it moves all scores of a query alike
            assert parameter.grad.abs().max() > 1e-8, parameter_name


def test_projections_may_be_replaced():
    """In training they are one product, unless one of them is no longer a plain layer."""

    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    def by_method(module):
        plain = module.v_proj.forward
        module.v_proj.forward = lambda x: 2 * plain(x)

    changes = (
        lambda module: setattr(module, "q_proj", nn.Linear(D, D, bias=False, dtype=torch.float64)),
        lambda module: setattr(module, "k_proj", Doubled(D, D, dtype=torch.float64)),
        lambda module: nn.utils.parametrizations.weight_norm(module.q_proj),
        lambda module: module.v_proj.register_forward_hook(lambda layer, given, y: 2 * y),
        by_method,
    )
    x, padding = padded()
    for change in changes:
        module = attention(PLANS["gated"])
        before = call(module, x, padding)
        change(module)
        with torch.no_grad():
            alone = call(module, x, padding)
        torch.testing.assert_close(call(module, x, padding), alone, rtol=0, atol=1e-12)
        assert module.q_proj.bias is not None or not torch.allclose(alone, before)


def test_attention_dropout_is_for_training():
    module, (x, _) = attention(PLANS["gated"], dropout=0.5), padded()
    assert call(module, x).equal(call(module, x))
    module.train()
    assert not call(module, x).equal(call(module, x))
    module = attention(PLANS["gated"], dropout=0.5, kind=PatternedSelfAttention)
    assert call(module, x).equal(call(module, x))
    module.dropout_module.apply_during_inference = True  # fairseq's --retain-dropout
    assert not call(module, x).equal(call(module, x))
    module.dropout_module.p = 0.0  # by fairseq's name of the rate, and by PyTorch's
    assert module.dropout == 0 and call(module, x).equal(call(module, x))
    module.dropout = 0.5
    assert module.dropout_module.p == 0.5 and not call(module, x).equal(call(module, x))


def test_weights_have_the_shapes_that_fairseq_and_torch_return():
    """With a dimension before them for several branches."""
    x, padding = padded()
    for name in ("heads", "gated"):
        plain = attention(PLANS[name])
        for_fairseq = attention(PLANS[name], kind=PatternedSelfAttention)
        weights = plain.attend(x, padding).weights  # [l, b, h, n, m]
        weights = weights[0] if name == "heads" else weights
        heads = {"need_head_weights": True, "need_weights": False}
        for module, how, expected in (
            (plain, {}, weights.mean(-3)),
            (plain, {"average_attn_weights": False}, weights),
            (plain, {"need_weights": False}, None),
            (for_fairseq, {}, weights.mean(-3)),
            (for_fairseq, heads, weights.transpose(-4, -3)),
            (for_fairseq, {"need_weights": False}, None),
        ):
            found = module(x, x, x, key_padding_mask=padding, **how)[1]
            torch.testing.assert_close(found, expected)


def test_what_self_attention_cannot_do_is_refused():
    module, (x, _) = attention(PLANS["heads"]), padded()
    for_fairseq = attention(PLANS["heads"], kind=PatternedSelfAttention)
    for setting in ("static_kv", "before_softmax"):
        with pytest.raises(ValueError, match=setting):
            for_fairseq(x, x, x, **{setting: True})
    local_mask = ~local(2).mask(6, 6)
    for (key, value), said, more in (
        ((x.clone(), x), "same tensor", {}),
        ((x, x.clone()), "same tensor", {}),
        ((x, x), "plan's patterns", {"attn_mask": local_mask}),
        ((x, x), "plan's patterns", {"attn_mask": torch.full((6, 6), math.nan)}),
        ((x, x), "plan's patterns", {"attn_mask": ~PAST.mask(6, 6).expand(3 * H, 6, 6)}),
        ((x, x), "key_padding_mask", {"key_padding_mask": torch.zeros(x.size(1), 1).bool()}),
        ((x, x), "int64: give bool", {"key_padding_mask": torch.ones(x.size(1), 6).long()}),
        ((x, x), "0 and -inf only", {"key_padding_mask": torch.full((x.size(1), 6), 0.5)}),
    ):
        with pytest.raises(ValueError, match=said):
            module(x, key, value, **more)
    for wrong in (x[:, 0], x[..., :4]):
        with pytest.raises(ValueError, match="shape"):
            module(wrong, wrong, wrong)
    with pytest.raises(ValueError, match="enable_nested_tensor=False"):
        module(torch.nested.nested_tensor([torch.zeros(3, D), torch.zeros(2, D)]))
    with pytest.raises(ValueError, match="3 patterns, but 4 heads"):
        attention(AttentionPlan.of_heads((GLOBAL, PAST, FUTURE), H))
    with pytest.raises(ValueError, match="3 heads do not divide a width of 8"):
        PatternedAttention(8, 3, AttentionPlan())


CAUSAL = ~PAST.mask(6, 6)
MASKS = {
    "bool": {"attn_mask": CAUSAL},
    "infinite": {"attn_mask": torch.zeros(6, 6).masked_fill(CAUSAL, -math.inf)},
    "of fairseq's layers": {"attn_mask": torch.zeros(6, 6).masked_fill(CAUSAL, -1e4)},
    "hint": {"attn_mask": torch.zeros(6, 6).masked_fill(CAUSAL, -math.inf), "is_causal": True},
    "no mask": {"is_causal": True},
}


@each_plan
def test_the_causal_mask_is_honoured_over_every_plan(name):
    """As the definition without the later keys; a bias of whole sentences is refused."""
    module, (x, padding) = attention(PLANS[name]), padded()
    nothing = {"attn_mask": torch.zeros(6, 6)}
    expected = module(x, x, x, key_padding_mask=padding)
    torch.testing.assert_close(module(x, x, x, key_padding_mask=padding, **nothing), expected)
    if module.bias is not None:
        with pytest.raises(ValueError, match="bias"):
            module(x, x, x, **MASKS["bool"])
        return
    # A softmax without the later keys is one over all keys, its weights divided anew.
    weights = module.attend(x, padding).weights
    weights = weights.masked_fill(CAUSAL, 0)
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-300)
    values = module.v_proj(x).view(6, 3, H, D // H)
    branches = torch.einsum("lbhnm,mbhc->lnbhc", weights, values).reshape(-1, 6, 3, D)
    fused, _ = module.fusion(branches, x, module.q_proj(x) * module.scaling)
    for how in MASKS.values():
        with record_attention(module) as records:
            y, _ = module(x, x, x, key_padding_mask=padding, **how)
        torch.testing.assert_close(records[""][0].weights, weights)
        torch.testing.assert_close(y, module.out_proj(fused))
        torch.testing.assert_close(
            module(x, x, x, key_padding_mask=padding, need_weights=False, **how)[0], y
        )


def test_the_layout_and_the_arguments_may_be_left_out():
    x, padding = padded()
    for name in ("gated", "local-s"):
        first, last = (attention(PLANS[name], batch_first=where) for where in (True, False))
        y, weights = first(x.transpose(0, 1), key_padding_mask=padding)
        expected = last(x, x, x, key_padding_mask=padding)
        torch.testing.assert_close((y.transpose(0, 1), weights), expected)
        with pytest.raises(ValueError, match=r"key_padding_mask must have shape"):
            first(x, key_padding_mask=padding)


def test_padding_may_be_any_number_that_leaves_no_weight():
    module, (x, padding) = attention(PLANS["heads"]), padded()
    for low in (-math.inf, -1e9, torch.finfo(torch.float32).min):
        mask = torch.zeros(padding.shape).masked_fill(padding, low)
        torch.testing.assert_close(module(x, None, None, mask), module(x, None, None, padding))


def test_no_sentences_or_no_words():
    module = attention(PLANS["gated"])
    for shape in ((0, 3, D), (6, 0, D)):
        x = torch.zeros(shape, dtype=torch.float64)
        assert call(module, x).shape == shape


@pytest.mark.parametrize("batch_first", (True, False))
@pytest.mark.parametrize("replaced", ("before", "after"))  # torch made a stack of the layer
def test_layers_of_torch_take_it_for_their_own_attention(batch_first, replaced):
    """In training, evaluation and inference, where they have a fast path, in any padding."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(
        D, H, dim_feedforward=16, dropout=0.0, batch_first=batch_first, dtype=torch.float64
    )
    own = attention(PLANS["gated"], batch_first=batch_first)
    if replaced == "before":
        layer.self_attn = own
    stack = nn.TransformerEncoder(layer, 2)
    if replaced == "after":
        for part in stack.layers:
            part.self_attn = copy.deepcopy(own)
    x, padding = padded()
    x = x.transpose(0, 1)
    paddings = (torch.zeros_like(padding), padding, padding[[1, 2, 2]])  # the last: on the right
    for mask in paddings:
        expected = x
        for part in stack.layers:
            attended = part.self_attn.attend(expected.transpose(0, 1), mask).output
            y = part.norm1(expected + attended.transpose(0, 1))
            expected = part.norm2(y + part.linear2(torch.relu(part.linear1(y))))
        for training, how in ((True, nullcontext), (False, nullcontext), (False, torch.no_grad)):
            given = {"src_key_padding_mask": mask} if mask.any() else {}
            with how():
                found = stack.train(training)(x if batch_first else x.transpose(0, 1), **given)
            found = found if batch_first else found.transpose(0, 1)
            torch.testing.assert_close(found[~mask], expected[~mask])
            other = torch.where(mask[..., None], x + 1, x)  # nobody sees padding
            other[0] += 1  # nor another sentence
            found = stack(other if batch_first else other.transpose(0, 1), **given)
            found = found if batch_first else found.transpose(0, 1)
            torch.testing.assert_close(found[1:][~mask[1:]], expected[1:][~mask[1:]])


def test_exported_for_any_length():
    """Traced without a break; test_compiled.py has layers, with their gradients."""
    module = attention(PLANS["gated"], batch_first=True)
    x, length = torch.randn(2, 9, D, dtype=torch.float64), torch.export.Dim("length", min=2)
    kept = {"query": {1: length}, "key_padding_mask": {1: length}, "need_weights": None}
    given = {"query": x, "key_padding_mask": torch.zeros(2, 9).bool(), "need_weights": False}
    exported = torch.export.export(module, (), given, dynamic_shapes=kept).module()
    for n in (25, 60):
        x = torch.randn(2, n, D, dtype=torch.float64)
        padding = torch.arange(n) < torch.tensor([[0], [n // 3]])
        given = {"query": x, "key_padding_mask": padding, "need_weights": False}
        found, expected = (attend(**given)[0][~padding] for attend in (exported, module))
        torch.testing.assert_close(found, expected)


@each_plan
def test_recording_changes_nothing_and_explains_the_output(name):
    module, (x, padding), plan = attention(PLANS[name]), padded(), PLANS[name]
    plain = call(module, x, padding)
    with record_attention(module) as records:
        recorded = call(module, x, padding)
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
