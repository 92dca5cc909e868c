"""Whole models: batches, precisions, decoding, and the flags of the stock Transformer."""

import copy
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.quantization_utils import quantize_model_scalar
from models import (
    ARCHITECTURES,
    CONFIGURATIONS,
    LANGUAGE_MODELS,
    PAD,
    PREFIXES,
    SENTENCES,
    assert_all_close,
    build,
    build_stock,
    build_tiny,
    check_incremental,
    gradients,
    logits,
    pad,
    parameters,
)

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.attention import AttentionPlan, PatternedAttention, record_attention
from fairseq_hybrid_attn.attention.fusion import HiddenGate, QueryGate
from fairseq_hybrid_attn.models import MMA
from fairseq_hybrid_attn.models.transformer import Plans
from fairseq_hybrid_attn.patterns import GLOBAL, PAST, local


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_batch_is_each_sentence_alone(name, double_softmax):
    """Padded on either side, with all gradients.  A ReLU's would differ by a rounding error."""
    model = build_tiny(name, activation_fn="gelu").double()
    alone = [logits(model, [s], [p])[0] for s, p in zip(SENTENCES, PREFIXES, strict=True)]
    sum(torch.tanh(output).pow(2).sum() for output in alone).backward()
    expected = gradients(model)
    for left in (True, False):
        batch = logits(model, SENTENCES, PREFIXES, left=left)
        real = [output[: len(one)] for output, one in zip(batch, alone, strict=True)]
        for output, one in zip(real, alone, strict=True):
            torch.testing.assert_close(output, one, rtol=0, atol=1e-10)
        sum(torch.tanh(output).pow(2).sum() for output in real).backward()
        assert_all_close(gradients(model), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_finite_in_every_precision(name):
    """Even if a local head of a padded position sees no key, and for a sentence of padding alone
    (in the encoder; fairseq's own cross-attention gives NaN there)."""
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        model = build_tiny(name).to(dtype)
        output = logits(model, SENTENCES, PREFIXES)
        states = model.encoder(pad([*SENTENCES, [1]], 1, left=True))["encoder_out"][0]
        assert output.isfinite().all() and states.isfinite().all(), dtype
        (output.float().pow(2).sum() + states.float().pow(2).sum()).backward()
        for parameter, gradient in gradients(model).items():
            assert gradient.isfinite().all(), (dtype, parameter)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_decoding_step_by_step_is_decoding_at_once(name, double_softmax):
    check_incremental(build_tiny(name).double())


@pytest.mark.parametrize(
    "name, settings",
    [
        ("hysan-gated", {"no_decoder_positions": True}),
        ("hysan-gated", {"decoder_embed_dim": 24, "decoder_attention_heads": 2}),
        ("lstm-on-top", {"encoder_lstm_layers": 0, "decoder_lstm_layers": 1}),
        ("lstm-on-top", {"decoder_output_dim": 8, "decoder_input_dim": 16}),
    ],
)
def test_decoding_step_by_step_at_other_sizes(name, settings, double_softmax):
    check_incremental(build_tiny(name, **settings).double())


def test_decoding_with_padding_at_the_start_of_some_prefixes():
    """Prefixes of different lengths, padded on the left, as a forced prefix may be.

    Without positions, since fairseq counts these differently step by step there.
    """
    model = build_tiny("hysan-gated", no_decoder_positions=True).double()
    encoder_out = model.encoder(torch.tensor([[5, 6, 2]] * 2))
    prefixes = torch.tensor([[2, 5, 6, 7, 8], [PAD, PAD, 2, 9, 10]])
    whole, state = model.decoder(prefixes, encoder_out=encoder_out)[0], {}
    for length in range(1, 6):
        if length == 4:  # the hypotheses of a beam change places
            model.decoder.reorder_incremental_state_scripting(state, torch.tensor([1, 0]))
            prefixes, whole = prefixes.flip(0), whole.flip(0)
        prefix = prefixes[:, :length]
        step = model.decoder(prefix, encoder_out=encoder_out, incremental_state=state)[0][:, -1]
        assert step.isfinite().all()
        for row in (0, 1) if length > 2 else (0,):
            torch.testing.assert_close(step[row], whole[row, length - 1], rtol=0, atol=1e-10)


def test_global_patterns_alone_are_the_stock_transformer(double_softmax):
    """Each model that can be reduced to global attention, with fairseq's weights: outputs and
    gradients."""
    stock = build_stock().double()
    torch.nn.init.normal_(stock.decoder.output_projection.weight)
    results = []
    for name, settings in {
        "stock": {},
        "mma": {"head_patterns": "global"},
        "hysan-gated": {"encoder_branches": "global", "decoder_branches": "fw"},
        "lstm-on-top": {"encoder_lstm_layers": 0, "decoder_lstm_layers": 0},
    }.items():
        model = stock if name == "stock" else build_tiny(name, **settings).double()
        model.load_state_dict(stock.state_dict())
        output = logits(model, SENTENCES, PREFIXES)
        torch.tanh(output).pow(2).sum().backward()
        results.append({"output": output, **gradients(model)})
        assert_all_close(results[-1], results[0], rtol=0, atol=1e-10)


def test_global_heads_without_positions_do_not_see_the_order():
    """What the NoPos rows measure: a bag of words for global heads, a sequence for MMA."""
    source, shuffled = [[5, 6, 7, 8, 2]], [[7, 5, 8, 6, 2]]
    order = [1, 3, 0, 2, 4]  # where each word of the source went
    for patterns, same in (("global", True), ("global,local,forward,backward", False)):
        model = build_tiny("mma-nopos", head_patterns=patterns).double()
        states = [model.encoder(torch.tensor(s))["encoder_out"][0] for s in (source, shuffled)]
        assert torch.allclose(states[0], states[1][order]) == same


def test_encoding_masks_hide_one_direction_in_every_layer():
    """Ma & Zhao 2020, Eq. 14, 15: even after three layers, nothing of the other side is seen."""
    base = torch.tensor([[5, 6, 7, 8, 9, 2]])
    changed = torch.where(torch.eye(6).bool(), 11, base)  # row j has another word at j
    for name, unseen in (("past-only", torch.triu), ("future-only", torch.tril)):
        encoder = build_tiny(name, no_encoder_positions=True).double().encoder
        both = (base.repeat(6, 1), changed)
        states, others = (encoder(words)["encoder_out"][0] for words in both)
        same = (others == states).all(2)  # [i, j]: state i is as without the change of word j
        diagonal = 1 if name == "past-only" else -1
        assert same.equal(unseen(torch.ones(6, 6), diagonal).bool()), name


def test_activation_checkpointing_gives_the_same_gradients():
    """With the same random numbers, on every path."""
    rates = {"dropout": 0.1, "attention_dropout": 0.3}
    for name in ("mma", "hysan-gated", "hysan-concat", "gate-hidden", "local-s", "lstm-on-top"):
        found = []
        for checkpoint in (False, True):
            model = build_tiny(name, checkpoint_activations=checkpoint, **rates).train()
            for side in (model.encoder, model.decoder):
                wrapped = [*side.layers, side.top] if hasattr(side, "top") else side.layers
                assert all(hasattr(x, "precheckpoint_forward") == checkpoint for x in wrapped)
            torch.manual_seed(1)
            logits(model.double(), SENTENCES, PREFIXES).pow(2).sum().backward()
            found.append(gradients(model))
        assert_all_close(*found)


def test_pruned_layers_keep_their_places_patterns_and_weights():
    """Layers 0 and 2 of a model trained with LayerDrop.  The setting stays with the model, so its
    own weights load again, and a side without the setting is kept whole."""
    for name in ("mma", "hysan-gated", "gate-hidden", "lstm-on-top"):
        whole = build_tiny(name, encoder_layerdrop=0.5, decoder_layerdrop=0.5)
        logits(whole.train(), SENTENCES, PREFIXES).pow(2).sum().backward()
        for more, layers in (({}, 2), ({"decoder_layers_to_keep": "1"}, 1)):
            settings = {"encoder_layers_to_keep": "0,2", **more}
            pruned, again = (build_tiny(name, **settings) for _ in range(2))
            pruned.load_state_dict(copy.deepcopy(whole.state_dict()))
            for layer, old in zip(pruned.encoder.layers, (0, 2), strict=True):
                kept = whole.encoder.layers[old]
                assert_all_close(layer.state_dict(), kept.state_dict(), rtol=0, atol=0)
                if name != "lstm-on-top":
                    assert layer.self_attn.branches == kept.self_attn.branches
            again.load_state_dict(pruned.state_dict())
            assert len(again.decoder.layers) == layers
            assert logits(again, SENTENCES, PREFIXES).equal(logits(pruned, SENTENCES, PREFIXES))


def test_a_pruned_checkpoint_is_not_pruned_again(tmp_path):
    """Its layers are counted anew, so that the setting would name others."""
    weights = {f"encoder.layers.{n}.fc1.weight": torch.ones(1) for n in range(2)}
    state = {
        "cfg": {"model": {"encoder_layers_to_keep": "0,2"}, "task": {}},
        "model": weights,
        "optimizer_history": [{"num_updates": 1, "optimizer_name": "", "lr_scheduler_state": {}}],
        "last_optimizer_state": {},
        "extra_state": {"train_iterator": {"epoch": 1}},
    }
    path = str(tmp_path / "model.pt")
    torch.save({**state, "args": None}, path)
    for same in ("2, 0", None):
        checkpoint_utils.load_checkpoint_to_cpu(path, {"encoder_layers_to_keep": same})
    for other in ("0,1", "0"):
        with pytest.raises(UserError, match=f"layers 0,2 alone; it cannot keep {other}"):
            checkpoint_utils.load_checkpoint_to_cpu(path, {"encoder_layers_to_keep": other})


def test_a_decoder_may_see_the_source_in_its_self_attention():
    """Peitz et al. 2019."""
    other = [[4, *sentence[1:]] for sentence in SENTENCES]
    for name in ("mma", "gate-hidden", "local-s"):
        model = build_tiny(name, cross_self_attention=True, no_cross_attention=True)
        first, second = (logits(model, source, PREFIXES)[0] for source in (SENTENCES, other))
        assert not torch.allclose(first, second), name


PQ = {"quant_noise_pq": 0.5, "quant_noise_pq_block_size": 4}


def matrices(model) -> dict[str, torch.Tensor]:
    """The matrices of a model's layers."""
    named = model.named_parameters()
    return {name: x for name, x in named if ".layers." in name and x.dim() == 2}


@pytest.mark.parametrize("kind", ["pq", "scalar"])
@pytest.mark.parametrize(
    "name",
    ["mma", "hysan-gated", "hysan-concat", "gate-query", "gate-local", "local-s", "lstm-on-top"],
)
def test_noise_changes_what_every_weight_gives_or_is_refused(name, kind, monkeypatch):
    """A matrix is used with noise if its module was called: it then has the noise in its data
    (pq), or has counted a call (scalar)."""
    monkeypatch.setattr(torch.Tensor, "cuda", lambda tensor: tensor)  # scalar noise is for GPUs
    settings = PQ if kind == "pq" else {"quant_noise_scalar": 0.5}
    arch = CONFIGURATIONS[name][0]
    own = matrices(build_tiny(name)).keys() - matrices(build_tiny("mma")).keys()
    refused = [x for x in own if kind == "pq" or ".bias." in x] or arch == "transformer_lstm_on_top"
    if refused:
        with pytest.raises(UserError, match=f"--quant-noise-{kind}"):
            build_tiny(name, **settings)
        return
    model = build_tiny(name, **settings)
    if kind == "scalar":  # as fairseq's task does
        quantize_model_scalar(model, SimpleNamespace(**settings))
    before = {name: weight.clone() for name, weight in matrices(model.train()).items()}
    logits(model, SENTENCES, PREFIXES)
    for weight, after in matrices(model).items():
        module = model.get_submodule(weight.rpartition(".")[0])
        noisy = module.counter == 1 if kind == "scalar" else not after.equal(before[weight])
        assert noisy, weight


def test_a_decoder_with_noise_is_a_stock_one():
    ours, stock = build_tiny("mma", head_patterns="global", **PQ), build_stock(**PQ)
    ours.load_state_dict(stock.state_dict())
    outputs = [logits(model.double(), SENTENCES, PREFIXES) for model in (ours, stock)]
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-10)
    with pytest.raises(UserError, match="--cross-self-attention"):
        build_tiny("mma", cross_self_attention=True, **PQ)


