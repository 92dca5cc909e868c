"""LSTM on top (Ma & Zhao 2020, Eq. 16); test_models.py has what holds for every model."""

import itertools

import torch
from fairseq.models.transformer import TransformerDecoderBase, TransformerEncoderBase
from models import PAD, PREFIXES, PRENORM, SENTENCES, build, build_tiny, logits, pad, parameters
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from fairseq_hybrid_attn.models.lstm_on_top import unpacked_lstm

EXACT = {"rtol": 0, "atol": 1e-10}


def tiny(encoder=2, decoder=2, **settings):
    layers = {"encoder_lstm_layers": encoder, "decoder_lstm_layers": decoder}
    return build_tiny("lstm-on-top", **layers, **settings)


def by_hand(top, o):
    """Eq. 16 of one sentence, ``[n, d]``."""
    x = o + feed_forward(top.ffnn, o)
    x = top.lstm(x.unsqueeze(1))[0].squeeze(1)
    return top.layer_norm(feed_forward(top.pfn, x))


def feed_forward(network, x):
    hidden = torch.relu(x @ network.fc1.weight.t() + network.fc1.bias)
    return hidden @ network.fc2.weight.t() + network.fc2.bias


def test_both_sides_compute_equation_16(double_softmax):
    prefixes = pad(PREFIXES, PAD, left=False)
    for norm, layers in itertools.product(({}, PRENORM), (1, 2)):
        model = tiny(layers, layers, **norm).double()
        for left in (True, False):
            src = pad(SENTENCES, PAD, left=left)
            o = TransformerEncoderBase.forward(model.encoder, src)["encoder_out"][0]
            encoder_out = model.encoder(src)
            found = encoder_out["encoder_out"][0]
            assert found.shape == o.shape
            for row, real in enumerate(src.ne(PAD)):
                expected = by_hand(model.encoder.top, o[real, row])
                torch.testing.assert_close(found[real, row], expected, **EXACT)
        o = TransformerDecoderBase.extract_features(model.decoder, prefixes, encoder_out)[0]
        found, _ = model.decoder.extract_features(prefixes, encoder_out)
        for row, real in enumerate(prefixes.ne(PAD)):
            expected = by_hand(model.decoder.top, o[row, real])
            torch.testing.assert_close(found[row, real], expected, **EXACT)
        # The output layer sees nothing else.
        output = model.decoder(prefixes, encoder_out)[0]
        torch.testing.assert_close(output, model.decoder.output_layer(found))


def test_every_cross_attention_looks_at_what_is_on_top():
    """And the attention that alignments are read from is that of the last layer."""
    model, keys, seen = tiny(), [], []
    for layer in model.decoder.layers:
        layer.encoder_attn.k_proj.register_forward_pre_hook(lambda m, args: keys.append(args[0]))
    model.decoder.layers[-1].encoder_attn.register_forward_hook(lambda m, i, o: seen.append(o[1]))
    src = pad(SENTENCES, PAD, left=True)
    output = model(src, src.ne(PAD).sum(1), pad(PREFIXES, PAD, left=False))
    top = model.encoder(src)["encoder_out"][0]
    assert len(keys) == 2 and all(key.equal(top) for key in keys)
    attention = output[1]["attn"][0]
    torch.testing.assert_close(attention, seen[0].mean(dim=0))
    torch.testing.assert_close(attention.sum(2), torch.ones(4, 6))


def test_each_side_has_its_own_widths():
    wide = tiny(decoder_embed_dim=24, decoder_ffn_embed_dim=40, decoder_attention_heads=2)
    assert wide.encoder.top.ffnn.fc1.weight.shape == (32, 16)
    assert wide.decoder.top.pfn.fc1.weight.shape == (40, 24)


# (d, f) = (512, 2048). Two networks d -> f -> d, a layer norm, and layers of an LSTM: four gates
# of d inputs and h states with two biases, h = d/2 in two directions, or d in one.
NETWORKS = 2 * (2 * 512 * 2048 + 2048 + 512) + 2 * 512
ENCODER_LAYER = 2 * (4 * 256 * (512 + 256) + 2 * 4 * 256)
DECODER_LAYER = 4 * 512 * (512 + 512) + 2 * 4 * 512


def test_parameters():
    counts = {}
    for encoder, decoder in ((0, 0), (1, 0), (2, 0), (0, 1), (0, 2), (2, 2)):
        settings = {"encoder_lstm_layers": encoder, "decoder_lstm_layers": decoder}
        settings |= {"max_source_positions": 64, "max_target_positions": 64}
        with torch.device("meta"):
            counts[encoder, decoder] = parameters(build("transformer_lstm_on_top", **settings))
        networks = ((encoder > 0) + (decoder > 0)) * NETWORKS
        layers = encoder * ENCODER_LAYER + decoder * DECODER_LAYER
        assert counts[encoder, decoder] - counts[0, 0] == networks + layers, (encoder, decoder)


def test_padding_is_skipped_wherever_it_stands():
    """All at once and step by step.  Tested on the LSTM alone, since fairseq's self-attention
    gives NaN for padding before a prefix."""
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


def test_states_are_those_of_packed_sentences():
    """States and gradients of several lengths, in one and in two directions."""
    lengths = torch.tensor([6, 1, 4])
    for side in (tiny(2, 1), tiny(1, 3)):
        for lstm in (side.encoder.top.lstm.double(), side.decoder.top.lstm.double()):
            x = torch.randn(6, 3, 16, dtype=torch.float64, requires_grad=True)
            packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
            results = []
            for states in (
                pad_packed_sequence(lstm(packed)[0])[0],
                unpacked_lstm(lstm, x, lengths),
            ):
                leaves = (x, *lstm.parameters())
                results.append([states, *torch.autograd.grad(states.sin().sum(), leaves)])
            torch.testing.assert_close(*results, **EXACT)


def test_autocast():
    """Training in mixed precision, and steps within it, stay near single precision."""
    wide = {"decoder_output_dim": 8, "decoder_input_dim": 16}
    for dtype, widths in itertools.product((torch.float16, torch.bfloat16), ({}, wide)):
        model = tiny(**widths)
        expected = logits(model, SENTENCES, PREFIXES)[0]
        with torch.autocast("cpu", dtype=dtype):
            found = logits(model, SENTENCES, PREFIXES)
            found.float().pow(2).sum().backward()
            encoder_out, state = model.encoder(torch.tensor(SENTENCES[:1])), {}
            prefix = torch.tensor(PREFIXES[:1])
            for n in range(1, 5):
                step = model.decoder(prefix[:, :n], encoder_out, incremental_state=state)[0][0, -1]
                torch.testing.assert_close(step.float(), expected[n - 1], rtol=0, atol=0.1)
        torch.testing.assert_close(found[0, :4].float(), expected[:4], rtol=0, atol=0.1)
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_dropout_is_where_it_is_documented():
    model = tiny(dropout=0.3, activation_dropout=0.2)
    for top in (model.encoder.top, model.decoder.top):
        assert top.lstm.dropout == 0.3
        for network in (top.ffnn, top.pfn):
            assert network.dropout_module.p == 0.3
            assert network.activation_dropout_module.p == 0.2
    older = tiny(relu_dropout=0.2)
    assert older.encoder.top.pfn.activation_dropout_module.p == 0.2
    assert tiny(1, 1, dropout=0.3).encoder.top.lstm.dropout == 0.0  # there is no "between"
