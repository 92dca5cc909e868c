"""Looking at what the attention of a whole model does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from .multihead import AttentionRecord, PatternedSelfAttention


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, list[AttentionRecord]]]:
    """Record every patterned attention of ``model`` while the block runs.

    Recording changes no output::

        with record_attention(model) as records:
            model(src_tokens, src_lengths, prev_output_tokens)
        records["encoder.layers.0.self_attn"][0].weights  # [l, b, h, n, m]

    Yields:
        a dictionary from module name to the records of its calls, in their order.
    """
    records: dict[str, list[AttentionRecord]] = {}
    attentions = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, PatternedSelfAttention)
    }
    try:
        for name, attention in attentions.items():
            records[name] = []
            attention.listener = records[name].append
        yield records
    finally:
        for attention in attentions.values():
            attention.listener = None
