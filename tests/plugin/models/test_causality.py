"""No output of a decoder depends on a later word: in every model, at every position."""

from dataclasses import dataclass
from functools import partial

import pytest
import torch
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from models import CONFIGURATIONS, LANGUAGE_MODELS, PAD, build_language_model, build_tiny
from torch import nn

from fairseq_hybrid_attn import patterns, vocabulary
from fairseq_hybrid_attn.attention import AttentionPlan
from fairseq_hybrid_attn.attention.fusion import Fusion, Sum
from fairseq_hybrid_attn.attention.gaussian import GaussianBias
from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.models import MMA, HySAN
from fairseq_hybrid_attn.models.transformer import PatternedDecoder, Plans
from fairseq_hybrid_attn.patterns import GLOBAL, PAST, Pattern, local, local_past

PREFIX = [2, 5, 6, 7, 8, 9, 10, 11, 4]


@pytest.mark.parametrize("name", [*CONFIGURATIONS, *LANGUAGE_MODELS])
def test_no_output_moves_when_a_later_word_changes(name, double_softmax):
    """All later words are replaced, by others or by padding; at once and step by step."""
    model = (build_language_model if name in LANGUAGE_MODELS else build_tiny)(name)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    decode, n = model.double().decoder, len(PREFIX)
    rows = torch.tensor([PREFIX] * (2 * n))  # rows t and n + t keep the words up to t
    for t in range(n):
        rows[t, t + 1 :] = (rows[t, t + 1 :] + 3) % 12 + 4
        rows[n + t, t + 1 :] = PAD
    sources = torch.tensor([[5, 6, 7, 2]]).expand(2 * n, -1)
    seen = model.encoder(sources) if name in CONFIGURATIONS else None
    whole, state = decode(rows, encoder_out=seen)[0], {}
    steps = [
        decode(rows[:, :length], encoder_out=seen, incremental_state=state)[0][:, -1]
        for length in range(1, n + 1)
    ]
    for outputs in (whole, torch.stack(steps, dim=1)):
        for row in range(2 * n):
            t = row % n
            same = partial(torch.testing.assert_close, rtol=0, atol=1e-10)
            same(outputs[row, : t + 1], whole[n - 1, : t + 1])
            if t < n - 1:
                assert not torch.allclose(outputs[row, t + 1], whole[n - 1, t + 1])


@dataclass(frozen=True)
class EveryThird(Pattern):
    """A user's pattern; sees the future if ``both``."""

    both: bool

    def allows(self, offset):
        return (offset % 3 == 0) & (self.both | (offset <= 0))


@dataclass(frozen=True)
class FarAhead(Pattern):
    """Sees the future only in texts of more than 900 words."""

    def allows(self, offset):
        return (offset <= 0) | (offset > 900)


@dataclass(frozen=True)
class Nearest(Pattern):
    """Not a rule for each offset: sees the future in short texts alone."""

    def allows(self, offset):
        return offset < (2 if len(offset) < 30 else 1)


FUTURES = {
    "both": (EveryThird(True), "EveryThird(both=True) sees 3 ahead"),
    "far": (FarAhead(), "FarAhead() sees 901 ahead"),
    "nearest": (Nearest(), "Nearest() sees 1 ahead"),
    "global": (GLOBAL, "Band(behind=None, ahead=None) sees 1 ahead"),
    "shifted": (patterns.Band(2, 7), "Band(behind=2, ahead=7) sees 1 ahead"),
}


def refusal(function, *args, **settings) -> str:
    with pytest.raises(ValueError) as error:
        function(*args, **settings)
    return str(error.value)


def test_a_word_that_sees_the_future_is_refused_for_decoders(monkeypatch):
    monkeypatch.setitem(vocabulary.HYSAN_DECODER, "past3", EveryThird(False))
    assert build_tiny("hysan-gated", decoder_branches="past3,fw")
    pattern, said = FUTURES["both"]
    monkeypatch.setitem(vocabulary.HYSAN_DECODER, "both", pattern)
    for make, name in ((build_tiny, "hysan-gated"), (build_language_model, LANGUAGE_MODELS[0])):
        message = refusal(make, name, decoder_branches="fw,both")
        assert f"decoder layer 1, branch 2: {said}" in message


