"""Wrong settings are refused when the model is built, all at once, with a remedy."""

from argparse import ArgumentParser

import pytest
from fairseq.models import MODEL_REGISTRY
from fairseq.options import get_training_parser, parse_args_and_arch
from models import TINY, TINY_LM, build, build_tiny

from fairseq_hybrid_attn import register_fusion, register_pattern, vocabulary
from fairseq_hybrid_attn.attention.fusion import Sum
from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.patterns import local, local_past

# For each architecture: a setting, and what the message says.
WRONG = {
    "transformer_hysan": [
        ({"encoder_branches": "fw,fw"}, "--encoder-branches", "once"),
        ({"decoder_branches": "fw,bw"}, "--decoder-branches", "'bw'"),
        ({"branch_fusion": "max"}, "--branch-fusion max", "gated-sum"),
        ({"squeeze_ratio": 5}, "--squeeze-ratio", "divisor of the width, 16"),
        ({"cross_self_attention": True}, "--cross-self-attention", "leave"),
        ({"encoder_attention_heads": 3}, "--encoder-attention-heads", "divide"),
        ({"encoder_layers": 0}, "--encoder-layers 0", "1 or more"),
        ({"dropout": 3.0}, "--dropout 3.0", "0 to 1"),
        ({"encoder_layers_to_keep": "0,7"}, "--encoder-layers-to-keep", "0 to 2"),
        ({"encoder_layers_to_keep": "0,0"}, "--encoder-layers-to-keep", "different"),
    ],
    "transformer_mma": [
        ({"share_all_embeddings": True, "decoder_embed_dim": 32}, "--share-all-", "--decoder-emb"),
        ({"encoder_embed_path": "/no/such"}, "/no/such", "No such file"),
        ({"head_patterns": "global,local,local"}, "--head-patterns", "4 heads"),
        ({"local_window": -1}, "--local-window -1", "1 or more"),
        ({"encoder_xformers_att_config": "{}"}, "--encoder-xformers", "leave"),
        ({"compile": True, "checkpoint_activations": True}, "--compile", "checkpoint-activations"),
        ({"relative_positions": "learned"}, "--relative-positions learned", "rotary"),
        ({"relative_positions": "rotary", "encoder_embed_dim": 20}, "--relative-pos", "rotary"),
        (
            {"relative_positions": "rotary", "cross_self_attention": True},
            "--cross-self-attention",
            "relative positions",
        ),
    ],
    "transformer_hybrid_gate": [
        ({"hybrid_fusion": "add"}, "--hybrid-fusion add", "concat"),
        ({"gate_input": "key"}, "--gate-input key", "hidden"),
        ({"hybrid_layers": "4"}, "--hybrid-layers 4", "1 to 3"),
        ({"hybrid_layers": "3-1"}, "--hybrid-layers 3-1", "1 to 3"),
    ],
    "transformer_localness": [
        ({"localness": "far"}, "--localness far", "neighbor"),
        ({"gaussian_window": 0.0}, "--gaussian-window 0.0", "above 0"),
        ({"gaussian_window": float("nan")}, "--gaussian-window nan", "above 0"),
    ],
    "transformer_lstm_on_top": [
        ({"encoder_lstm_layers": -1}, "--encoder-lstm-layers -1", "0 for no LSTM"),
        ({"encoder_embed_dim": 15, "encoder_attention_heads": 3}, "--encoder-embed-dim 15", "even"),
    ],
    "transformer_lm_mma": [
        ({"head_patterns": "forward"}, "--head-patterns forward", "backward, local"),
        ({"decoder_layers": 0}, "--decoder-layers 0", "1 or more"),
    ],
}


def refusal(arch, **settings) -> str:
    size = TINY_LM if arch == "transformer_lm_mma" else TINY
    with pytest.raises(UserError) as error:
        build(arch, **{**size, **settings})
    return str(error.value)


def test_wrong_settings_are_refused_by_name():
    for arch, cases in WRONG.items():
        for settings, flag, way_out in cases:
            message = refusal(arch, **settings)
            assert arch in message and flag in message and way_out in message, (settings, message)


