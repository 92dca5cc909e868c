"""The systems whose training and generation are timed, all of one size, and their stock."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from fairseq.data import Dictionary
from fairseq.models import MODEL_DATACLASS_REGISTRY, build_model
from fairseq.models.transformer import TransformerModelBase
from omegaconf import OmegaConf

import fairseq_hybrid_attn  # noqa: F401  (registers the architectures)
from fairseq_hybrid_attn.models.config import nested_config

from .common import Settings

#: From a system's name to its architecture and settings.
SYSTEMS = {
    "hysan-e1": ("transformer_hysan", {}),
    "hysan-e1-sum": ("transformer_hysan", {"branch_fusion": "sum"}),
    "hysan-e1-concat": ("transformer_hysan", {"branch_fusion": "concat"}),
    "mma": ("transformer_mma", {}),
    "hybrid-gate": ("transformer_hybrid_gate", {}),
    "hybrid-gate-query": ("transformer_hybrid_gate", {"gate_input": "query"}),
    "localness": ("transformer_localness", {}),
    "forward-mask": ("transformer_forward_encoding_mask", {}),
}

TITLES = {
    "hysan-e1": "HySAN e1, gated sum",
    "hysan-e1-sum": "HySAN e1, sum",
    "hysan-e1-concat": "HySAN e1, concat",
    "mma": "MMA",
    "hybrid-gate": "hybrid gate",
    "hybrid-gate-query": "hybrid gate, from the queries",
    "localness": "LOCAL S",
    "forward-mask": "forward encoding mask",
}


def dictionary(settings: Settings) -> Dictionary:
    """Words w0, w1, …: as many as the settings say, fairseq's special ones among them."""
    words = Dictionary()
    for number in range(settings.vocabulary - len(words)):
        words.add_symbol(f"w{number}")
    return words


def build(system: str | None, words: Dictionary, settings: Settings):
    """Build a system, or with None fairseq's own transformer of the same size.

    Returns:
        a fairseq model on the device, in the precision of the settings.
    """
    torch.manual_seed(0)
    size = {
        "encoder_embed_dim": settings.width,
        "encoder_ffn_embed_dim": settings.ffn,
        "encoder_layers": settings.layers,
        "decoder_layers": settings.layers,
        "encoder_attention_heads": settings.heads,
        "decoder_attention_heads": settings.heads,
        "dropout": 0.1,
        "share_all_embeddings": True,
        "max_source_positions": 1024,
        "max_target_positions": 1024,
    }
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    arch, own = SYSTEMS[system] if system else ("transformer_mma", {})
    cfg = OmegaConf.structured(MODEL_DATACLASS_REGISTRY[arch](**size, **own))
    if system is None:  # our settings contain all of fairseq's
        model = TransformerModelBase.build_model(nested_config(cfg), task)
    else:
        cfg._name = arch
        model = build_model(cfg, task)
    return model.to(device=settings.device, dtype=settings.torch_dtype)


def sentences(words: Dictionary, settings: Settings, *, seed: int) -> torch.Tensor:
    """A batch as fairseq makes them: of similar lengths, padded on the left.

    Returns:
        ``[sentences, length]``; each ends with the end symbol, a quarter of them are up to
        three tokens shorter than the longest.
    """
    generator = torch.Generator().manual_seed(seed)
    shape = (settings.sentences, settings.length)
    tokens = torch.randint(words.nspecial, len(words), shape, generator=generator)
    tokens[:, -1] = words.eos()
    for row in range(settings.sentences):
        tokens[row, : max(0, min(row % 16 - 12, settings.length - 1))] = words.pad()
    return tokens.to(settings.device)
