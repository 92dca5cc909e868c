"""Every system that the papers' tables train, built through fairseq's own command-line parser."""

from fairseq.models.lstm import LSTMModel
from fairseq.models.transformer import TransformerModel
from models import parameters
from rows import RUNS, build, build_cell

from fairseq_hybrid_attn.attention import PatternedSelfAttention
from fairseq_hybrid_attn.attention.fusion import Concat, GatedSum, HiddenGate, Sum
from fairseq_hybrid_attn.attention.gaussian import GaussianBias
from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, local, local_past


def build_flags(flags):
    return build(tuple(flags.split()))


def branches(layers):
    return [layer.self_attn.branches for layer in layers]


def of(patterns, words):
    """The branches of those names, with one pattern each."""
    return tuple((patterns[word],) for word in words)


WORDS = {"global": GLOBAL, "fw": PAST, "bw": FUTURE}
ENCODER = WORDS | {f"l{k}": local(k) for k in (1, 2, 5)}
DECODER = {"fw": PAST} | {f"l{k}": local_past(k) for k in (1, 2, 5)}

# From the ticks of Table 1 (c1-c4 and e1: our reading), spelled out independently of the flags.
HYSAN_TABLE_1 = {
    "base": ("global", "fw"),
    "a1": ("global fw", "fw"),
    "a2": ("global bw", "fw"),
    "a3": ("global fw bw", "fw"),
    "b1": ("global l1", "fw"),
    "b2": ("global l2", "fw"),
    "b3": ("global l5", "fw"),
    "b4": ("global l1 l2 l5", "fw"),
    "c1": ("global fw l1", "fw"),
    "c2": ("global fw bw l1", "fw"),
    "c3": ("global bw l5", "fw"),
    "c4": ("global fw bw l5", "fw"),
    "c5": ("global fw bw l1 l2 l5", "fw"),
    "d1": ("global", "fw l1"),
    "d2": ("global", "fw l2"),
    "d3": ("global", "fw l5"),
    "d4": ("global", "fw l1 l2 l5"),
    "e1": ("global fw bw l5", "fw l5"),
    "e2": ("global fw bw l1 l2 l5", "fw l1 l2 l5"),
}


def test_every_run_is_tested_below():
    columns = [f"hysan/table1/{row}/{column}" for row in HYSAN_TABLE_1 for column in NOPOS]
    assert sorted(RUNS) == sorted(
        [*columns, *HYSAN_FUSIONS, *HYBRID_GATE, *MMA_HEADS, *ALIGNMENT_HEADS, *ENCODING_MASKS]
        + [*RNN_NMT, *LSTM_ON_TOP]
    )


NOPOS = {"bleu": False, "nopos": True}


def test_hysan_table_1():
    for row in HYSAN_TABLE_1:
        for column in NOPOS:
            model = build_cell(f"hysan/table1/{row}/{column}")
            encoder, decoder = (words.split() for words in HYSAN_TABLE_1[row])
            assert branches(model.encoder.layers) == [tuple((ENCODER[w],) for w in encoder)] * 2, (
                row
            )
            assert branches(model.decoder.layers) == [tuple((DECODER[w],) for w in decoder)] * 2, (
                row
            )
            for side, words in ((model.encoder, encoder), (model.decoder, decoder)):
                assert (side.embed_positions is None) == NOPOS[column], row
                expected = GatedSum if len(words) > 1 else Sum
                assert all(type(layer.self_attn.fusion) is expected for layer in side.layers), row


# Of the other tables, the branches of every layer and the fusion: e1 by the ways of fusing.
E1 = (("global fw bw l5", "fw l5"), GatedSum)
HYSAN_FUSIONS = {
    **{
        f"hysan/{table}/{row}/bleu": (N, E1[0], fusion)
        for table, N in (("table2a", 2), ("table2b", 6), ("table2c", 6))
        for row, fusion in (("sum", Sum), ("concat", Concat))
    },
    **{f"hysan/{table}/gated_sum/bleu": (6, *E1) for table in ("table2b", "table2c")},
    **{
        f"hysan/{table}/bleu": (6, ("global", "fw"), Sum)
        for table in ("table2b/baseline", "table2c/baseline", "table4/transformer_big")
    },
    "hysan/table4/hysan_big/bleu": (6, *E1),
}


def test_hysan_tables_2_to_4():
    for name in HYSAN_FUSIONS:
        N, (encoder, decoder), fusion = HYSAN_FUSIONS[name]
        model = build_cell(name)
        assert (
            branches(model.encoder.layers) == [tuple((ENCODER[w],) for w in encoder.split())] * N
        ), name
        assert (
            branches(model.decoder.layers) == [tuple((DECODER[w],) for w in decoder.split())] * N
        ), name
        for side in (model.encoder, model.decoder):
            assert all(type(layer.self_attn.fusion) is fusion for layer in side.layers), name
            assert side.embed_positions is not None, name