@pytest.mark.parametrize("name", FUTURES)
def test_a_plan_that_sees_the_future_is_refused_wherever_it_comes_from(name, monkeypatch):
    """Plans of your own model, a pattern for each head, a decoder built directly."""
    pattern, said = FUTURES[name]
    for plan, where in (
        (AttentionPlan.of_branches((PAST, pattern), Sum), f"branch 2: {said}"),
        (AttentionPlan(branches=((PAST, PAST, pattern, PAST),)), f"branch 1, head 3: {said}"),
    ):
        plans = Plans(decoder=(AttentionPlan(branches=((local_past(1),),)), plan))
        monkeypatch.setattr(MMA, "plan", lambda cfg, faults, plans=plans: plans)
        message = refusal(build_tiny, "mma")
        assert "transformer_mma cannot be built" in message
        assert f"decoder layer 2, {where}" in message
        model = build_tiny("hysan-gated")
        cfg = model.cfg
        cfg.plans = plans
        arguments = (cfg, model.decoder.dictionary, model.decoder.embed_tokens)
        assert f"decoder layer 2, {where}" in refusal(PatternedDecoder, *arguments)


def test_layers_are_looked_at_in_spite_of_layer_dropout(monkeypatch):
    assert build_tiny("hysan-gated", decoder_layerdrop=1.0).decoder._all_causal
    monkeypatch.setattr(HySAN, "plan", lambda cfg, faults: Plans(decoder=(AttentionPlan(),) * 2))
    assert "decoder layer 1, branch 1" in refusal(build_tiny, "hysan-gated", decoder_layerdrop=1.0)


def test_a_bias_of_whole_sentences_is_refused_for_decoders(monkeypatch):
    bias = partial(GaussianBias, predict_centre=True, window=None)
    plan = AttentionPlan(branches=((PAST,),), bias=bias)
    monkeypatch.setattr(HySAN, "plan", lambda cfg, faults: Plans(decoder=(plan,) * 2))
    with pytest.raises(UserError, match="decoder layer 1, its bias"):
        build_tiny("hysan-gated")


class MeanGate(Sum):
    """A user's fusion that looks at the mean over all positions."""

    mixes_positions = True


def test_a_fusion_that_mixes_positions_is_refused_for_decoders(monkeypatch):
    monkeypatch.setattr(vocabulary, "_FUSIONS", {"mean": MeanGate})
    for make, name in ((build_tiny, "hysan-gated"), (build_language_model, LANGUAGE_MODELS[0])):
        message = refusal(make, name, branch_fusion="mean")
        assert "decoder layer 1, its fusion, MeanGate, looks at other positions" in message
    # An encoder may do so.
    assert build_tiny("gate-hidden", hybrid_fusion="mean")
    with pytest.raises(UserError, match="Silent: add mixes_positions = False"):
        type("Silent", (Fusion,), {})


def test_layers_that_need_the_causal_mask_get_it():
    """A decoder with plans whose subclass puts fairseq's own layer between."""
    stock = iter((True, False))

    class Mixed(PatternedDecoder):
        def build_decoder_layer(self, cfg, no_encoder_attn=False):
            kind = TransformerDecoderLayerBase if next(stock) else super().build_decoder_layer
            return kind(cfg, no_encoder_attn)

    model = build_tiny("hysan-gated")
    mixed = Mixed(model.cfg, model.decoder.dictionary, model.decoder.embed_tokens).eval().double()
    seen = model.double().encoder(torch.tensor([[5, 6, 2]]))
    one, other = (torch.tensor([[2, 5, 6, last]]) for last in (7, 8))
    one, other = (mixed(prefix, encoder_out=seen)[0] for prefix in (one, other))
    torch.testing.assert_close(one[:, :3], other[:, :3])
    assert model.decoder.buffered_future_mask(one) is None


def test_patterns_are_functions_of_the_offset():
    """Your own mask would not be asked by what reads the numbers; a kind of band is asked."""
    with pytest.raises(TypeError, match="allows"):
        type("Own", (Pattern,), {"mask": lambda self, queries, keys, device=None: None})
    other = type("Own", (patterns.Band,), {"allows": lambda self, offset: offset == 5})()
    assert patterns.nearest_later_key(other) == 5 and patterns.causal(other).pattern is other
    assert patterns.causal(local(3)) == local_past(3) and patterns.causal(GLOBAL) == PAST
    both = EveryThird(True)
    assert patterns.causal(both).mask(9, 9).equal(both.mask(9, 9).tril())
    assert patterns.nearest_later_key(patterns.causal(FarAhead())) is None