def test_as_many_plans_as_layers(monkeypatch):
    plan = AttentionPlan(branches=((PAST,),))
    for side, layers in (("encoder", 3), ("decoder", 2)):
        plans = Plans(**{side: (plan,) * (layers - 1)})
        monkeypatch.setattr(MMA, "plan", classmethod(lambda cls, cfg, faults, p=plans: p))
        with pytest.raises(UserError, match=f"{layers - 1} plans for {layers} {side} layers"):
            build_tiny("mma")


def test_a_flag_reaches_what_it_sets():
    for encoder in (False, True):
        model = build_tiny("mma", no_encoder_positions=encoder, no_decoder_positions=not encoder)
        assert (model.encoder.embed_positions is None) == encoder
        assert (model.decoder.embed_positions is None) == (not encoder)
    gate = build_tiny("gate-hidden", local_window=3).encoder.layers[0].self_attn
    assert gate.branches == ((GLOBAL,), (local(3),))
    (heads,) = build_tiny("mma", local_window=2).encoder.layers[0].self_attn.branches
    assert heads[1] == local(2)
    for name, kind in (("gate-hidden", HiddenGate), ("gate-query", QueryGate)):
        assert isinstance(build_tiny(name).encoder.layers[0].self_attn.fusion, kind)
    for name in ("neighbor", "local-h", "local-s"):
        assert build_tiny(name).encoder.layers[0].self_attn.bias.word == name
    bias = build_tiny("local-h", gaussian_window=4.0).encoder.layers[0].self_attn.bias
    assert bias.fixed_window == 4.0
    gates = dict(build_tiny("hysan-gated", squeeze_ratio=8).encoder.layers[0].named_parameters())
    shapes = [tuple(gate.shape) for name, gate in gates.items() if ".fusion." in name]
    assert shapes == [(2, 16), (16, 2)]  # the branches share one gate


