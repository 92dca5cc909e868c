"""Wrong settings are refused when the model is built, all at once, with the way out."""

import pytest
from models import TINY, build

from fairseq_hybrid_attn.errors import UserError

WRONG = [
    ("transformer_hysan", {"encoder_branches": ""}, "--encoder-branches ''", "global"),
    ("transformer_hysan", {"encoder_branches": "gobal"}, "--encoder-branches", "'gobal'"),
    ("transformer_hysan", {"encoder_branches": "l0"}, "--encoder-branches l0", "1 or more"),
    ("transformer_hysan", {"encoder_branches": "fw,fw"}, "--encoder-branches", "once"),
    ("transformer_hysan", {"decoder_branches": ""}, "--decoder-branches ''", "fw"),
    ("transformer_hysan", {"decoder_branches": "fw,bw"}, "--decoder-branches", "the future"),
    ("transformer_hysan", {"decoder_branches": "global"}, "--decoder-branches", "the future"),
    ("transformer_hysan", {"branch_fusion": "max"}, "--branch-fusion max", "gated-sum"),
    ("transformer_hysan", {"squeeze_ratio": 5}, "--squeeze-ratio 5", "divisor"),
    ("transformer_hysan", {"squeeze_ratio": 0}, "--squeeze-ratio 0", "divisor"),
    ("transformer_hysan", {"cross_self_attention": True}, "--cross-self-attention", "leave"),
    ("transformer_hysan", {"encoder_attention_heads": 3}, "--encoder-attention-heads", "divide"),
    ("transformer_hysan", {"decoder_attention_heads": 3}, "--decoder-attention-heads", "divide"),
    ("transformer_hysan", {"encoder_layers": 0}, "--encoder-layers 0", "1 or more"),
    ("transformer_hysan", {"encoder_layers_to_keep": "0,7"}, "--encoder-layers-to-keep", "0 to 2"),
    (
        "transformer_hysan",
        {"encoder_layers_to_keep": "0,0"},
        "--encoder-layers-to-keep",
        "different",
    ),
    ("transformer_hysan", {"decoder_layers_to_keep": "x"}, "--decoder-layers-to-keep", "0 to 1"),
    (
        "transformer_mma",
        {"share_all_embeddings": True, "decoder_embed_dim": 32},
        "--share-all-embeddings",
        "--decoder-embed-dim",
    ),
    ("transformer_mma", {"encoder_embed_path": "/no/such"}, "/no/such", "No such file"),
    ("transformer_mma", {"head_patterns": "global,fw"}, "--head-patterns", "'fw'"),
    ("transformer_mma", {"head_patterns": ""}, "--head-patterns ''", "empty"),
    ("transformer_mma", {"head_patterns": "global,local,local"}, "--head-patterns", "4 heads"),
    ("transformer_mma", {"local_window": 0}, "--local-window 0", "1 or more"),
    ("transformer_mma", {"local_window": -2}, "--local-window -2", "1 or more"),
    ("transformer_mma", {"encoder_xformers_att_config": "{}"}, "--encoder-xformers", "leave"),
    ("transformer_hybrid_gate", {"local_window": 0}, "--local-window 0", "1 or more"),
    ("transformer_hybrid_gate", {"hybrid_fusion": "add"}, "--hybrid-fusion add", "concat"),
    ("transformer_hybrid_gate", {"gate_input": "key"}, "--gate-input key", "hidden"),
    ("transformer_hybrid_gate", {"hybrid_layers": "4"}, "--hybrid-layers 4", "1 to 3"),
    ("transformer_hybrid_gate", {"hybrid_layers": "0"}, "--hybrid-layers 0", "1 to 3"),
    ("transformer_hybrid_gate", {"hybrid_layers": "3-1"}, "--hybrid-layers 3-1", "1 to 3"),
    ("transformer_hybrid_gate", {"hybrid_layers": ""}, "--hybrid-layers ''", "all"),
    ("transformer_localness", {"localness": "far"}, "--localness far", "neighbor"),
    ("transformer_localness", {"gaussian_window": 0.0}, "--gaussian-window 0.0", "above 0"),
    (
        "transformer_localness",
        {"gaussian_window": float("nan")},
        "--gaussian-window nan",
        "above 0",
    ),
    ("transformer_localness", {"localness_layers": "1;2"}, "--localness-layers", "all"),
]


@pytest.mark.parametrize("arch, settings, flag, way_out", WRONG)
def test_wrong_setting_is_refused_by_name(arch, settings, flag, way_out):
    with pytest.raises(UserError) as error:
        build(arch, **{**TINY, **settings})
    message = str(error.value)
    assert arch in message
    assert flag in message
    assert way_out in message


def test_all_faults_at_once():
    with pytest.raises(UserError) as error:
        build(
            "transformer_hysan",
            **{
                **TINY,
                "encoder_branches": "gobal,l0",
                "decoder_branches": "bw",
                "branch_fusion": "max",
                "decoder_attention_heads": 5,
                "cross_self_attention": True,
            },
        )
    message = str(error.value)
    for flag in (
        "--encoder-branches",
        "--decoder-branches",
        "--branch-fusion",
        "--decoder-attention-heads",
        "--cross-self-attention",
    ):
        assert flag in message
    assert len(message.splitlines()) == 1 + 6


def test_a_user_error_is_a_value_error_and_ends_a_command():
    with pytest.raises(ValueError):
        build("transformer_mma", **{**TINY, "head_patterns": ""})
    with pytest.raises(SystemExit) as exit_:
        build("transformer_mma", **{**TINY, "head_patterns": ""})
    assert "--head-patterns" in exit_.value.code


@pytest.mark.parametrize(
    "layers, expected", [("1,2", [0, 1]), ("2-3", [1, 2]), ("all", [0, 1, 2]), (" 3 ,1", [0, 2])]
)
def test_layers_are_numbered_from_one(layers, expected):
    model = build("transformer_hybrid_gate", **{**TINY, "hybrid_layers": layers})
    hybrid = [
        i for i, layer in enumerate(model.encoder.layers) if len(layer.self_attn.branches) > 1
    ]
    assert hybrid == expected


def test_head_patterns_are_shared_out_in_order():
    model = build(
        "transformer_mma",
        **{**TINY, "encoder_attention_heads": 8, "head_patterns": "backward,global"},
    )
    (heads,) = model.encoder.layers[0].self_attn.branches
    assert [head.ahead for head in heads] == [0] * 4 + [None] * 4
