"""Every row of the papers' tables, built through fairseq's own command-line parser."""

from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import build_model
from models import dictionary, parameters

from fairseq_hybrid_attn.attention import PatternedSelfAttention
from fairseq_hybrid_attn.attention.fusion import Concat, GatedSum, HiddenGate, Sum
from fairseq_hybrid_attn.attention.gaussian import GaussianBias
from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, local, local_past

CONFIGS = Path(__file__).parent.parent / "configs"


def rows():
    for path in sorted(CONFIGS.glob("*/*.yaml")):
        table = yaml.safe_load(path.read_text())
        for row, flags in table["rows"].items():
            arch = f"--arch {table['arch']}" if "arch" in table else ""
            for variant, more in {"": "", **table.get("variants", {})}.items():
                name = f"{path.parent.name}/{path.stem}/{row}" + (f"+{variant}" if variant else "")
                yield name, f"{arch} {table['flags']} {flags} {more}"


ROWS = dict(rows())


def build_row(name, symbols=50):
    return build_flags(ROWS[name], symbols)


@cache
def build_flags(flags, symbols=50):
    """A model from its flags, its parameters without storage (so that big ones build at once)."""
    # --user-dir is not needed: importing the package has registered the architectures.
    parser = options.get_training_parser()
    args = options.parse_args_and_arch(parser, ["data", *flags.split()])
    cfg = convert_namespace_to_omegaconf(args)
    words = dictionary(symbols)
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    with torch.device("meta"):
        return build_model(cfg.model, task)


def branches(layers):
    return [layer.self_attn.branches for layer in layers]


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


def test_every_row_is_tested_below():
    variants = [f"hysan/table1/{row}{nopos}" for row in HYSAN_TABLE_1 for nopos in ("", "+nopos")]
    fusions = [f"hysan/{t}/{row}" for t in TABLE_2 for row in ("baseline", *FUSION_ROWS)]
    gates = [f"hybrid_gate/table1/{row}" for row in ("transformer", *HYBRID_GATE_INCREMENTS)]
    assert sorted(ROWS) == sorted([*variants, *fusions, *gates, *MMA_HEADS])


@pytest.mark.parametrize("nopos", [False, True])
@pytest.mark.parametrize("row", HYSAN_TABLE_1)
def test_hysan_table_1(row, nopos):
    model = build_row(f"hysan/table1/{row}" + ("+nopos" if nopos else ""))
    encoder, decoder = (words.split() for words in HYSAN_TABLE_1[row])
    assert branches(model.encoder.layers) == [tuple((ENCODER[w],) for w in encoder)] * 2
    assert branches(model.decoder.layers) == [tuple((DECODER[w],) for w in decoder)] * 2
    for side, words in ((model.encoder, encoder), (model.decoder, decoder)):
        assert (side.embed_positions is None) == nopos
        expected = GatedSum if len(words) > 1 else Sum
        assert all(type(layer.self_attn.fusion) is expected for layer in side.layers)


def test_hybrid_gate_table_1():
    lowest = {
        "local_pattern": (((local(1),),), Sum),
        "hybrid_concat": (((GLOBAL,), (local(1),)), Concat),
        "hybrid_gate": (((GLOBAL,), (local(1),)), HiddenGate),
    }
    for row, (expected, fusion) in lowest.items():
        model = build_row(f"hybrid_gate/table1/{row}")
        assert branches(model.encoder.layers) == [expected] * 2 + [((GLOBAL,),)] * 4
        assert type(model.encoder.layers[0].self_attn.fusion) is fusion
    for row, centre, window in (
        ("neighbor", False, True),
        ("local_h", True, False),
        ("local_s", True, True),
    ):
        model = build_row(f"hybrid_gate/table1/{row}")
        biases = [layer.self_attn.bias for layer in model.encoder.layers]
        assert all(isinstance(bias, GaussianBias) for bias in biases[:2])
        assert biases[2:] == [None] * 4
        assert (biases[0].centre is not None, biases[0].window is not None) == (centre, window)
    stock = build_row("hybrid_gate/table1/transformer")
    assert not any(isinstance(m, PatternedSelfAttention) for m in stock.modules())