# What the lowest two encoder layers (Figure 3: all layers) have: branches and fusion, or whether
# centre and window of a Gaussian are predicted; None: nothing, fairseq's own transformer.
GATED = (((GLOBAL,), (local(1),)), HiddenGate)
HYBRID_GATE = {
    "hybrid_gate/table1/transformer/bleu": None,
    "hybrid_gate/table1/neighbor/bleu": (False, True),
    "hybrid_gate/table1/local_h/bleu": (True, False),
    "hybrid_gate/table1/local_s/bleu": (True, True),
    "hybrid_gate/table1/local_pattern/bleu": (((local(1),),), Sum),
    "hybrid_gate/table1/hybrid_concat/bleu": (((GLOBAL,), (local(1),)), Concat),
    "hybrid_gate/table1/hybrid_gate/bleu": GATED,
    "hybrid_gate/table2/transformer/bleu": None,
    "hybrid_gate/table2/local_pattern/bleu": (((local(1),),), Sum),
    "hybrid_gate/table2/hybrid_gate/bleu": GATED,
    "hybrid_gate/figure3/all_layers/bleu": GATED,
    **{
        f"hybrid_gate/figure2/window{2 * m + 1}/bleu": (((GLOBAL,), (local(m),)), HiddenGate)
        for m in (2, 3, 4, 5)
    },
}


def test_hybrid_gate_tables():
    for name in HYBRID_GATE:
        model = build_cell(name)
        assert len(model.encoder.layers) == 6, name
        if HYBRID_GATE[name] is None:
            assert type(model) is TransformerModel, name
            assert not any(isinstance(m, PatternedSelfAttention) for m in model.modules()), name
            continue
        attentions = [layer.self_attn for layer in model.encoder.layers]
        if isinstance(HYBRID_GATE[name][0], bool):
            biases = [attention.bias for attention in attentions]
            assert all(isinstance(bias, GaussianBias) for bias in biases[:2]), name
            assert biases[2:] == [None] * 4, name
            predicted = (biases[0].centre is not None, biases[0].window is not None)
            assert predicted == HYBRID_GATE[name], name
            continue
        expected, fusion = HYBRID_GATE[name]
        N = 6 if "figure3" in name else 2
        assert branches(model.encoder.layers) == [expected] * N + [((GLOBAL,),)] * (6 - N), name
        assert all(type(attention.fusion) is fusion for attention in attentions[:N]), name


MIXED = (GLOBAL, local(1), FUTURE, PAST)
TWICE = (GLOBAL, GLOBAL, local(1), local(1), FUTURE, FUTURE, PAST, PAST)
MMA_HEADS = {
    **{f"mma/table1/transformer/{pair}": (GLOBAL,) * 8 for pair in ("en-ja", "ja-en")},
    **{f"mma/table1/transformer_mma/{pair}": TWICE for pair in ("en-ja", "ja-en")},
    "mma/table2/transformer/de-en": (GLOBAL,) * 4,
    "mma/table2/transformer_mma/de-en": MIXED,
    "mma/table3/transformer_nopos/de-en": (GLOBAL,) * 4,
    "mma/table3/transformer_nopos/ja-en": (GLOBAL,) * 8,
    "mma/table3/transformer_mma_nopos/de-en": MIXED,
    "mma/table3/transformer_mma_nopos/ja-en": TWICE,
    "mma/table4/local/de-en": (GLOBAL, *(local(1),) * 3),
    "mma/table4/forward/de-en": (GLOBAL, *(FUTURE,) * 3),
    "mma/table4/backward/de-en": (GLOBAL, *(PAST,) * 3),
    **{f"mma/table5/w{w}/de-en": (GLOBAL, local(w), FUTURE, PAST) for w in (2, 3, 4)},
}


def test_mma_tables():
    for name in MMA_HEADS:
        model = build_cell(name)
        assert branches(model.encoder.layers) == [(MMA_HEADS[name],)] * 6, name
        assert (model.encoder.embed_positions is None) == ("table3" in name), name
        assert model.decoder.embed_positions is not None, name
        assert not any(isinstance(m, PatternedSelfAttention) for m in model.decoder.modules()), name


# Tables 4 and 5 begin with systems of Table 2.
def test_mma_rows_of_table_2():
    for name, heads in [
        ("mma/table4/transformer/de-en", (GLOBAL,) * 4),
        ("mma/table4/mma/de-en", MIXED),
        ("mma/table5/w1/de-en", MIXED),
    ]:
        assert branches(build_cell(name).encoder.layers) == [(heads,)] * 6, name


ALIGNMENT_HEADS = {
    "alignment/table1/transformer/nist02": 8,
    "alignment/table4/transformer_supervised/nist02": 8,
    **{f"alignment/table3/heads{h}_last/nist02": h for h in (1, 2, 4, 16)},
}


def test_alignment_transformer():
    for name, heads in ALIGNMENT_HEADS.items():
        model = build_cell(name)
        assert type(model) is TransformerModel, name
        for layers in (model.encoder.layers, model.decoder.layers):
            assert [layer.self_attn.num_heads for layer in layers] == [heads] * 6, name
        assert {layer.encoder_attn.num_heads for layer in model.decoder.layers} == {heads}, name


