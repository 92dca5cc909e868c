"""What a model's attention does, seen from outside: against its modules' own numbers."""

from dataclasses import dataclass, replace
from pathlib import Path

import brute_force
import pytest
import torch
from every_model import MODELS, SOURCES, TARGETS, build, sample
from fairseq.models import FairseqLanguageModel
from models import CONFIGURATIONS, build_stock, build_tiny, task_of

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.attention import PatternedAttention
from fairseq_hybrid_attn.lab.models.attentions import (
    CROSS,
    DECODER,
    ENCODER,
    KINDS,
    Attentions,
    word_of,
)
from fairseq_hybrid_attn.lab.models.on_text import ModelOnText
from fairseq_hybrid_attn.lab.models.sentences import Sentences
from fairseq_hybrid_attn.lab.models.trained import TrainedModel
from fairseq_hybrid_attn.patterns import Pattern, local

#: Every model of this package, and fairseq's own with attention throughout.
NAMES = [*CONFIGURATIONS, "stock", "stock-prenorm", "stock-checkpointed"]
TRAINED = TrainedModel(*[Path("m.pt")] * 4, ("de", "en"))
#: The papers' words, as the conditions of ``brute_force.py``.
MEANING = {
    **{"fw": "past", "bw": "future", "l5": "local5", "local": "local1"},
    **{"forward": "future", "backward": "past", "neighbor": "global"},
    **{"local-h": "global", "local-s": "global"},
}


def made(name):
    return build(name) if name in MODELS and name not in CONFIGURATIONS else build_tiny(name)


def observe(model, *args, **kwargs):
    return Attentions(model).observe(sample(*args, **kwargs))


def check_rows(weights, layer):
    """Rows sum to 1 over the keys that the paper's word allows, spelled out again; else 0."""
    n, m = weights.shape[-2:]
    assert weights.shape == (len(layer.heads), 4, n, m)
    for branch, words in enumerate(layer.heads):
        for head, word in enumerate(words):
            causal = layer.kind == DECODER and word == "l5"
            _, allows = brute_force.KINDS["local_past5" if causal else MEANING.get(word, word)]
            mask = torch.tensor([[allows(i, j) for j in range(m)] for i in range(n)])
            assert layer.allowed(n, m)[branch, head].equal(mask)
            one = weights[branch, head]
            assert one[~mask].eq(0).all() and one[mask].gt(0).all()
            torch.testing.assert_close(one.sum(-1), torch.ones(n))


def outputs_of(model, batch, run):
    """The inputs and outputs of each attention module while ``run`` runs the model."""
    seen = {}

    def keep(module, args, kwargs, output):
        query = args[0] if args else kwargs["query"]
        key = args[1] if len(args) > 1 else kwargs["key"]
        seen[module] = (query, key, output[0])

    modules = [m for found in Attentions(model).modules.values() for m in found]
    hooks = [m.register_forward_hook(keep, with_kwargs=True) for m in modules]
    with torch.no_grad():
        result = run(batch)
    for hook in hooks:
        hook.remove()
    return result, seen


def attended(module, weights, values, query):
    """What a module makes of values ``[h, m, d/h]`` with these weights, ``[n, d]``."""
    branches = (weights @ values).permute(0, 2, 1, 3).flatten(2)  # [l, n, d]
    if not isinstance(module, PatternedAttention):
        return module.out_proj(branches[0])
    scaled = module.q_proj(query) * module.scaling
    return module.out_proj(module.fusion(branches[:, :, None], query, scaled)[0][:, 0])


