"""Record what the attention of a whole model computes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from torch import nn

from .multihead import AttentionRecord, PatternedAttention


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, list[AttentionRecord]]]:
    """Record every patterned attention of ``model`` while the block runs.

    Recording changes outputs by rounding only, since weights and branches are computed; in training
    on a GPU, also which weights dropout drops.  Training with
    ``--checkpoint-activations`` recomputes each layer for its gradient and so records each call
    twice::

        with record_attention(model) as records:
            model(src_tokens, src_lengths, prev_output_tokens)
        records["encoder.layers.0.self_attn"][0].weights  # [l, b, h, n, m]

    Yields:
        a dictionary from the name of a module to the records of its calls, in order.
    """
    attentions = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, PatternedAttention)
    }
    records: dict[str, list[AttentionRecord]] = {name: [] for name in attentions}
    with ExitStack() as stack:
        for name, attention in attentions.items():
            stack.enter_context(attention.recorded_by(records[name].append))
        yield records
