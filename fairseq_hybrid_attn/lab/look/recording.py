"""Record attention modules, this package's or fairseq's own, while a model computes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from fairseq.modules import MultiheadAttention

from ...attention import AttentionRecord, PatternedAttention

Key = TypeVar("Key", bound=Hashable)

#: The modules that can be recorded.
Attention = PatternedAttention | MultiheadAttention


@contextmanager
def record_modules(
    attentions: Mapping[Key, Attention],
) -> Iterator[dict[Key, list[AttentionRecord]]]:
    """Record these attention modules while the block runs.

    The modules themselves are recorded, so ``need_attn``, normalisation or activation checkpointing
    in the layers around them do not matter; the layers still get what they request.  For
    fairseq's own modules, a record has weights ``[1, b, h, n, m]`` and the output.

    Yields:
        a dictionary from the keys of ``attentions`` to the records of their calls.
    """
    records: dict[Key, list[AttentionRecord]] = {key: [] for key in attentions}
    with ExitStack() as stack:
        for key, attention in attentions.items():
            listener = records[key].append
            if isinstance(attention, PatternedAttention):
                stack.enter_context(attention.recorded_by(listener))
            else:
                stack.enter_context(_stock_recorded_by(attention, listener))
        yield records


@contextmanager
def _stock_recorded_by(attention: MultiheadAttention, listener) -> Iterator[None]:
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