@pytest.mark.parametrize("name", NAMES)
def test_weights(name):
    """Each layer's weights follow its pattern; with the module's values they give its output.

    Outputs while looking are those without, up to the rounding of another way of computing them.
    """
    attentions = Attentions(made(name))
    model = attentions.model
    found, seen = outputs_of(model, sample(), attentions.observe)
    _, plain = outputs_of(model, sample(), lambda batch: model(**batch["net_input"]))
    for module, (_, _, output) in plain.items():
        torch.testing.assert_close(seen[module][2], output, rtol=1e-6, atol=2e-6)
    for kind, modules in attentions.modules.items():
        assert len(modules) == (3 if kind == ENCODER else 2)
        for layer, module in enumerate(modules):
            query, key, output = seen[module]
            values = module.v_proj(key).unflatten(-1, (4, 4)).permute(1, 2, 0, 3)  # [b, h, m, 4]
            for number, one in enumerate(found):
                weights = one[kind][layer].weights
                check_rows(weights, attentions.layers[kind][layer])
                source, target = len(SOURCES[number]), len(TARGETS[number])
                # The source is padded on the left, the target on the right.
                keys = slice(None, target) if kind == DECODER else slice(-source, None)
                queries = slice(-source, None) if kind == ENCODER else slice(None, target)
                expected = output[queries, number]
                rebuilt = attended(
                    module, weights, values[number][:, keys], query[queries, number, None]
                )
                torch.testing.assert_close(rebuilt, expected, rtol=0, atol=2e-6)


def hooks_of(model):
    """All hooks and listeners of its modules; fconv adds some itself."""
    return [
        (
            *(len(module._forward_hooks), len(module._forward_pre_hooks)),
            *(getattr(module, "listeners", None), getattr(module, "skip_embed_dim_check", None)),
        )
        for module in model.modules()
    ]


@pytest.mark.parametrize("name", [*NAMES, "lstm", "lstm-bidirectional", "lightconv", "fconv"])
def test_a_sentence_alone_and_in_any_batch(name):
    """Looking leaves no trace: afterwards outputs have the same bits, and there is no new hook."""
    model = made(name)
    inputs = sample()["net_input"]
    hooks = hooks_of(model)
    with torch.no_grad():
        before = model(**inputs)[0]
    together = {left: observe(model, left=left) for left in (True, False)}
    for number, pair in enumerate(zip(SOURCES, TARGETS, strict=True)):
        (alone,) = observe(model, *([side] for side in pair))
        for batched in (together[True][number], together[False][number]):
            assert list(batched) == list(alone)
            for kind, layers in alone.items():
                for one, other in zip(layers, batched[kind], strict=True):
                    torch.testing.assert_close(one.weights, other.weights, rtol=0, atol=2e-6)
                    if one.gates is not None:
                        torch.testing.assert_close(one.gates, other.gates, rtol=0, atol=2e-6)
    assert hooks_of(model) == hooks
    with torch.no_grad():
        assert before.equal(model(**inputs)[0])


def test_branches_and_heads_have_their_papers_words():
    def words(name, kind=ENCODER, **settings):
        return [layer.heads for layer in Attentions(build_tiny(name, **settings)).layers[kind]]

    branches = tuple((word,) * 4 for word in ("global", "fw", "bw", "l5"))
    assert words("hysan-gated") == [branches] * 3
    assert words("hysan-gated", DECODER) == [(("fw",) * 4, ("l5",) * 4)] * 2
    assert words("hysan-sum", encoder_branches="l2,bw") == [(("l2",) * 4, ("bw",) * 4)] * 3
    assert words("mma") == [(("global", "local", "forward", "backward"),)] * 3
    assert words("mma", local_window=3) == words("mma")
    assert words("mma", DECODER) == [(("past",) * 4,)] * 2
    plain = (("global",) * 4,)
    assert words("gate-query", local_window=2) == [(*plain, ("local",) * 4)] * 2 + [plain]
    assert words("local-s") == [(("local-s",) * 4,)] * 2 + [plain]
    assert words("past-only") == [(("fw",) * 4,)] * 3
    assert words("mma", CROSS) == [plain] * 2
    (first, *_) = Attentions(build_tiny("mma")).layers[ENCODER]
    assert first.branches == ("mixed heads",) and first.number == 1
    twice = replace(first, heads=(*first.heads, ("global",) * 4, *first.heads))
    assert twice.branches == ("1 · mixed heads", "global", "3 · mixed heads")
    assert Attentions(build_tiny("hysan-gated")).layers[ENCODER][2].branches[3] == "l5"


