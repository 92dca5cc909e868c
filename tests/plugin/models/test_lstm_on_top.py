"""LSTM on top (Ma & Zhao 2020, Eq. 16): what it computes, step by step and all at once.

That a sentence's output and gradients are the same alone and in any batch, and that half
precisions stay finite, is tested for all models together in test_models.py.
"""

import copy

import pytest
import torch
import torch.nn.functional as F
from cli import USER_DIR, binarise, generate, run, train, write_corpus
from fairseq.models.transformer import TransformerDecoderBase, TransformerEncoderBase
from fairseq.sequence_generator import SequenceGenerator
from models import TINY, build, build_tiny, pad, parameters
from test_decoding import check_incremental

from fairseq_hybrid_attn.errors import UserError

PAD, EOS = 1, 2
SENTENCES = [[5, 6, 7, 8, 9, 10, 11, 2], [2], [9, 4, 2], [12, 4, 4, 4, 5, 2]]
PREFIXES = [[2, 5, 6, 7], [2], [2, 11, 10], [2, 4, 4, 4, 5, 6]]
PRENORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}


def tiny(encoder=2, decoder=2, **settings):
    layers = {"encoder_lstm_layers": encoder, "decoder_lstm_layers": decoder}
    return build_tiny("lstm-on-top", **layers, **settings)


def logits(model, sources, prefixes, left=True):
    src = pad(sources, PAD, left=left)
    return model(src, src.ne(PAD).sum(1), pad(prefixes, PAD, left=False))[0]


# --- Eq. 16 -----------------------------------------------------------------------------------


def by_hand(top, o):
    """Eq. 16 of one sentence, ``[n, d]``, gate by gate."""
    x = o + feed_forward(top.ffnn, o)
    weights = dict(top.lstm.named_parameters())
    for layer in range(top.lstm.num_layers):
        directions = [direction(weights, f"l{layer}", x)]
        if top.lstm.bidirectional:
            directions.append(direction(weights, f"l{layer}_reverse", x.flip(0)).flip(0))
        x = torch.cat(directions, dim=1)
    return top.layer_norm(feed_forward(top.pfn, x))


def feed_forward(network, x):
    hidden = torch.relu(x @ network.fc1.weight.t() + network.fc1.bias)
    return hidden @ network.fc2.weight.t() + network.fc2.bias


