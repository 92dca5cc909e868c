"""The words of each paper for the attention patterns of its model."""

from __future__ import annotations

from fairseq.modules import MultiheadAttention
from torch import nn

from ...attention import PatternedSelfAttention
from ...models.hybrid_gate import HybridGate
from ...models.hysan import HySAN
from ...models.localness import Localness
from ...models.mma import MMA
from ...patterns import (
    FUTURE,
    GLOBAL,
    HYSAN_DECODER,
    HYSAN_ENCODER,
    PAST,
    Pattern,
    Vocabulary,
    local,
    local_past,
    mma_vocabulary,
)

#: For attention that no paper here names.
PLAIN: Vocabulary = {
    "global": GLOBAL,
    "past": PAST,
    "future": FUTURE,
    "localK": local,
    "local-pastK": local_past,
}


def head_words(model: nn.Module, kind: str, attention: MultiheadAttention) -> list[list[str]]:
    """The word for the pattern of every head, ``[branches][heads]``.

    ``kind`` is ``encoder``, ``decoder`` or ``cross``; ``attention`` is a module of the model.
    """
    if isinstance(attention, PatternedSelfAttention) and attention.bias is not None:
        # A Gaussian bias over all keys, which a setting of the model names.
        word = model.cfg.localness if isinstance(model, Localness) else "biased"
        return [[word] * attention.num_heads]
    words = vocabulary(model, kind)
    return [[word_of(pattern, words) for pattern in heads] for heads in patterns(kind, attention)]


def patterns(kind: str, attention: MultiheadAttention) -> list[list[Pattern]]:
    """The pattern of every head, ``[branches][heads]``; fairseq's own decoder sees the past."""
    heads = attention.num_heads
    if isinstance(attention, PatternedSelfAttention):
        return [list(branch) * (heads // len(branch)) for branch in attention.branches]
    return [[PAST if kind == "decoder" else GLOBAL] * heads]


def vocabulary(model: nn.Module, kind: str) -> Vocabulary:
    if isinstance(model, HySAN) and kind != "cross":
        return HYSAN_ENCODER if kind == "encoder" else HYSAN_DECODER
    if isinstance(model, MMA) and kind == "encoder":
        return mma_vocabulary(model.cfg.local_window)
    if isinstance(model, HybridGate) and kind == "encoder":
        return {"global": GLOBAL, "local": local(model.cfg.local_window)}
    return PLAIN


def word_of(pattern: Pattern, vocabulary: Vocabulary) -> str:
    """The word for a pattern, or for its family with a number; its ``repr`` if it has none."""
    for word, meaning in vocabulary.items():
        if meaning == pattern:
            return word
    for word, family in vocabulary.items():
        if not callable(family):
            continue
        # The family may have been called with one of the whole numbers in the pattern.
        for number in vars(pattern).values():
            if isinstance(number, int) and family(number) == pattern:
                return word.removesuffix("K") + str(number)
    return repr(pattern)