#: Flags as they are typed, and what the first of them would need.
WITHOUT_EFFECT = {
    "transformer_hybrid_gate --gate-input query --hybrid-fusion concat": "--hybrid-fusion gate",
    "transformer_localness --gaussian-window 5": "--localness local-h",
    "transformer_localness_base --gaussian-window 5 --localness neighbor": "--localness local-h",
    "transformer_hysan_small --squeeze-ratio 4 --branch-fusion sum": "--branch-fusion gated-sum",
    "transformer_lm_hysan --squeeze-ratio 4 --branch-fusion sum": "--branch-fusion gated-sum",
    "transformer_mma --local-window 2 --head-patterns forward,global": "--head-patterns local",
    "transformer_mma --new-weights": "--finetune-from-model",
    "transformer_mma --encoder-learned-pos --relative-positions rotary": "--relative-positions",
    "transformer_mma --relative-positions alibi --no-encoder-positions --no-decoder-positions": (
        "--no-encoder-positions and --no-decoder-positions"
    ),
}
WITH_EFFECT = [
    "transformer_hybrid_gate --gate-input query",
    "transformer_hybrid_gate --local-window 2 --hybrid-fusion concat",
    "transformer_localness --gaussian-window 5 --localness local-h",
    "transformer_hysan --squeeze-ratio 4",
    "transformer_mma --local-window 2",
    "transformer_mma --head-patterns=global,local --local-window 2",
    "transformer_mma --new-weights --finetune-from-model model.pt",
    "transformer_mma --relative-positions alibi --no-encoder-positions",
]


def parse(words: str):
    return parse_args_and_arch(get_training_parser(), ["data", "--arch", *words.split()])


def test_flags_without_effect_are_refused_where_they_are_typed():
    for typed, missing in WITHOUT_EFFECT.items():
        with pytest.raises(UserError) as error:
            parse(typed)
        flag = " ".join(typed.split()[1:2])
        assert flag in str(error.value) and missing in str(error.value), typed
    for typed in WITH_EFFECT:
        parse(typed)


def test_saved_settings_without_effect_are_accepted():
    """As when a checkpoint is loaded."""
    build_tiny("gate-concat", gate_input="query")
    build_tiny("local-s", gaussian_window=5.0)
    build_tiny("hysan-sum", squeeze_ratio=8)
    build_tiny("mma", head_patterns="global", local_window=2)
    build_tiny("past-only", squeeze_ratio=5)  # one branch, no gate


def test_all_faults_at_once():
    settings = {"encoder_branches": "gobal,l0", "decoder_branches": "bw", "branch_fusion": "max"}
    settings |= {"decoder_attention_heads": 5, "cross_self_attention": True}
    message = refusal("transformer_hysan", **settings)
    for setting in settings:
        assert f"--{setting.replace('_', '-')}" in message
    assert len(message.splitlines()) == 1 + 6


def test_a_user_error_is_a_value_error_and_ends_a_command():
    for kind in (ValueError, SystemExit):
        with pytest.raises(kind) as error:
            build("transformer_mma", **{**TINY, "head_patterns": ""})
    assert "--head-patterns" in error.value.code


def test_layers_are_numbered_from_one():
    wanted = {"1,2": [0, 1], "2-3": [1, 2], "all": [0, 1, 2], " 3 ,1": [0, 2]}
    for layers, expected in wanted.items():
        model = build("transformer_hybrid_gate", **{**TINY, "hybrid_layers": layers})
        branches = [len(layer.self_attn.branches) for layer in model.encoder.layers]
        assert [i for i, number in enumerate(branches) if number > 1] == expected, layers


def test_registered_words_are_known_to_every_model_and_its_help(monkeypatch):
    monkeypatch.setattr(vocabulary, "_PATTERNS", {"encoder": {}, "decoder": {}})
    monkeypatch.setattr(vocabulary, "_FUSIONS", {})
    register_pattern("encoder", "nearK", local)
    register_pattern("decoder", "ownK", local_past)
    register_fusion("total", Sum)
    for word in ("total", "sum"):
        with pytest.raises(UserError, match=f"{word!r} is a word"):
            register_fusion(word, Sum)
    for arch, word, flag, value in (
        ("transformer_hysan", "near", "encoder_branches", "near2,fw"),
        ("transformer_mma", "near", "head_patterns", "near2,global"),
        ("transformer_hysan", "own", "decoder_branches", "own2"),
        ("transformer_hybrid_gate", "total", "hybrid_fusion", "total"),
    ):
        build(arch, **{**TINY, flag: value})
        parser = ArgumentParser()
        MODEL_REGISTRY[arch].add_args(parser)
        assert word in parser.format_help()
        message = refusal(arch, **{flag: "unknown"})
        assert word in message and "--user-dir" in message
