"""Record what the attention of a whole model computes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from fairseq.modules import MultiheadAttention
from torch import nn

from .multihead import AttentionRecord, PatternedSelfAttention

Key = TypeVar("Key", bound=Hashable)


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, list[AttentionRecord]]]:
    """Record every patterned attention of ``model`` while the block runs.

    Recording changes outputs by rounding only, since it uses paths that return weights and
    branches; in training on a GPU, also which weights dropout drops.  Training with
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
        if isinstance(module, PatternedSelfAttention)
    }
    with record_modules(attentions) as records:
        yield records


@contextmanager
def record_modules(
    attentions: Mapping[Key, MultiheadAttention],
) -> Iterator[dict[Key, list[AttentionRecord]]]:
    """Record these attention modules while the block runs, this package's or fairseq's own.

    The modules themselves are recorded, so ``need_attn``, normalisation or activation checkpointing
    in the layers around them do not matter; the layers still get what they request.  For
    fairseq's own modules, a record has weights ``[1, b, h, n, m]`` and the output.

    Yields:
        a dictionary from the keys of ``attentions`` to the records of their calls.
    """
    records: dict[Key, list[AttentionRecord]] = {key: [] for key in attentions}
    with ExitStack() as stack:
        for key, attention in attentions.items():
            patterned = isinstance(attention, PatternedSelfAttention)
            listen = _listen if patterned else _listen_to_stock
            stack.enter_context(listen(attention, records[key].append))
        yield records


@contextmanager
def _listen(attention: PatternedSelfAttention, listener) -> Iterator[None]:
    attention.listeners.append(listener)
    try:
        yield
    finally:
        attention.listeners.remove(listener)


@contextmanager
def _listen_to_stock(attention: MultiheadAttention, listener) -> Iterator[None]:
    """Make fairseq's own attention compute the weights of its heads, and pass them on.

    With ``skip_embed_dim_check``, the module takes the softmax itself.  PyTorch's function for
    all of attention would return the mean over the heads.

    The hook that requests weights runs last, the hook that takes them first.  So recordings nest,
    and other hooks of the module see what they would see without a recording.
    """
    asked: list[tuple[bool, bool]] = []

    def ask(module, args, kwargs):
        asked.append((kwargs.get("need_weights", True), kwargs.get("need_head_weights", False)))
        return args, {**kwargs, "need_weights": True, "need_head_weights": True}

    def take(module, args, kwargs, returned):
        output, weights = returned  # weights [h, b, n, m]
        listener(
            AttentionRecord(
                weights=weights.transpose(0, 1).unsqueeze(0),
                branches=None,
                gates=None,
                output=output,
            )
        )
        wanted, of_heads = asked.pop()
        if of_heads:
            return returned
        return output, weights.mean(dim=0) if wanted else None

    before = attention.skip_embed_dim_check
    attention.skip_embed_dim_check = True
    hooks = (
        attention.register_forward_pre_hook(ask, with_kwargs=True),
        attention.register_forward_hook(take, with_kwargs=True, prepend=True),
    )
    try:
        yield
    finally:
        attention.skip_embed_dim_check = before
        for hook in hooks:
            hook.remove()
