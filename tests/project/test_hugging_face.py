"""examples/hugging_face: patterns in models of transformers, small and random."""

import sys
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from brute_force import KINDS

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.attention import AttentionPlan
from fairseq_hybrid_attn.attention.fusion import Concat, Sum
from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, local, local_past

with pytest.MonkeyPatch.context() as patch:
    patch.setitem(sys.modules, "torchaudio", None)  # transformers imports it, and it may not load
    pytest.importorskip("transformers")
    import patterned
    from transformers import BertModel, MarianMTModel
PAD = 39
WORDS = {"encoder": ("global", "local1", "future", "past"), "decoder": ("past", "local_past2") * 2}
MMA = {side: AttentionPlan((tuple(KINDS[w][0] for w in words),)) for side, words in WORDS.items()}
HYSAN = {"encoder": (GLOBAL, PAST, FUTURE, local(2)), "decoder": (PAST, local_past(1))}
GATED = {side: AttentionPlan.of_branches(HYSAN[side], patterned.GatesFromFirst) for side in HYSAN}


def with_plans(stock, **plans):
    return type("WithPlans", (patterned.Patterned, stock), {}, **plans)


PlainMarian, MMAMarian, HySANMarian = (with_plans(MarianMTModel, **p) for p in ({}, MMA, GATED))
MMABert, HySANBert = (with_plans(BertModel, encoder=plans["encoder"]) for plans in (MMA, GATED))
SumBert = with_plans(BertModel, encoder=AttentionPlan.of_branches(HYSAN["encoder"], Sum))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """An untouched model of each class, in double precision."""
    torch.manual_seed(1)
    both = dict(vocab_size=40, max_position_embeddings=64, pad_token_id=PAD, hidden_size=32)
    bert = dict(num_hidden_layers=2, num_attention_heads=4, initializer_range=0.3)
    marian = dict(init_std=0.3, decoder_start_token_id=PAD, eos_token_id=0)
    for side in ("encoder", "decoder"):
        marian |= {f"{side}_layers": 2, f"{side}_attention_heads": 4, f"{side}_ffn_dim": 48}
    root = tmp_path_factory.mktemp("stock")
    for stock, sizes in ((BertModel, bert), (MarianMTModel, marian)):
        config = stock.config_class(**both, **sizes)
        stock(config).double().save_pretrained(root / config.model_type)
    return lambda cls, **how: cls.from_pretrained(root / cls.config_class.model_type, **how).eval()


def trained(model):
    for fusion in (m for m in model.modules() if isinstance(m, patterned.GatesFromFirst)):
        torch.nn.init.normal_(fusion.expand.weight)
    return model


def batch(n):
    """Sentences padded right, padded left, and not at all; where they have words, ``[3, n]``."""
    tokens, real = torch.randint(1, PAD, (3, n)), torch.ones(3, n, dtype=torch.long)
    real[0, n - 2 :] = real[1, :3] = 0
    return tokens.masked_fill(real == 0, PAD), real


def outputs(model, write_mask=lambda real, side: real):
    torch.manual_seed(2)
    (source, real), (target, target_real) = batch(8), batch(10)
    mask, decoder_mask = write_mask(real, "encoder"), write_mask(target_real, "decoder")
    if model.config.model_type == "bert":
        return model(input_ids=source, attention_mask=mask)[0][real == 1]
    encoded = model.get_encoder()(input_ids=source, attention_mask=mask)
    decoder = {"decoder_input_ids": target, "decoder_attention_mask": decoder_mask}
    return model(encoder_outputs=encoded, attention_mask=real, **decoder).logits[target_real == 1]


@pytest.mark.parametrize("cls", [PlainMarian, with_plans(BertModel), HySANMarian, HySANBert])
def test_without_patterns_or_at_first_the_outputs_are_the_loaded_models(saved, cls):
    model = saved(cls)
    torch.testing.assert_close(outputs(model), outputs(saved(cls.__bases__[1])))
    outputs(model).square().sum().backward()
    assert all(p.grad.any() for name, p in model.named_parameters() if "fusion.expand" in name)


@pytest.mark.parametrize("cls", [MMAMarian, MMABert])
def test_heads_see_what_the_definition_says(saved, cls):
    def definition(real, side):  # as a mask, for the untouched model
        n, rules = real.size(1), [KINDS[word][1] for word in WORDS[side]]
        seen = [[[rule(i, j) for j in range(n)] for i in range(n)] for rule in rules]
        return -1e9 * (1 - torch.tensor(seen) * real[:, None, None].double())

    expected = outputs(saved(cls.__bases__[1], attn_implementation="eager"), definition)
    torch.testing.assert_close(outputs(saved(cls)), expected)


