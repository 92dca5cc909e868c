"""Whole models: batches, positions, half precision, and the flags of the stock transformer."""

import copy
from types import SimpleNamespace

import pytest
import torch
from fairseq.models import MODEL_DATACLASS_REGISTRY
from fairseq.models.transformer import TransformerModelBase
from models import CONFIGURATIONS, TINY, build, build_tiny, pad
from omegaconf import OmegaConf

from fairseq_hybrid_attn.attention import PatternedSelfAttention, record_attention
from fairseq_hybrid_attn.models.config import nested_config
from fairseq_hybrid_attn.patterns import GLOBAL, local

SENTENCES = [[5, 6, 7, 8, 9, 10, 11, 2], [2], [9, 4, 2], [12, 4, 4, 4, 5, 2]]
PREFIXES = [[2, 5, 6, 7], [2], [2, 11, 10], [2, 4, 4, 4, 5, 6]]


def run(model, sources, prefixes, *, left=True):
    padding = model.encoder.padding_idx
    src = pad(sources, padding, left=left)
    lengths = src.ne(padding).sum(1)
    return model(src, lengths, pad(prefixes, padding, left=False))[0]


@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_batch_is_each_sentence_alone(name, left, double_softmax):
    """Outputs and all gradients of a ragged batch, in double precision.

    The activation is smooth: a ReLU whose input is a rounding error away from zero would
    make a gradient differ for no fault of the attention.
    """
    model = build_tiny(name, activation_fn="gelu").double()
    alone, loss = [], 0
    for source, prefix in zip(SENTENCES, PREFIXES, strict=True):
        output = run(model, [source], [prefix])[0]
        alone.append(output)
        loss = loss + torch.tanh(output).pow(2).sum()
    loss.backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()

    batch = run(model, SENTENCES, PREFIXES, left=left)
    loss = 0
    for output, one in zip(batch, alone, strict=True):
        torch.testing.assert_close(output[: len(one)], one, rtol=0, atol=1e-10)
        loss = loss + torch.tanh(output[: len(one)]).pow(2).sum()
    loss.backward()
    for parameter_name, parameter in model.named_parameters():
        torch.testing.assert_close(
            parameter.grad,
            expected[parameter_name],
            rtol=0,
            atol=1e-10,
            msg=lambda m, n=parameter_name: f"{n}: {m}",
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_finite_in_every_precision(name, dtype):
    """Also where a local head of a padded position sees no key, and for a sentence of
    padding only (the encoder's part; fairseq's own cross-attention has no answer there)."""
    model = build_tiny(name).to(dtype)
    output = run(model, SENTENCES, PREFIXES)
    padded = pad([*SENTENCES, [1]], model.encoder.padding_idx, left=True)
    states = model.encoder(padded)["encoder_out"][0]
    assert output.isfinite().all() and states.isfinite().all()
    (output.float().pow(2).sum() + states.float().pow(2).sum()).backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all(), parameter_name


@pytest.mark.parametrize("arch", ["transformer_mma", "transformer_hysan"])
@pytest.mark.parametrize("no_encoder", [False, True])
@pytest.mark.parametrize("no_decoder", [False, True])
def test_positions_are_switched_off_side_by_side(arch, no_encoder, no_decoder):
    model = build(
        arch,
        **{**TINY, "no_encoder_positions": no_encoder, "no_decoder_positions": no_decoder},
    )
    assert (model.encoder.embed_positions is None) == no_encoder
    assert (model.decoder.embed_positions is None) == no_decoder


def test_global_heads_without_positions_do_not_see_the_order():
    """What the NoPos rows measure: a bag of words for global heads, a sequence for MMA."""
    source, shuffled = [[5, 6, 7, 8, 2]], [[7, 5, 8, 6, 2]]
    order = [1, 3, 0, 2, 4]  # where each word of the source went
    for patterns, same in (("global", True), ("global,local,forward,backward", False)):
        model = build_tiny("mma-nopos", head_patterns=patterns).double()
        states = [model.encoder(torch.tensor(s))["encoder_out"][0] for s in (source, shuffled)]
        assert torch.allclose(states[0], states[1][order]) == same


def test_mma_with_global_heads_is_the_stock_transformer():
    ours = build_tiny("mma", head_patterns="global").double()
    words = ours.encoder.dictionary
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    known = {k: v for k, v in TINY.items() if k != "squeeze_ratio"}
    cfg = OmegaConf.structured(MODEL_DATACLASS_REGISTRY["transformer_mma"](**known))
    stock = TransformerModelBase.build_model(nested_config(cfg), task).double().eval()
    stock.load_state_dict(ours.state_dict())
    torch.testing.assert_close(
        run(ours, SENTENCES, PREFIXES), run(stock, SENTENCES, PREFIXES), rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("name", ["mma", "hysan-gated", "hysan-concat", "gate-hidden", "local-s"])
def test_activation_checkpointing_gives_the_same_gradients(name):
    gradients = []
    for checkpoint in (False, True):
        model = build_tiny(name, checkpoint_activations=checkpoint, dropout=0.1).train().double()
        torch.manual_seed(1)
        with record_attention(model) as records:
            run(model, SENTENCES, PREFIXES).pow(2).sum().backward()
        # Each layer is computed once more for its gradient, if anything is checkpointed.
        assert {len(calls) for calls in records.values()} == {1 + checkpoint}
        gradients.append({n: p.grad for n, p in model.named_parameters()})
    assert gradients[0].keys() == gradients[1].keys()
    for parameter in gradients[0]:
        torch.testing.assert_close(gradients[1][parameter], gradients[0][parameter])


@pytest.mark.parametrize("name", ["mma", "hysan-gated", "gate-hidden"])
def test_layerdrop_trains_and_pruned_layers_keep_their_patterns(name):
    settings = {"encoder_layerdrop": 0.5, "decoder_layerdrop": 0.5}
    model = build_tiny(name, **settings).train()
    run(model, SENTENCES, PREFIXES).pow(2).sum().backward()

    pruned = build_tiny(name, **settings, encoder_layers_to_keep="0,2", decoder_layers_to_keep="1")
    assert (len(pruned.encoder.layers), len(pruned.decoder.layers)) == (2, 1)
    for layer, original in zip(pruned.encoder.layers, (0, 2), strict=True):
        kept = model.encoder.layers[original].self_attn
        assert layer.self_attn.branches == kept.branches
        assert layer.self_attn.state_dict().keys() == kept.state_dict().keys()


@pytest.mark.parametrize("share", ["none", "decoder", "all"])
def test_tied_embeddings(share):
    model = build_tiny(
        "hysan-gated",
        share_decoder_input_output_embed=share == "decoder",
        share_all_embeddings=share == "all",
    )
    encoder, decoder = model.encoder.embed_tokens.weight, model.decoder.embed_tokens.weight
    assert (encoder is decoder) == (share == "all")
    assert (model.decoder.output_projection.weight is decoder) == (share != "none")


@pytest.mark.parametrize("name", ["mma", "gate-hidden", "local-s"])
def test_cross_and_self_attention_of_a_stock_decoder(name):
    """Peitz et al. 2019: the decoder's self-attention also sees the source."""
    model = build_tiny(name, cross_self_attention=True, no_cross_attention=True)
    first = run(model, SENTENCES, PREFIXES)
    other = [[4, *sentence[1:]] for sentence in SENTENCES]
    assert not torch.allclose(first[0], run(model, other, PREFIXES)[0])


@pytest.mark.parametrize("name", ["mma", "hysan-concat", "gate-query"])
def test_quantisation_noise(name):
    model = build_tiny(name, quant_noise_pq=0.5, quant_noise_pq_block_size=4).train()
    for layer in model.encoder.layers:
        for projection in ("q_proj", "k_proj", "v_proj", "out_proj"):
            assert getattr(layer.self_attn, projection)._forward_pre_hooks  # adds the noise
    run(model, SENTENCES, PREFIXES).pow(2).sum().backward()


@pytest.mark.parametrize("name", ["mma", "hysan-gated", "gate-hidden", "local-s"])
def test_each_dropout_goes_where_fairseq_has_it(name):
    model = build_tiny(name, dropout=0.3, attention_dropout=0.2, activation_dropout=0.1)
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        assert layer.dropout_module.p == 0.3
        assert layer.self_attn.dropout_module.p == 0.2
        assert layer.activation_dropout_module.p == 0.1


def test_a_flag_reaches_what_it_sets():
    gate = build_tiny("gate-hidden", local_window=3).encoder.layers[0].self_attn
    assert gate.branches == ((GLOBAL,), (local(3),))
    (heads,) = build_tiny("mma", local_window=2).encoder.layers[0].self_attn.branches
    assert heads[1] == local(2)
    bias = build_tiny("local-h", gaussian_window=4.0).encoder.layers[0].self_attn.bias
    assert bias.fixed_window == 4.0
    squeeze = build_tiny("hysan-gated", squeeze_ratio=8).encoder.layers[0].self_attn.fusion.squeeze
    assert squeeze.out_features == 2


# (layers, width, FFN, heads, dropout, attention and activation dropout), from the papers.
SIZES = {
    "transformer_hysan_small": (2, 256, 1024, 4, 0.1, 0.0),
    "transformer_hysan_base": (6, 512, 2048, 8, 0.1, 0.0),
    "transformer_hysan_big": (6, 1024, 4096, 16, 0.3, 0.0),
    "transformer_hybrid_gate_base": (6, 512, 2048, 8, 0.1, 0.1),
    "transformer_localness_base": (6, 512, 2048, 8, 0.1, 0.1),
    "transformer_mma_iwslt": (6, 512, 1024, 4, 0.3, 0.0),
    "transformer_mma_base": (6, 512, 2048, 8, 0.1, 0.0),
    "transformer_forward_encoding_mask": (6, 512, 2048, 8, 0.1, 0.0),
    "transformer_backward_encoding_mask": (6, 512, 2048, 8, 0.1, 0.0),
}


@pytest.mark.parametrize("arch", SIZES)
def test_named_sizes(arch):
    layers, width, ffn, heads, dropout, others = SIZES[arch]
    with torch.device("meta"):
        model = build(arch, max_source_positions=64, max_target_positions=64)
    for side in (model.encoder, model.decoder):
        assert len(side.layers) == layers
        for layer in side.layers:
            assert tuple(layer.fc1.weight.shape) == (ffn, width)
            assert layer.self_attn.num_heads == heads
            assert layer.self_attn.head_dim == width // heads
            assert layer.dropout_module.p == dropout
            assert layer.self_attn.dropout_module.p == others
            assert layer.activation_dropout_module.p == others


def test_pruned_weights_load_and_keep_their_places():
    """Layers 0 and 2 of a trained model, of which only layer 0 is hybrid; the setting stays
    with the model, so that its own weights load again, and a side not named is kept whole."""
    whole = build_tiny("gate-hidden")
    pruned = build_tiny("gate-hidden", encoder_layers_to_keep="0,2")
    pruned.load_state_dict(whole.state_dict())
    for new, old in ((0, 0), (1, 2)):
        mine, theirs = (m.encoder.layers[i].state_dict() for m, i in ((pruned, new), (whole, old)))
        assert all(mine[name].equal(theirs[name]) for name in theirs)
    again = build_tiny("gate-hidden", encoder_layers_to_keep="0,2")
    again.load_state_dict(pruned.state_dict())
    assert run(again, SENTENCES, PREFIXES).equal(run(pruned, SENTENCES, PREFIXES))


def test_a_whole_model_can_be_copied_and_pickled(tmp_path):
    model = build_tiny("hysan-gated")
    expected = run(model, SENTENCES, PREFIXES)
    torch.save(model, tmp_path / "model.pt")
    again = torch.load(tmp_path / "model.pt", weights_only=False)
    for other in (again, copy.deepcopy(model)):
        assert run(other, SENTENCES, PREFIXES).equal(expected)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_decoder_sees_no_future(name):
    model = build_tiny(name).double()
    before = run(model, SENTENCES[:1], [[2, 5, 6, 7, 8]])
    after = run(model, SENTENCES[:1], [[2, 5, 6, 11, 4]])
    torch.testing.assert_close(after[:, :3], before[:, :3], rtol=0, atol=1e-12)
    assert not torch.allclose(after[:, 3:], before[:, 3:])


@pytest.mark.parametrize(
    "name, seen",
    [("past-only", lambda i, j: j <= i), ("future-only", lambda i, j: j >= i)],
)
def test_encoding_masks_hide_one_direction_in_every_layer(name, seen):
    """Ma & Zhao 2020, Eq. 14, 15: through three layers still no look at the other side."""
    model = build_tiny(name, no_encoder_positions=True).double()
    base = torch.tensor([[5, 6, 7, 8, 9, 2]])
    states = model.encoder(base)["encoder_out"][0]
    for j in range(6):
        changed = base.clone()
        changed[0, j] = 11
        other = model.encoder(changed)["encoder_out"][0]
        for i in range(6):
            assert torch.equal(states[i], other[i]) == (not seen(i, j))


def test_records_of_a_model_name_every_planned_layer():
    model = build_tiny("hysan-gated")
    with record_attention(model) as records:
        run(model, SENTENCES, PREFIXES)
    names = [f"encoder.layers.{i}.self_attn" for i in range(3)]
    names += [f"decoder.layers.{i}.self_attn" for i in range(2)]
    assert list(records) == names
    assert records["encoder.layers.2.self_attn"][0].weights.shape == (4, 4, 4, 8, 8)
    assert records["decoder.layers.0.self_attn"][0].gates.shape == (2, 6, 4, 16)


def test_gates_of_all_branches_share_their_weights():
    model = build_tiny("hysan-gated")
    gates = [
        parameter
        for name, parameter in model.named_parameters()
        if ".fusion." in name and "layers.0" in name and name.startswith("encoder")
    ]
    assert [tuple(g.shape) for g in gates] == [(4, 16), (16, 4)]


def test_stock_attention_where_the_papers_leave_it():
    model = build_tiny("gate-hidden")
    assert not any(isinstance(m, PatternedSelfAttention) for m in model.decoder.modules())


def test_full_context_alignment_is_refused_by_a_patterned_decoder():
    model = build_tiny("hysan-gated")
    encoder_out = model.encoder(torch.tensor([[5, 6, 2]]))
    with pytest.raises(ValueError, match="full_context_alignment"):
        model.decoder(torch.tensor([[2, 5]]), encoder_out=encoder_out, full_context_alignment=True)
