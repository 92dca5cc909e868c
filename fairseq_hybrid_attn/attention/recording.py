"""Looking at what the attention of a whole model does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from .multihead import AttentionRecord, PatternedSelfAttention


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, list[AttentionRecord]]]:
    """Record every patterned attention of ``model`` while the block runs.

    Recording changes no output.  In training with ``--checkpoint-activations``, which
    computes each layer again for its gradient, calls are recorded twice::

        with record_attention(model) as records:
            model(src_tokens, src_lengths, prev_output_tokens)
        records["encoder.layers.0.self_attn"][0].weights  # [l, b, h, n, m]

    Yields:
        a dictionary from module name to the records of its calls, in their order.
    """
    attentions = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, PatternedSelfAttention)
    }
    records: dict[str, list[AttentionRecord]] = {name: [] for name in attentions}
    listeners = {name: calls.append for name, calls in records.items()}
    for name, attention in attentions.items():
        attention.listeners.append(listeners[name])
    try:
        yield records
    finally:
        for name, attention in attentions.items():
            attention.listeners.remove(listeners[name])