# From the papers: dropout, and that of attention weights and activations.
DROPOUT = {
    "transformer_hysan_big": (0.3, 0.0),
    "transformer_hybrid_gate_base": (0.1, 0.1),
    "transformer_localness_base": (0.1, 0.1),
    "transformer_mma_iwslt": (0.3, 0.0),
}
# What a model adds to the Transformer: gates of 2 * 512 * 512 / 16 in all twelve layers; a gate of
# 512 in two layers; two predictors of 512 * 512 + 512 in two layers.
ADDED = {
    "transformer_hysan": 12 * 2 * 512 * 32,
    "transformer_hybrid_gate": 2 * 512,
    "transformer_localness": 2 * 2 * (512 * 512 + 512),
    "transformer_forward_encoding_mask": 0,
}


def documented_sizes():
    """Layers, width, feed-forward width and heads of each architecture, from docs/models.md."""
    page = (Path(__file__).parents[3] / "docs/models.md").read_text()
    sizes = {}
    for names, *size in re.findall(r"^\| (.*) \| (\d+), (\d+), (\d+), (\d+) \|", page, re.M):
        first, *others = re.findall("`(.*?)`", names)
        for name in (first, *others):
            sizes[name.replace("…", first)] = [int(number) for number in size]
    return sizes


def test_sizes_and_parameters_of_every_architecture_are_the_documented_ones():
    names = ("max_source_positions", "max_target_positions", "tokens_per_sample")
    limits, counts = {**dict.fromkeys(names, 64), "add_bos_token": False, "tpu": False}, {}
    sizes = documented_sizes()
    assert set(sizes) == {*ARCHITECTURES, *LANGUAGE_MODELS}
    for arch, (layers, width, ffn, heads) in sizes.items():
        dropout, others = DROPOUT.get(arch, (0.1, 0.0))
        with torch.device("meta"):
            model = build(arch, **limits)
        counts[arch] = parameters(model)
        for side in (model.encoder, model.decoder) if arch in ARCHITECTURES else (model.decoder,):
            assert len(side.layers) == layers, arch
            for layer in side.layers:
                attention = layer.self_attn
                assert tuple(layer.fc1.weight.shape) == (ffn, width), arch
                assert (attention.num_heads, attention.head_dim) == (heads, width // heads), arch
                assert layer.dropout_module.p == dropout, arch
                for module in (attention.dropout_module, layer.activation_dropout_module):
                    assert module.p == others, arch
    for arch, added in ADDED.items():
        assert counts[arch] - counts["transformer_mma"] == added, arch


def test_a_whole_model_can_be_copied_and_pickled(tmp_path):
    for name in ("hysan-gated", "lstm-on-top", "past-only"):
        model = build_tiny(name)
        expected = logits(model, SENTENCES, PREFIXES)
        torch.save(model, tmp_path / "model.pt")
        again = torch.load(tmp_path / "model.pt", weights_only=False)
        for other in (again, copy.deepcopy(model)):
            assert logits(other, SENTENCES, PREFIXES).equal(expected)


def test_records_of_a_model_name_every_planned_layer():
    model = build_tiny("hysan-gated")
    with record_attention(model) as records:
        logits(model, SENTENCES, PREFIXES)
    names = [f"encoder.layers.{i}.self_attn" for i in range(3)]
    names += [f"decoder.layers.{i}.self_attn" for i in range(2)]
    assert list(records) == names
    assert records["encoder.layers.2.self_attn"][0].weights.shape == (4, 4, 4, 8, 8)
    assert records["decoder.layers.0.self_attn"][0].gates.shape == (2, 6, 4, 16)
    gate = build_tiny("gate-hidden")
    assert not any(isinstance(m, PatternedAttention) for m in gate.decoder.modules())


def test_full_context_alignment_is_refused_by_a_patterned_decoder():
    model = build_tiny("hysan-gated")
    encoder_out, prefix = model.encoder(torch.tensor([[5, 6, 2]])), torch.tensor([[2, 5]])
    with pytest.raises(ValueError, match="full_context_alignment"):
        model.decoder(prefix, encoder_out=encoder_out, full_context_alignment=True)