def direction(weights, name, x):
    w, u, b, c = (
        weights[f"{kind}_{name}"] for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    h = cell = x.new_zeros(u.size(1))
    states = []
    for position in x:
        i, f, g, o = (w @ position + b + u @ h + c).chunk(4)
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(cell)
        states.append(h)
    return torch.stack(states)


@pytest.mark.parametrize("norm", [{}, PRENORM], ids=["post-norm", "pre-norm"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
def test_the_encoder_hands_on_equation_16(layers, left, norm):
    model = tiny(encoder=layers, **norm).double()
    src = pad(SENTENCES, PAD, left=left)
    o = TransformerEncoderBase.forward(model.encoder, src)["encoder_out"][0]
    found = model.encoder(src)["encoder_out"][0]
    assert found.shape == o.shape
    for row, tokens in enumerate(src):
        real = tokens.ne(PAD)
        torch.testing.assert_close(
            found[real, row], by_hand(model.encoder.top, o[real, row]), rtol=0, atol=1e-10
        )


@pytest.mark.parametrize("norm", [{}, PRENORM], ids=["post-norm", "pre-norm"])
@pytest.mark.parametrize("layers", [1, 2])
def test_the_decoder_s_features_are_equation_16(layers, norm, double_softmax):
    model = tiny(decoder=layers, **norm).double()
    encoder_out = model.encoder(pad(SENTENCES, PAD, left=True))
    prefixes = pad(PREFIXES, PAD, left=False)
    o = TransformerDecoderBase.extract_features(model.decoder, prefixes, encoder_out)[0]
    found, _ = model.decoder.extract_features(prefixes, encoder_out)
    for row, tokens in enumerate(prefixes):
        real = tokens.ne(PAD)
        torch.testing.assert_close(
            found[row, real], by_hand(model.decoder.top, o[row, real]), rtol=0, atol=1e-10
        )
    # ... and the output layer sees nothing else.
    torch.testing.assert_close(
        model.decoder(prefixes, encoder_out)[0], model.decoder.output_layer(found)
    )


def test_every_cross_attention_looks_at_what_is_on_top():
    model = tiny()
    keys = []
    for layer in model.decoder.layers:
        layer.encoder_attn.k_proj.register_forward_pre_hook(lambda m, args: keys.append(args[0]))
    src = pad(SENTENCES, PAD, left=True)
    logits(model, SENTENCES, PREFIXES)
    top = model.encoder(src)["encoder_out"][0]
    assert len(keys) == 2 and all(key.equal(top) for key in keys)


def test_the_attention_that_alignments_are_read_from_is_that_of_the_last_layer():
    model = tiny()
    seen = []
    model.decoder.layers[-1].encoder_attn.register_forward_hook(lambda m, i, o: seen.append(o[1]))
    src = pad(SENTENCES, PAD, left=True)
    output = model(src, src.ne(PAD).sum(1), pad(PREFIXES, PAD, left=False))
    attention = output[1]["attn"][0]
    assert attention.shape == (4, 6, 8)
    torch.testing.assert_close(attention, seen[0].mean(dim=0))
    torch.testing.assert_close(attention.sum(2), torch.ones(4, 6))


def test_without_layers_it_is_the_stock_transformer():
    model = tiny(encoder=0, decoder=0)
    assert type(model.encoder) is TransformerEncoderBase
    assert type(model.decoder) is TransformerDecoderBase
    for encoder, decoder in ((1, 0), (0, 1)):
        one_side = tiny(encoder, decoder)
        assert hasattr(one_side.encoder, "top") == bool(encoder)
        assert hasattr(one_side.decoder, "top") == bool(decoder)


def test_the_encoder_s_lstm_has_two_directions_and_the_decoder_s_one():
    """The bidirectional states of half the width make one of the model's width."""
    model = tiny()
    for lstm, bidirectional, width in (
        (model.encoder.top.lstm, True, 8),
        (model.decoder.top.lstm, False, 16),
    ):
        assert (lstm.bidirectional, lstm.hidden_size, lstm.input_size) == (bidirectional, width, 16)


# (d, f) = (512, 2048). Two networks d -> f -> d, a layer norm, and layers of an LSTM: four gates
# of d inputs and h states with two biases, h = d/2 in two directions, or d in one.
NETWORKS = 2 * (2 * 512 * 2048 + 2048 + 512) + 2 * 512
ENCODER_LAYER = 2 * (4 * 256 * (512 + 256) + 2 * 4 * 256)
DECODER_LAYER = 4 * 512 * (512 + 512) + 2 * 4 * 512


@pytest.mark.parametrize("encoder, decoder", [(1, 0), (2, 0), (0, 1), (0, 2), (2, 2)])
def test_parameters(encoder, decoder):
    def count(**layers):
        positions = {"max_source_positions": 64, "max_target_positions": 64}
        with torch.device("meta"):
            return parameters(build("transformer_lstm_on_top", **positions, **layers))

    assert (NETWORKS, ENCODER_LAYER, DECODER_LAYER) == (4_200_448, 1_576_960, 2_101_248)
    none = count(encoder_lstm_layers=0, decoder_lstm_layers=0)
    assert count(encoder_lstm_layers=encoder, decoder_lstm_layers=decoder) - none == (
        (encoder > 0) * NETWORKS + encoder * ENCODER_LAYER
        + (decoder > 0) * NETWORKS + decoder * DECODER_LAYER
    )  # fmt: skip


def test_sizes_of_each_side(double_softmax):
    model = tiny(decoder_embed_dim=24, decoder_ffn_embed_dim=40, decoder_attention_heads=2)
    assert model.encoder.top.ffnn.fc1.weight.shape == (32, 16)
    assert model.decoder.top.pfn.fc1.weight.shape == (40, 24)
    check_incremental(model.double())


def test_another_width_of_the_output(double_softmax):
    model = tiny(decoder_output_dim=8, decoder_input_dim=16).double()
    assert model.decoder.top.lstm.hidden_size == 8
    check_incremental(model)


# --- time ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder, decoder", [(0, 1), (0, 2), (2, 0), (1, 1)])
@pytest.mark.parametrize("norm", [{}, PRENORM], ids=["post-norm", "pre-norm"])
def test_step_by_step_with_reordering_is_all_at_once(encoder, decoder, norm, double_softmax):
    check_incremental(tiny(encoder, decoder, **norm).double())


def test_the_state_is_needed_and_reordered(double_softmax):
    """Without either, the steps would differ: the test above tests something."""
    for forget in ("state", "order"):
        model = tiny(0, 1).double()
        top = model.decoder.top
        if forget == "state":
            top.get_incremental_state = lambda state, key: None
        else:
            top.reorder_incremental_state = lambda state, order: None
        with pytest.raises(AssertionError, match="not close"):
            check_incremental(model)


def test_the_state_has_the_batch_first():
    model = tiny(0, 2)
    encoder_out = model.encoder(torch.tensor([[5, 2]] * 3))
    state = {}
    model.decoder(torch.full((3, 1), EOS), encoder_out=encoder_out, incremental_state=state)
    (cached,) = [value for key, value in state.items() if key.endswith(".lstm")]
    assert {name: tuple(t.shape) for name, t in cached.items()} == {
        "h": (3, 2, 16),
        "c": (3, 2, 16),
    }


def test_a_step_is_told_whether_its_own_position_is_padding():
    model = tiny(0, 1)
    told = []
    model.decoder.top.register_forward_pre_hook(lambda module, args: told.append(args[1].tolist()))
    encoder_out = model.encoder(torch.tensor([[5, 2]] * 2))
    prefix = torch.tensor([[EOS, PAD], [EOS, 5]])
    model.decoder(prefix, encoder_out=encoder_out, incremental_state={})
    assert told == [[[True], [False]]]


@pytest.mark.parametrize("encoder, decoder", [(0, 1), (0, 2), (2, 2)])
def test_no_position_sees_its_future(encoder, decoder, double_softmax):
    """Each later token is changed in turn; what came before is the same to the last bit."""
    model = tiny(encoder, decoder).double()
    prefix = [2, 5, 6, 7, 8, 9]
    before = logits(model, SENTENCES[:1], [prefix])[0]
    for j in range(1, 6):
        for token in (4, 12, EOS):
            changed = [*prefix[:j], token, *prefix[j + 1 :]]
            after = logits(model, SENTENCES[:1], [changed])[0]
            torch.testing.assert_close(after[:j], before[:j], rtol=0, atol=1e-12)
            assert all(not torch.allclose(a, b) for a, b in zip(after[j:], before[j:], strict=True))


def test_padding_is_skipped_wherever_it_stands():
    """All at once and step by step.  Of the LSTM alone: before a prefix, fairseq's own
    self-attention has no answer to padding."""
    top = tiny(2, 2).double().decoder.top
    x = torch.randn(6, 3, 16, dtype=torch.float64)
    padding = torch.zeros(3, 6, dtype=torch.bool)
    padding[0, :2] = padding[1, 4:] = padding[2, 1] = padding[2, 3] = True
    whole, state = top(x, padding), {}
    for row in range(3):
        kept = ~padding[row]
        alone = top(x[kept, row : row + 1], padding[row : row + 1, kept])[:, 0]
        torch.testing.assert_close(whole[kept, row], alone, rtol=0, atol=1e-12)
    for n in range(6):
        step = top(x[n : n + 1], padding[:, n : n + 1], state)[0]
        torch.testing.assert_close(step, whole[n], rtol=0, atol=1e-12)


def test_beam_search_scores_its_hypotheses_as_they_are(double_softmax):
    """Every hypothesis' score, gathered step by step in a beam whose finished sentences leave,
    is that of the same words fed at once."""
    model = tiny(2, 2).double()
    torch.nn.init.normal_(model.decoder.output_projection.weight)  # some sentences end early
    src = pad(SENTENCES, PAD, left=True)
    sample = {"net_input": {"src_tokens": src, "src_lengths": src.ne(PAD).sum(1)}}
    generator = SequenceGenerator(
        [model], model.decoder.dictionary, beam_size=3, max_len_a=1, max_len_b=3
    )
    lengths = set()
    for source, hypotheses in zip(SENTENCES, generator.generate([model], sample), strict=True):
        for hypothesis in hypotheses:
            words = hypothesis["tokens"].tolist()
            lengths.add(len(words))
            output = logits(model, [source], [[EOS, *words[:-1]]])[0]
            expected = F.log_softmax(output, dim=1)[range(len(words)), words]
            torch.testing.assert_close(
                hypothesis["positional_scores"].double(), expected, rtol=0, atol=1e-5
            )
    assert len(lengths) > 2


# --- training -----------------------------------------------------------------------------------


def test_activation_checkpointing_gives_the_same_gradients(double_softmax):
    gradients = []
    for checkpoint in (False, True):
        model = tiny(2, 2, checkpoint_activations=checkpoint, dropout=0.1).train()
        for side in (model.encoder, model.decoder):
            assert hasattr(side.top, "precheckpoint_forward") == checkpoint
        torch.manual_seed(1)
        logits(model, SENTENCES, PREFIXES).pow(2).sum().backward()
        gradients.append({n: p.grad.clone() for n, p in model.named_parameters()})
        if checkpoint:
            check_incremental(model.double().eval(), steps=2)
    assert gradients[0].keys() == gradients[1].keys()
    for parameter in gradients[0]:
        torch.testing.assert_close(gradients[1][parameter], gradients[0][parameter])


@pytest.mark.parametrize("widths", [{}, {"decoder_output_dim": 8, "decoder_input_dim": 16}])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast(dtype, widths):
    """Training in mixed precision, and steps within it, stay near single precision."""
    model = tiny(**widths)
    expected = logits(model, SENTENCES, PREFIXES)
    with torch.autocast("cpu", dtype=dtype):
        found = logits(model, SENTENCES, PREFIXES)
        found.float().pow(2).sum().backward()
        encoder_out = model.encoder(torch.tensor(SENTENCES[:1]))
        state, prefix = {}, torch.tensor(PREFIXES[:1])
        for length in range(1, 5):
            step = model.decoder(
                prefix[:, :length], encoder_out=encoder_out, incremental_state=state
            )[0]
            torch.testing.assert_close(
                step[0, -1].float(), expected[0, length - 1], rtol=0, atol=0.1
            )
    torch.testing.assert_close(found[0, :4].float(), expected[0, :4], rtol=0, atol=0.1)
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("share", ["share_decoder_input_output_embed", "share_all_embeddings"])
def test_tied_embeddings(share):
    model = tiny(**{share: True})
    assert model.decoder.output_projection.weight is model.decoder.embed_tokens.weight
    assert (model.encoder.embed_tokens is model.decoder.embed_tokens) == ("all" in share)
    logits(model, SENTENCES, PREFIXES).pow(2).sum().backward()


def test_dropout_is_where_it_is_said_to_be():
    model = tiny(dropout=0.3, activation_dropout=0.2)
    for top in (model.encoder.top, model.decoder.top):
        assert top.lstm.dropout == 0.3
        for network in (top.ffnn, top.pfn):
            assert network.dropout_module.p == 0.3
            assert network.activation_dropout_module.p == 0.2
    older = tiny(relu_dropout=0.2)
    assert older.encoder.top.pfn.activation_dropout_module.p == 0.2
    assert tiny(1, 1, dropout=0.3).encoder.top.lstm.dropout == 0.0  # there is no "between"


def test_pruned_layers_and_copies():
    model = tiny()
    expected = logits(model, SENTENCES, PREFIXES)
    assert logits(copy.deepcopy(model), SENTENCES, PREFIXES).equal(expected)
    pruned = tiny(encoder_layers_to_keep="0,2", decoder_layers_to_keep="1")
    pruned.load_state_dict(copy.deepcopy(model.state_dict()))
    assert (len(pruned.encoder.layers), len(pruned.decoder.layers)) == (2, 1)
    assert pruned.encoder.top.lstm.weight_ih_l1.equal(model.encoder.top.lstm.weight_ih_l1)


WRONG = [
    ({"encoder_lstm_layers": -1}, "--encoder-lstm-layers -1", "0 for no LSTM"),
    ({"decoder_lstm_layers": -2}, "--decoder-lstm-layers -2", "0 for no LSTM"),
    ({"encoder_embed_dim": 15, "encoder_attention_heads": 3}, "--encoder-embed-dim 15", "even"),
]


@pytest.mark.parametrize("settings, flag, way_out", WRONG)
def test_wrong_settings_are_refused_by_name(settings, flag, way_out):
    with pytest.raises(UserError) as error:
        build("transformer_lstm_on_top", **{**TINY, **settings})
    assert flag in str(error.value) and way_out in str(error.value)


# --- the commands -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lstm-on-top")
    write_corpus(folder, hard_cases=True)
    return binarise(folder)


def test_train_resume_generate_interactive(corpus, tmp_path):
    flags = ["transformer_lstm_on_top", "--encoder-lstm-layers", 1, "--decoder-lstm-layers", 2]
    skip = "--skip-invalid-size-inputs-valid-test"
    train(corpus, "model", *flags, skip, "--max-update", 2, cwd=tmp_path)
    train(corpus, "model", *flags, skip, "--max-update", 4, cwd=tmp_path)
    checkpoint = tmp_path / "model" / "checkpoint_last.pt"
    settings = torch.load(checkpoint, weights_only=True)["cfg"]["model"]
    assert (settings["encoder_lstm_layers"], settings["decoder_lstm_layers"]) == (1, 2)
    beam = ("--beam", 3, "--max-len-b", 12, "--max-len-a", 0)
    generated = generate(corpus, checkpoint, skip, *beam, "--print-alignment", cwd=tmp_path)
    hypotheses = dict(
        line.split("\t")[::2] for line in generated.stdout.splitlines() if line[:2] == "H-"
    )
    assert len(hypotheses) == 19
    # The same sentences, one at a time.
    sources = (corpus.parent / "test.de").read_text().split("\n")
    chosen = [n for n in range(20) if f"H-{n}" in hypotheses and sources[n]][:4]
    alone = run(
        "fairseq-interactive",
        corpus,
        *("--user-dir", USER_DIR, "--path", checkpoint, "--cpu", *beam),
        *("-s", "de", "-t", "en"),
        stdin="".join(f"{sources[n]}\n" for n in chosen),
        cwd=tmp_path,
    )
    found = [line.split("\t")[2] for line in alone.stdout.splitlines() if line[:2] == "H-"]
    assert found == [hypotheses[f"H-{n}"] for n in chosen]


def test_wrong_flags_end_training_with_a_message(corpus, tmp_path):
    flags = ["transformer_lstm_on_top", "--decoder-lstm-layers", -1]
    done = train(corpus, "model", *flags, cwd=tmp_path, expect=1)
    assert "--decoder-lstm-layers -1: use 1 or more" in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
