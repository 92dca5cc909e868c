"""Small models for the tests, built as fairseq builds them."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from fairseq.data import Dictionary
from fairseq.models import MODEL_DATACLASS_REGISTRY, build_model
from omegaconf import OmegaConf

import fairseq_hybrid_attn  # noqa: F401  (registers the architectures)

TINY = {
    "encoder_embed_dim": 16,
    "encoder_ffn_embed_dim": 32,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "squeeze_ratio": 4,
    "dropout": 0.0,
    "max_source_positions": 64,
    "max_target_positions": 64,
}

#: One or more configurations of every model, enough to reach each branch of the code.
CONFIGURATIONS = {
    "mma": ("transformer_mma", {}),
    "mma-nopos": ("transformer_mma", {"no_encoder_positions": True}),
    "hysan-gated": ("transformer_hysan", {}),
    "hysan-sum": ("transformer_hysan", {"branch_fusion": "sum"}),
    "hysan-concat": ("transformer_hysan", {"branch_fusion": "concat"}),
    "hysan-prenorm": (
        "transformer_hysan",
        {"encoder_normalize_before": True, "decoder_normalize_before": True},
    ),
    "gate-hidden": ("transformer_hybrid_gate", {}),
    "gate-query": ("transformer_hybrid_gate", {"gate_input": "query"}),
    "gate-concat": ("transformer_hybrid_gate", {"hybrid_fusion": "concat"}),
    "gate-local": ("transformer_hybrid_gate", {"hybrid_fusion": "local"}),
    "neighbor": ("transformer_localness", {"localness": "neighbor"}),
    "local-h": ("transformer_localness", {"localness": "local-h"}),
    "local-s": ("transformer_localness", {"localness": "local-s"}),
    "past-only": ("transformer_forward_encoding_mask", {}),
    "future-only": ("transformer_backward_encoding_mask", {}),
    "lstm-on-top": ("transformer_lstm_on_top", {}),
    "lstm-on-top-prenorm": (
        "transformer_lstm_on_top",
        {"encoder_normalize_before": True, "decoder_normalize_before": True},
    ),
}


def dictionary(symbols: int) -> Dictionary:
    """A dictionary of ``symbols`` words besides fairseq's four special ones."""
    words = Dictionary()
    for number in range(symbols):
        words.add_symbol(f"w{number}")
    return words


def build(arch: str, *, symbols: int = 12, **settings):
    """Build ``arch`` with shared dictionaries and the given settings, in evaluation mode."""
    config = MODEL_DATACLASS_REGISTRY[arch]
    known = {key: value for key, value in settings.items() if key in config.__dataclass_fields__}
    unknown = set(settings) - set(known) - set(TINY)
    if unknown:
        raise TypeError(f"{arch} has no {unknown}")
    words = dictionary(symbols)
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    cfg = OmegaConf.structured(config(**known))
    cfg._name = arch
    return build_model(cfg, task).eval()


def build_tiny(name: str, **settings):
    """Build one of ``CONFIGURATIONS`` at a tiny size."""
    arch, own = CONFIGURATIONS[name]
    torch.manual_seed(0)
    return build(arch, **{**TINY, **own, **settings})


def pad(sentences: list[list[int]], padding: int, *, left: bool) -> torch.Tensor:
    """Sentences as one tensor ``[b, n]``, padded on one side."""
    longest = max(map(len, sentences))
    rows = []
    for sentence in sentences:
        fill = [padding] * (longest - len(sentence))
        rows.append(fill + sentence if left else sentence + fill)
    return torch.tensor(rows)


def parameters(model) -> int:
    """Number of parameters, shared ones counted once."""
    return sum(parameter.numel() for parameter in model.parameters())