MMA_HEADS = {
    "mma/table3/transformer_nopos": (GLOBAL,) * 4,
    "mma/table3/transformer_mma_nopos": (GLOBAL, local(1), FUTURE, PAST),
    "mma/table4/transformer": (GLOBAL,) * 4,
    "mma/table4/local": (GLOBAL, *(local(1),) * 3),
    "mma/table4/forward": (GLOBAL, *(FUTURE,) * 3),
    "mma/table4/backward": (GLOBAL, *(PAST,) * 3),
    "mma/table4/mma": (GLOBAL, local(1), FUTURE, PAST),
    **{f"mma/table5/w{w}": (GLOBAL, local(w), FUTURE, PAST) for w in (1, 2, 3, 4)},
}


@pytest.mark.parametrize("name", MMA_HEADS)
def test_mma_tables(name):
    model = build_row(name)
    assert branches(model.encoder.layers) == [(MMA_HEADS[name],)] * 6
    assert (model.encoder.embed_positions is None) == ("table3" in name)
    assert model.decoder.embed_positions is not None
    assert not any(isinstance(m, PatternedSelfAttention) for m in model.decoder.modules())


# --- parameters ---------------------------------------------------------------------------

# Table 2 reports +32K / +383K / +1.57M and +524K / +6.29M / +25.1M; exactly, from
# N * 2 * (2 d d/16) and N * 4 * d^2 with N, d = 2, 256 / 6, 512 / 6, 1024.
FUSION_ROWS = ("sum", "concat", "gated_sum")
TABLE_2 = {
    "table2a": (0, 524_288, 32_768),
    "table2b": (0, 6_291_456, 393_216),
    "table2c": (0, 25_165_824, 1_572_864),
}


@pytest.mark.parametrize("table", TABLE_2)
def test_hysan_table_2_increments(table):
    baseline = parameters(build_row(f"hysan/{table}/baseline"))
    increments = tuple(
        parameters(build_row(f"hysan/{table}/{row}")) - baseline for row in FUSION_ROWS
    )
    assert increments == TABLE_2[table]


def test_hysan_small_baseline_has_11_9_million():
    model = build_row("hysan/table2a/baseline", symbols=32_000 - 4)
    assert round(parameters(model) / 1e6, 1) == 11.9
    # 32,000 shared words of width 256, an encoder layer of 789,760 and a decoder layer of
    # 1,053,440 weights, twice each.
    encoder_layer = 4 * (256 * 256 + 256) + 2 * 256 * 1024 + 1024 + 256 + 2 * 2 * 256
    decoder_layer = encoder_layer + 4 * (256 * 256 + 256) + 2 * 256
    assert (encoder_layer, decoder_layer) == (789_760, 1_053_440)
    assert parameters(model) == 32_000 * 256 + 2 * (encoder_layer + decoder_layer)


def test_mma_adds_nothing():
    # A stock transformer of the same size is the hybrid-gate table's first row.
    stock = parameters(build_row("hybrid_gate/table1/transformer"))
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


@pytest.mark.parametrize("row", HYBRID_GATE_INCREMENTS)
def test_hybrid_gate_table_1_increments(row):
    stock = parameters(build_row("hybrid_gate/table1/transformer"))
    added = parameters(build_row(f"hybrid_gate/table1/{row}")) - stock
    assert added == HYBRID_GATE_INCREMENTS[row]


def test_published_gate_has_a_number_for_each_head():
    stock = parameters(build_row("hybrid_gate/table1/transformer"))
    query = build_flags("--arch transformer_hybrid_gate_base --gate-input query")
    assert parameters(query) - stock == 2 * 512 * 8