ENCODING_MASKS = {
    "alignment/table5/forward_encoding_mask/nist02": PAST,
    "alignment/table5/backward_encoding_mask/nist02": FUTURE,
}


def test_encoding_masks():
    for name in ENCODING_MASKS:
        model = build_cell(name)
        assert branches(model.encoder.layers) == [((ENCODING_MASKS[name],),)] * 6, name
        assert branches(model.decoder.layers) == [((PAST,),)] * 6, name


# LSTM layers on top of the encoder and the decoder.
LSTM_ON_TOP = {
    "alignment/table6/encoder_lstm1/nist02": (1, 0),
    "alignment/table6/encoder_lstm2/nist02": (2, 0),
    "alignment/table6/decoder_lstm1/nist02": (0, 1),
    "alignment/table6/decoder_lstm2/nist02": (0, 2),
    "alignment/table6/both_lstm2/nist02": (2, 2),
}


def test_lstm_on_top():
    for name in LSTM_ON_TOP:
        model = build_cell(name)
        for side, expected in zip((model.encoder, model.decoder), LSTM_ON_TOP[name], strict=True):
            assert len(side.layers) == 6, name
            assert not any(isinstance(m, PatternedSelfAttention) for m in side.modules()), name
            assert (side.top.lstm.num_layers if hasattr(side, "top") else 0) == expected, name


RNN_NMT = ("alignment/table1/rnn_nmt/nist02", "alignment/table4/rnn_nmt_supervised/nist02")


def test_rnn_nmt():
    for name in RNN_NMT:
        model = build_cell(name)
        assert type(model) is LSTMModel, name
        assert (model.encoder.lstm.num_layers, model.encoder.lstm.bidirectional) == (2, True), name
        assert len(model.decoder.layers) == 2, name
        assert model.decoder.attention is not None, name
        assert {model.encoder.output_units, model.decoder.hidden_size} == {512}, name


# --- parameters ---------------------------------------------------------------------------

# Table 2 reports +32K / +383K / +1.57M and +524K / +6.29M / +25.1M; exactly, from
# N * 2 * (2 d d/16) and N * 4 * d^2 with N, d = 2, 256 / 6, 512 / 6, 1024.
FUSION_ROWS = ("sum", "concat", "gated_sum")
TABLE_2 = {
    "table2a": (0, 524_288, 32_768),
    "table2b": (0, 6_291_456, 393_216),
    "table2c": (0, 25_165_824, 1_572_864),
}


def test_hysan_table_2_increments():
    for table in TABLE_2:
        baseline = parameters(build_cell(f"hysan/{table}/baseline/bleu"))
        increments = tuple(
            parameters(build_cell(f"hysan/{table}/{row}/bleu")) - baseline for row in FUSION_ROWS
        )
        assert increments == TABLE_2[table], table


def test_hysan_small_baseline_has_11_9_million():
    model = build_cell("hysan/table2a/baseline/bleu", symbols=32_000 - 4)
    assert round(parameters(model) / 1e6, 1) == 11.9
    # 32,000 shared words of width 256, an encoder layer of 789,760 and a decoder layer of
    # 1,053,440 weights, twice each.
    encoder_layer = 4 * (256 * 256 + 256) + 2 * 256 * 1024 + 1024 + 256 + 2 * 2 * 256
    decoder_layer = encoder_layer + 4 * (256 * 256 + 256) + 2 * 256
    assert (encoder_layer, decoder_layer) == (789_760, 1_053_440)
    assert parameters(model) == 32_000 * 256 + 2 * (encoder_layer + decoder_layer)


def test_mma_adds_nothing():
    # A stock transformer of the same size is the hybrid-gate table's first row.
    stock = parameters(build_cell("hybrid_gate/table1/transformer/bleu"))
    assert parameters(build_flags("--arch transformer_mma_base")) == stock
    single = "--arch transformer_hysan --encoder-branches fw --decoder-branches fw"
    assert parameters(build_flags(single)) == stock


HYBRID_GATE_INCREMENTS = {
    "local_pattern": 0,
    "hybrid_gate": 2 * 512,  # W of width d, in two layers
    "hybrid_concat": 2 * 512 * 512,  # H of 2d x d in place of W^o of d x d
    "neighbor": 2 * (512 * 512 + 512),  # W of d x d and U of d
    "local_h": 2 * (512 * 512 + 512),
    "local_s": 2 * 2 * (512 * 512 + 512),
}


def test_hybrid_gate_table_1_increments():
    for row in HYBRID_GATE_INCREMENTS:
        stock = parameters(build_cell("hybrid_gate/table1/transformer/bleu"))
        added = parameters(build_cell(f"hybrid_gate/table1/{row}/bleu")) - stock
        assert added == HYBRID_GATE_INCREMENTS[row], row


def test_published_gate_has_a_number_for_each_head():
    stock = parameters(build_cell("hybrid_gate/table1/transformer/bleu"))
    query = build_flags("--arch transformer_hybrid_gate_base --gate-input query")
    assert parameters(query) - stock == 2 * 512 * 8