def test_models_give_what_they_have():
    for name, shape in (
        ("lstm", (1, 1, 3, 9)),
        ("fconv", (1, 1, 3, 9)),
        ("lightconv", (1, 4, 3, 9)),
    ):
        attentions = Attentions(build(name))
        (first, *_) = attentions.observe(sample())
        assert list(first) == list(attentions.layers) == [CROSS]
        assert first[CROSS][0].weights.shape == shape
        missing = attentions.missing()
        assert set(missing) == {ENCODER, DECODER}
        assert all("no self-attention modules" in reason for reason in missing.values())
    both = Attentions(build_stock(cross_self_attention=True, no_cross_attention=True))
    assert "source as well" in both.missing()[DECODER] and ENCODER in both.observe(sample())[0]
    silent = build("lstm")
    silent.decoder.need_attn = False
    assert Attentions(silent).observe(sample()) == [{}] * len(SOURCES)
    (first, *_) = Attentions(build_tiny("mma"), [ENCODER]).observe(sample())
    assert list(first) == [ENCODER]
    with pytest.raises(UserError, match="not an encoder-decoder"):
        Attentions(FairseqLanguageModel(build("stock").decoder))


def test_numbers_that_are_not_attention_are_refused():
    for kind in KINDS:
        model = build("stock")
        with torch.no_grad():
            Attentions(model).modules[kind][0].q_proj.weight.fill_(float("nan"))
        with pytest.raises(UserError, match="does not add up to 1"):
            Attentions(model, [kind]).observe(sample())
    for share, good in ((0.9, False), (1.1, False), (1.001, True)):  # half precision rounds
        model = build("lstm")
        model.decoder.attention.register_forward_hook(
            lambda module, given, out, share=share: (out[0], share * out[1])
        )
        if good:
            assert len(observe(model)) == len(SOURCES)
        else:
            with pytest.raises(UserError, match="does not add up to 1"):
                observe(model)
    model = build_tiny("hysan-gated")  # gates of the last layer: no attention after it shows them
    with torch.no_grad():
        model.decoder.layers[-1].self_attn.fusion.expand.weight.fill_(float("nan"))
    with pytest.raises(UserError, match="gates"):
        Attentions(model, [DECODER]).observe(sample())


def test_sentences_are_looked_at_without_dropout():
    """In any mode of the model."""
    model = build_tiny("hysan-gated", dropout=0.5)
    source, target = "w1 w2 w3", "w4 w5"
    sentences = Sentences.of_text(task_of(), [source] * 2, [target] * 2)

    def look(training):
        model.train(training)
        loaded = ModelOnText("m", TRAINED, model, task_of(), sentences, "none")
        return loaded.observe(Attentions(model), range(2), lambda number, seen: seen)

    for one, other in zip(look(True), look(False), strict=True):
        for kind in KINDS:
            for layer, expected in zip(one[kind], other[kind], strict=True):
                assert layer.weights.equal(expected.weights)


def test_nothing_is_left_when_the_model_fails(monkeypatch):
    for name in ("stock", "hysan-gated"):
        model = made(name)
        monkeypatch.setattr(model.decoder.layers[1], "fc1", None)
        hooks = hooks_of(model)
        with pytest.raises(TypeError):
            observe(model)
        assert hooks_of(model) == hooks


def test_words_of_families_that_refuse_some_numbers():
    @dataclass(frozen=True)
    class Every(Pattern):
        step: int

        def __post_init__(self):
            if self.step < 2:
                raise ValueError("use 2 or more")

        def allows(self, offset):
            return offset % self.step == 0

    words = {"everyK": Every, "lK": local}
    assert [word_of(pattern, words) for pattern in (local(1), Every(2))] == ["l1", "every2"]
