"""Word alignments from a model's cross-attention, by forced decoding of a given translation.

Forced decoding (Ma & Zhao 2020, section 2.1): the decoder is fed the reference, and each target
word is linked with the source word that it attends to most.

At step t the decoder reads target piece t - 1 (at step 0 the end symbol) and predicts piece t.  The
attention of step t belongs to piece t, the *predicted* one, as in fairseq's ``--print-alignment``.
The alternative is one step later, where piece t is *read* (SHIFT-ATT of Chen et al. 2020, "Accurate
Word Alignment Induction from Neural Machine Translation").

fairseq's ``alignment_heads`` averages the first heads of one layer, and cannot return a single
head.  Here one pass gets the weights of every head of all layers from the cross-attention modules.
A decoder without such modules (LSTM, convolutional) counts as one layer with one head: the
attention that it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from ...errors import UserError
from ..corpora.link_files import Links
from ..corpora.words import text_of, word_attention, words_of
from ..look.attentions import CROSS, Attentions
from ..look.loaded import Loaded
from ..look.sentences import in_batches

#: Smaller differences of attention count as equal, since rounding depends on the batch.
_TIE = 1e-5

#: A layer or a head: its number from 1, counted from the end if negative, or the mean of all.
Choice = int | str
AVERAGE = "average"


@dataclass
class AlignedSentence:
    """The words of a sentence and its translation, with the attention between them.

    ``attention`` is ``[layers, heads, target words, source words + 1]``; the last column is the end
    symbol of the source.
    """

    source: list[str]
    target: list[str]
    attention: np.ndarray

    def of(self, layer: Choice, head: Choice) -> np.ndarray:
        """The attention of a layer and head, ``[target words, source words + 1]``."""
        of_layer = _choose(self.attention, layer, "--layer", "decoder layers")
        return _choose(of_layer, head, "--head", "heads")

    def links(self, layer: Choice, head: Choice, *, end_symbol: bool = False) -> Links:
        return strongest(self.of(layer, head), end_symbol=end_symbol)


def _choose(values: np.ndarray, choice: Choice, flag: str, what: str) -> np.ndarray:
    if choice == AVERAGE:
        return values.mean(0)
    count = len(values)
    if not isinstance(choice, int) or choice == 0 or abs(choice) > count:
        raise UserError(
            f"{flag} {choice}: there are {count} {what} with cross-attention; use 1 to {count}, "
            f"-1 for the last one, or {AVERAGE}"
        )
    return values[choice - 1 if choice > 0 else choice]


def strongest(attention: np.ndarray, *, end_symbol: bool = False) -> Links:
    """Link each target word with the source word that has the most attention; of equals, the first.

    ``attention`` is ``[target words, source words + 1]``.  With ``end_symbol``, the source's end
    symbol in the last column competes; if it wins, there is no link.
    """
    words = attention.shape[1] - 1
    if not words:
        return frozenset()
    weights = attention if end_symbol else attention[:, :words]
    first = (weights >= weights.max(axis=1, keepdims=True) - _TIE).argmax(axis=1)
    return frozenset((int(i), j) for j, i in enumerate(first) if i < words)


def cross_attention(model: nn.Module, sample: dict, *, full_context: bool = False) -> list[Tensor]:
    """The cross-attention of all layers and heads in a fairseq batch; its target is padded right.

    It is ``[layers, heads, t, s]`` for each sentence, without padding; t and s count end symbols.
    ``full_context`` lets the decoder see the whole target (Garg et al. 2019), for a model that was
    trained to align this way.
    """
    seen = Attentions(model, (CROSS,)).observe(sample, full_context=full_context)
    if any(CROSS not in sentence for sentence in seen):
        raise UserError("this model's decoder has no cross-attention, or does not return it")
    return [torch.stack([layer.weights[0] for layer in sentence[CROSS]]) for sentence in seen]


def align(
    loaded: Loaded,
    *,
    use: Callable[[AlignedSentence], object] = lambda sentence: sentence,
    read_step: bool = False,
    full_context: bool = False,
    skip: Sequence[int] = (),
    progress: Callable[[int], object] = lambda done: None,
) -> Iterator:
    """Align sentences with their translations by the attention of a model.

    Yield, in order, what ``use`` returns for each aligned sentence, which is large; None for those
    to ``skip`` (from 0).

    Args:
        read_step: take a target piece's attention from the step that reads it, not from the one
            that predicts it.
        full_context: as for :func:`cross_attention`.
        progress: is called with the number of sentences just done.
    """
    model, sentences = loaded.model.to(loaded.device).eval(), loaded.sentences

    def compute(sample: dict) -> Iterator:
        attention = cross_attention(model, sample, full_context=full_context)
        for number, weights in zip(sample["id"].tolist(), attention, strict=True):
            # A piece is read one step after it is predicted.
            steps = weights.numpy()[:, :, 1:] if read_step else weights.numpy()
            pieces = sentences.source[number], sentences.target[number]
            yield use(_in_words(steps, *pieces, loaded.subwords))

    batches = {"max_tokens": loaded.max_tokens, "device": loaded.device}
    return in_batches(sentences, compute, skip=skip, progress=progress, **batches)


def _in_words(
    weights: np.ndarray, source: list[str], target: list[str], subwords: str
) -> AlignedSentence:
    """Words and their attention, from that of subwords ``[layers, heads, t, s]``."""
    source_words, target_words = words_of(source, subwords), words_of(target, subwords)
    ends = list(range(len(source), weights.shape[-1]))  # the end symbol
    return AlignedSentence(
        source=[text_of(word, source, subwords) for word in source_words],
        target=[text_of(word, target, subwords) for word in target_words],
        attention=word_attention(weights, [*source_words, ends], target_words),
    )
