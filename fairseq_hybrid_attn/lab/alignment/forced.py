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

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import UserError
from ..corpora.link_files import Lengths, Links
from ..corpora.words import text_of, word_attention, words_of
from ..models import CROSS
from ..models.attentions import SentenceAttention
from ..models.on_text import ModelOnText
from . import AVERAGE, Choice

#: Smaller differences of attention count as equal, since rounding depends on the batch.
_TIE = 1e-5


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


@dataclass
class Extracted:
    """What was extracted: the links of each sentence and, if they were asked for, its matrices."""

    links: list[Links]
    of_heads: dict[tuple[Choice, Choice], list[Links]]  #: by layer and head, if asked for
    matrices: list[np.ndarray]


def extract(
    loaded: ModelOnText,
    layer: Choice,
    head: Choice,
    *,
    lengths: Lengths,
    skip: Sequence[int] = (),
    end_symbol: bool = False,
    read_step: bool = False,
    full_context: bool = False,
    every_head: bool = False,
    matrices: bool = False,
) -> Extracted:
    """The links of a layer and head, perhaps of all; sentences to ``skip`` (from 0) have none."""
    attentions = loaded.attentions([CROSS], full_context=full_context)
    nothing: Links = frozenset()
    found = Extracted([nothing] * len(lengths), {}, [])
    if matrices:
        found.matrices = [np.zeros((m, n + 1), np.float32) for n, m in lengths]

    def use(number: int, observed: SentenceAttention) -> None:
        sentence = aligned(loaded, number, observed, read_step=read_step)
        attention = sentence.of(layer, head)
        found.links[number] = strongest(attention, end_symbol=end_symbol)
        if matrices:
            found.matrices[number] = attention.copy()  # not a view of all layers and heads
        layers, heads = ([*range(1, n + 1), AVERAGE] for n in sentence.attention.shape[:2])
        for key in itertools.product(layers, heads) if every_head else ():
            of_head = found.of_heads.setdefault(key, [nothing] * len(lengths))
            of_head[number] = sentence.links(*key, end_symbol=end_symbol)

    loaded.observe(attentions, set(range(len(lengths))).difference(skip), use)
    return found


def aligned(
    loaded: ModelOnText, number: int, observed: SentenceAttention, *, read_step: bool = False
) -> AlignedSentence:
    """A sentence (from 0) in words, from what was observed of its subwords.

    With ``read_step``, a target piece has the attention of the step that reads it, which is one
    after the step that predicts it.
    """
    weights = np.stack([layer.weights[0] for layer in observed[CROSS]])[:, :, int(read_step) :]
    assert loaded.sentences.target is not None  # it is forced
    pieces = loaded.sentences.source[number], loaded.sentences.target[number]
    source, target = (words_of(side, loaded.subwords) for side in pieces)
    end = [len(pieces[0])]
    return AlignedSentence(
        source=[text_of(word, pieces[0], loaded.subwords) for word in source],
        target=[text_of(word, pieces[1], loaded.subwords) for word in target],
        attention=word_attention(weights, [*source, end], target),
    )
