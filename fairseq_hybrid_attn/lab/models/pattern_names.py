"""The words of each paper for the attention patterns of its model."""

from __future__ import annotations

from contextlib import suppress

from fairseq.modules import MultiheadAttention
from torch import nn

from ...attention import PatternedAttention
from ...models.transformer import PatternedTransformer
from ...patterns import FUTURE, GLOBAL, PAST, Pattern, Vocabulary, local, local_past

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
    if isinstance(attention, PatternedAttention) and attention.bias is not None:
        return [[getattr(attention.bias, "word", "biased")] * attention.num_heads]
    words = vocabulary(model, kind)
    return [[word_of(pattern, words) for pattern in heads] for heads in patterns(kind, attention)]


def patterns(kind: str, attention: MultiheadAttention) -> list[list[Pattern]]:
    """The pattern of every head, ``[branches][heads]``; fairseq's own decoder sees the past."""
    heads = attention.num_heads
    if isinstance(attention, PatternedAttention):
        return [list(branch) * (heads // len(branch)) for branch in attention.branches]
    return [[PAST if kind == "decoder" else GLOBAL] * heads]


def vocabulary(model: nn.Module, kind: str) -> Vocabulary:
    if not isinstance(model, PatternedTransformer) or kind == "cross":
        return PLAIN
    words = model.words(model.cfg, kind)
    return {**words, **{word: PLAIN[word] for word in PLAIN if word not in words}}


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
            with suppress(ValueError):  # not a number of this family
                if isinstance(number, int) and family(number) == pattern:
                    return word.removesuffix("K") + str(number)
    return repr(pattern)
