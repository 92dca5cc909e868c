"""Every kind of model that can be looked into, ours and fairseq's, and sentences to read."""

from __future__ import annotations

from argparse import Namespace

import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from models import PRENORM, build_stock, build_tiny, pad, task_of

#: The longest first, as fairseq's LSTM requires.
SOURCES = [[4, 5, 6, 7, 8, 9, 10, 11, 2], [4, 4, 4, 6, 12, 2], [9, 8, 7, 2], [5, 2]]
TARGETS = [[6, 5, 2], [4, 5, 6, 7, 8, 9, 2], [7, 2], [12, 5, 2]]


def legacy(arch, **settings):
    """An older model of fairseq, which is configured by a namespace."""
    torch.manual_seed(0)
    limits = {"max_source_positions": 64, "max_target_positions": 64}
    args = Namespace(criterion="cross_entropy", weight_softmax=True, **limits, **settings)
    ARCH_CONFIG_REGISTRY[arch](args)
    return ARCH_MODEL_REGISTRY[arch].build_model(args, task_of()).eval()


_LSTM = {
    "arch": "lstm",
    "encoder_embed_dim": 16,
    "encoder_hidden_size": 16,
    "decoder_embed_dim": 16,
    "decoder_hidden_size": 24,
    "decoder_out_embed_dim": 16,
}
_LIGHT = {
    f"{side}_{name}": size
    for side in ("encoder", "decoder")
    for name, size in {
        "embed_dim": 16,
        "conv_dim": 16,
        "ffn_embed_dim": 32,
        "attention_heads": 4,
        "conv_type": "lightweight",
        "kernel_size_list": [3, 3],
        "layers": 2,
    }.items()
}
MODELS = {
    "stock": (build_stock, {}),
    "stock-prenorm": (build_stock, PRENORM),
    "stock-checkpointed": (build_stock, {"checkpoint_activations": True}),
    "hysan": (build_tiny, {"name": "hysan-gated"}),
    "hysan-prenorm": (build_tiny, {"name": "hysan-prenorm"}),
    "hysan-checkpointed": (build_tiny, {"name": "hysan-gated", "checkpoint_activations": True}),
    "past-only": (build_tiny, {"name": "past-only"}),
    "mma": (build_tiny, {"name": "mma"}),
    "gate": (build_tiny, {"name": "gate-hidden"}),
    "lstm-on-top": (build_tiny, {"name": "lstm-on-top"}),
    "lstm": (legacy, _LSTM),
    "lstm-bidirectional": (
        legacy,
        {**_LSTM, "encoder_bidirectional": True, "encoder_layers": 2, "decoder_layers": 2},
    ),
    "lightconv": (legacy, {"arch": "lightconv", **_LIGHT}),
    "fconv": (
        legacy,
        {
            "arch": "fconv",
            "encoder_embed_dim": 16,
            "decoder_embed_dim": 16,
            "decoder_out_embed_dim": 16,
            "encoder_layers": "[(16, 3)] * 2",
            "decoder_layers": "[(16, 3)] * 2",
        },
    ),
}


def build(name):
    """Build one of ``MODELS``, in evaluation mode."""
    function, settings = MODELS[name]
    return function(**settings)


def sample(sources=SOURCES, targets=TARGETS, left=True):
    """Make a fairseq batch; ``left``: pad the source on the left."""
    before = [[2, *target[:-1]] for target in targets]
    return {
        "id": torch.arange(len(sources)),
        "target": pad(targets, 1, left=False),
        "net_input": {
            "src_tokens": pad(sources, 1, left=left),
            "src_lengths": torch.tensor(list(map(len, sources))),
            "prev_output_tokens": pad(before, 1, left=False),
        },
    }