def test_the_sums(saved):
    attention = trained(saved(HySANBert)).encoder.layer[0].attention.self
    squeeze, expand = attention.fusion.squeeze.weight, attention.fusion.expand.weight
    hidden, branches = torch.randn(1, 6, 32, dtype=torch.float64), []
    layers = (attention.query, attention.key, attention.value)
    q, k, v = (layer(hidden).view(6, 4, 8).transpose(0, 1) for layer in layers)
    for name in ("global", "past", "future", "local2"):
        seen = torch.tensor([[KINDS[name][1](i, j) for j in range(6)] for i in range(6)])
        x = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        branches.append(x.transpose(0, 1).reshape(6, 32))
    gates = [2 * torch.sigmoid(torch.relu(x @ squeeze.T) @ expand.T) for x in branches]
    expected = sum(x * gate for x, gate in zip(branches, gates, strict=True)) - sum(branches[1:])
    torch.testing.assert_close(attention(hidden)[0][0], expected)
    attention.fusion = Sum(32, 4, 4)
    torch.testing.assert_close(attention(hidden)[0][0], sum(branches))


@pytest.mark.parametrize("cls", [MMAMarian, HySANMarian])
def test_generation_with_a_cache_is_that_without(saved, cls):
    model, (source, real) = trained(saved(cls)), batch(8)
    options = dict(input_ids=source, attention_mask=real, num_beams=3, max_new_tokens=20)
    cached, uncached = (model.generate(**options, use_cache=use) for use in (True, False))
    assert cached.shape[1] > 10 and cached.equal(uncached)
    with pytest.raises(UserError, match="a cache that grows"):
        model.generate(**options, cache_implementation="static")


@pytest.mark.parametrize("cls, other", [(MMAMarian, HySANMarian), (HySANBert, SumBert)])
def test_saved_twice_and_loaded_by_its_class_alone(saved, cls, other, tmp_path):
    model = trained(saved(cls))
    model.save_pretrained(tmp_path / "1")
    cls.from_pretrained(tmp_path / "1").save_pretrained(tmp_path / "2")
    torch.testing.assert_close(outputs(cls.from_pretrained(tmp_path / "2").eval()), outputs(model))
    with pytest.raises(UserError, match="this model has patterns"):
        other.from_pretrained(tmp_path / "2")
    with pytest.raises(UserError, match="load it by its own class"):
        outputs(cls.__bases__[1].from_pretrained(tmp_path / "2"))


TWICE = ((PAST,), (PAST,))
NARROW = AttentionPlan(TWICE, partial(patterned.GatesFromFirst, squeeze_ratio=64))
PLANS = [
    (MarianMTModel, "cross", AttentionPlan(), "cross: patterns are for encoder"),
    (MarianMTModel, "decoder", AttentionPlan(), "looks ahead"),
    (BertModel, "encoder", AttentionPlan(TWICE, Concat), "only Sum"),
    (BertModel, "encoder", NARROW, "squeeze_ratio=64 .* a divisor of the width, 32"),
    (BertModel, "decoder", AttentionPlan(((PAST,),)), "found no self-attention"),
]


@pytest.mark.parametrize("stock, side, plan, message", PLANS)
def test_plans_that_are_refused(saved, stock, side, plan, message):
    with pytest.raises(UserError, match=message):
        saved(with_plans(stock, **{side: plan}))


def test_what_would_lose_patterns_or_masks_is_refused(saved):
    inner = saved(MMAMarian)
    inner.get_encoder().set_attn_implementation("eager")
    tokens, k = torch.ones(1, 4, dtype=torch.long), torch.ones(1, 4, 2, 8)
    attention = saved(MMABert).encoder.layer[0].attention.self
    for message, act in (
        ("eager: no patterns", lambda: saved(MMABert, attn_implementation="eager")),
        ("sdpa: no patterns", lambda: saved(MMABert).set_attn_implementation("sdpa")),
        ("before", lambda: type("Late", (MarianMTModel, patterned.Patterned), {})),
        ("only padding", lambda: saved(MMABert)(tokens, attention_mask=torch.ones(1, 1, 4, 4))),
        ("only padding", lambda: outputs(inner)),
        ("cannot have a cache", lambda: patterned.attend(attention, k[:, :, :1], k, k, None, 1.0)),
    ):
        with pytest.raises(UserError, match=message):
            act()
