"""Word alignments out of a model: its cross-attention while it is made to say a given translation.

Forced decoding (Ma & Zhao 2020, section 2.1): the decoder is fed the reference, and each target
word is linked with the source word that it attends to most.

Which row belongs to which word: at step t the decoder reads target piece t - 1 (at step 0 the end
symbol) and predicts piece t.  The attention of step t is that of piece t, the one *predicted*, as
in fairseq's ``--print-alignment``.  The other choice, the step at which a piece is *read*, is one
later (Chen et al. 2020, "Accurate Word Alignment Induction from Neural Machine Translation",
SHIFT-ATT).

Layers and heads: fairseq's ``alignment_heads`` averages the first so many heads of one layer, and
cannot return a single head.  Here the cross-attention modules themselves are asked for the weights
of every head, of all layers in one pass.  A decoder without such modules (LSTM, convolutional)
counts as one layer with one head: the attention that it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from ...errors import UserError
from ..inference.attentions import CROSS, Attentions
from ..inference.sentences import Sentences, in_batches
from ..text.words import text_of, word_attention, words_of
from .link_files import Links

#: Differences of attention below this count as none: rounding depends on the batch.
_TIE = 1e-5

#: A layer or a head: its number from 1, from the last one if negative, or the mean of all.
Choice = int | str
AVERAGE = "average"


@dataclass
class AlignedSentence:
    """What a model attends to while it says a translation.

    Attributes:
        source: the words.
        target: the words.
        attention: of target words to source words and, in the last column, to the end symbol of
            the source: ``[layers, heads, target words, source words + 1]``.
    """

    source: list[str]
    target: list[str]
    attention: np.ndarray

    def of(self, layer: Choice, head: Choice) -> np.ndarray:
        """The attention of a layer and head, ``[target words, source words + 1]``."""
        chosen = self.attention
        chosen = _choose(chosen, layer, axis=0, flag="--layer", what="decoder layers")
        return _choose(chosen, head, axis=0, flag="--head", what="heads")

    def links(self, layer: Choice, head: Choice, *, end_symbol: bool = False) -> Links:
        """Each target word linked with the source word that it attends to most.

        Args:
            layer: which.
            head: which.
            end_symbol: let the source's end symbol compete; a target word that attends to it
                most has no link.
        """
        return strongest(self.of(layer, head), end_symbol=end_symbol)


def _choose(values: np.ndarray, choice: Choice, axis: int, flag: str, what: str) -> np.ndarray:
    if choice == AVERAGE:
        return values.mean(axis)
    count = values.shape[axis]
    if not isinstance(choice, int) or choice == 0 or abs(choice) > count:
        raise UserError(
            f"{flag} {choice}: there are {count} {what} with cross-attention; use 1 to {count}, "
            f"-1 for the last one, or {AVERAGE}"
        )
    return values.take(choice - 1 if choice > 0 else count + choice, axis)


def strongest(attention: np.ndarray, *, end_symbol: bool = False) -> Links:
    """The source word with the most attention, for each target word; of several, the first.

    Args:
        attention: ``[target words, source words + 1]``, the end symbol in the last column.
        end_symbol: let the end symbol compete; where it wins, there is no link.
    """
    words = attention.shape[1] - 1
    if not words:
        return frozenset()
    weights = attention if end_symbol else attention[:, :words]
    first = (weights >= weights.max(axis=1, keepdims=True) - _TIE).argmax(axis=1)
    return frozenset((int(i), j) for j, i in enumerate(first) if i < words)


def cross_attention(model: nn.Module, sample: dict, *, full_context: bool = False) -> list[Tensor]:
    """The cross-attention in a batch, of all layers and heads.

    Args:
        model: a fairseq encoder-decoder in evaluation mode.
        sample: a batch from fairseq, its target padded on the right.
        full_context: let the decoder see the whole target (Garg et al. 2019), for a model that
            has learned to align so.

    Returns:
        of each sentence of the batch ``[layers, heads, t, s]``, without padding; t and s count
        the end symbols.
    """
    seen = Attentions(model, (CROSS,)).observe(sample, full_context=full_context)
    if any(CROSS not in sentence for sentence in seen):
        raise UserError("this model's decoder has no cross-attention, or does not return it")
    return [torch.stack([layer.weights[0] for layer in sentence[CROSS]]) for sentence in seen]


class Aligner:
    """Aligns sentences by the attention of a model.

    Args:
        model: from :func:`~fairseq_hybrid_attn.inference.load_model`.
        subwords: how words are split, one of ``words.SUBWORDS``.
        max_tokens: of a batch: its sentences times the longer side of the longest one.
        device: where to compute.
        read_step: the attention of a target piece is that of the step that reads it, not of
            the one that predicts it.
        full_context: let the decoder see the whole target.
    """

    def __init__(
        self,
        model: nn.Module,
        subwords: str,
        *,
        max_tokens: int = 4000,
        device: str = "cpu",
        read_step: bool = False,
        full_context: bool = False,
    ):
        self.model = model.to(device).eval()
        self.subwords = subwords
        self.max_tokens = max_tokens
        self.device = device
        self.read_step = read_step
        self.full_context = full_context

    def align(
        self,
        sentences: Sentences,
        *,
        use: Callable[[AlignedSentence], object] = lambda sentence: sentence,
        skip: Sequence[int] = (),
        progress: Callable[[int], object] = lambda done: None,
    ) -> Iterator:
        """Align.

        Args:
            sentences: with their translations.
            use: makes of a sentence what is wanted of it; the sentences themselves, with all
                layers and heads, are large.
            skip: sentences (from 0) to leave out.
            progress: is told how many more sentences are done.

        Yields:
            of each sentence what ``use`` made of it, in their order; None of one that is left
            out.
        """

        def compute(sample: dict) -> Iterator:
            attention = cross_attention(self.model, sample, full_context=self.full_context)
            for number, weights in zip(sample["id"].tolist(), attention, strict=True):
                pieces = sentences.source[number], sentences.target[number]
                yield use(self._sentence(weights.numpy(), *pieces))

        yield from in_batches(
            sentences,
            compute,
            max_tokens=self.max_tokens,
            device=self.device,
            skip=skip,
            progress=progress,
        )

    def _sentence(
        self, weights: np.ndarray, source: list[str], target: list[str]
    ) -> AlignedSentence:
        source_words = words_of(source, self.subwords)
        target_words = words_of(target, self.subwords)
        if self.read_step:
            weights = weights[:, :, 1:]  # the step that reads a piece is the one after
        ends = list(range(len(source), weights.shape[-1]))  # the end symbol
        return AlignedSentence(
            source=[text_of(word, source, self.subwords) for word in source_words],
            target=[text_of(word, target, self.subwords) for word in target_words],
            attention=word_attention(weights, [*source_words, ends], target_words),
        )
