"""Supervised attention (Ma & Zhao 2020, section 2.4): one head is taught a word alignment.

``--criterion label_smoothed_cross_entropy_with_supervised_attention --load-alignments`` adds a
distance to the translation loss of each sentence.  It is the distance of Eq. 13 between the
cross-attention A of one head and A*, which is made from a given alignment:

    d(A, A*) = sqrt(sum_t sum_s (A*[t, s] - A[t, s])^2)

It trains fairseq's Transformer and LSTM models and the Transformers of this package.  Alignments
are in fairseq's format: files of links ``source-target``, counted from 0 over the subwords,
binarised by ``fairseq-preprocess --align-suffix``.

docs/papers/alignment.md says how open points of the paper are read.  Row t of A is the step that
predicts target token t and is fed token t - 1.

(fairseq reads the types of the fields, so this file cannot postpone annotations.)
"""

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq import utils
from fairseq.criterions import register_criterion
from fairseq.logging import metrics
from fairseq.models.lstm import LSTMDecoder
from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor

from ..devices import without_autocast
from ..errors import UserError
from .alignment_data import check_what_is_loaded
from .cross_entropy import (
    FusedLabelSmoothedCrossEntropy,
    FusedLabelSmoothedCrossEntropyConfig,
)


@dataclass
class SupervisedAttentionConfig(FusedLabelSmoothedCrossEntropyConfig):
    """Settings of :class:`SupervisedAttention`."""

    supervision_weight: float = field(
        default=1.0, metadata={"help": "weight of the distance between attention and alignment"}
    )
    supervised_layer: int = field(
        default=-1,
        metadata={"help": "decoder layer of the supervised head, from 1 (lowest); -1: the last"},
    )
    supervised_head: int = field(
        default=-1, metadata={"help": "supervised head of that layer, from 1; -1: the last"}
    )
    gold_variance: float = field(
        default=0.5,
        metadata={
            "help": "variance, in source tokens, of the Gaussian that smooths the alignment; "
            "0: no smoothing"
        },
    )


@register_criterion(
    "label_smoothed_cross_entropy_with_supervised_attention", dataclass=SupervisedAttentionConfig
)
class SupervisedAttention(FusedLabelSmoothedCrossEntropy):
    """fairseq's label-smoothed cross-entropy, plus the distance of one head from an alignment.

    Batches without alignments, such as those of a validation set without any, have only the
    translation loss.  Training data is checked when it is loaded.

    Raises:
        UserError: if a setting is wrong.
    """

    def __init__(
        self,
        task,
        sentence_avg,
        label_smoothing,
        ignore_prefix_size=0,
        report_accuracy=False,
        autocast_bf16=False,
        supervision_weight=1.0,
        supervised_layer=-1,
        supervised_head=-1,
        gold_variance=0.5,
    ):
        super().__init__(
            task, sentence_avg, label_smoothing, ignore_prefix_size, report_accuracy, autocast_bf16
        )
        for flag, value in (
            ("--supervision-weight", supervision_weight),
            ("--gold-variance", gold_variance),
        ):
            if not (math.isfinite(value) and value >= 0):
                raise UserError(f"{flag} {value}: use 0 or more")
        self.supervision_weight = supervision_weight
        self.supervised_layer = supervised_layer
        self.supervised_head = supervised_head
        self.gold_variance = gold_variance
        check_what_is_loaded(task)

    def forward(self, model, sample, reduce=True):
        """Return fairseq's values; the loss is a sum over target tokens and sentences.

        Raises:
            UserError: if the model has no such head.
        """
        with recorded_head(model, self.supervised_layer, self.supervised_head) as attention:
            loss, sample_size, logged = super().forward(model, sample, reduce)
        src_tokens = sample["net_input"]["src_tokens"]
        distances, supervised = self.distances(sample, attention(src_tokens.ne(self.padding_idx)))
        if reduce:
            loss = loss + self.supervision_weight * distances.sum()
            logged["loss"] = loss.data
        # In every process, even without alignments: fairseq sums the processes' logs by key.
        logged["attention_loss"] = distances.detach().sum()
        logged["supervised_sentences"] = supervised.sum()
        return loss, sample_size, logged

    def distances(self, sample, attention: Tensor | None) -> tuple[Tensor, Tensor]:
        """Eq. 13 for each sentence of a batch.

        Args:
            sample: the batch.
            attention: of the head, ``[batch, target, source]``, words of the source first;
                None if the layer did not run.

        Returns:
            the distances ``[batch]``, and which sentences have an alignment, bool ``[batch]``.
        """
        target, alignments = sample["target"], sample.get("alignments")
        if attention is None or alignments is None:
            nothing = torch.zeros(len(target), device=target.device)
            return nothing, nothing.bool()
        attention = attention.float()
        gold = gold_attention(
            alignments, sample["net_input"]["src_tokens"], target, self.padding_idx,
            self.gold_variance,
        )  # fmt: skip
        linked = gold.sum(dim=2, keepdim=True) > 0
        difference = (attention - gold).masked_fill(~linked, 0)
        return torch.linalg.vector_norm(difference, dim=(1, 2)), linked.flatten(1).any(dim=1)

    @classmethod
    def reduce_metrics(cls, logging_outputs) -> None:
        """Log fairseq's values, and the mean distance of a sentence as ``attention_loss``."""
        super().reduce_metrics(logging_outputs)
        sums = {
            key: utils.item(sum(log.get(key, 0) for log in logging_outputs))
            for key in ("attention_loss", "supervised_sentences")
        }
        if sentences := sums["supervised_sentences"]:
            mean = sums["attention_loss"] / sentences
            metrics.log_scalar("attention_loss", mean, sentences, round=3)


def gold_attention(
    alignments: Tensor, src_tokens: Tensor, target: Tensor, padding: int, variance: float
) -> Tensor:
    """Return A* of a batch.

    Args:
        alignments: fairseq's, ``[links, 2]``: the column in the padded source, and the row in all
            padded targets, one below the other.
        src_tokens: ``[batch, source]``, padded on either side.
        target: ``[batch, target]``.
        padding: the padding token.
        variance: of the Gaussian; 0: no smoothing.

    Returns:
        ``[batch, target, source]`` with the words of the source first.  Padding and rows without
        a link are 0; other rows sum to 1.
    """
    column, row = alignments.to(target.device).unbind(dim=1)
    real = src_tokens.ne(padding)
    column = column - real.long().argmax(dim=1)[row // target.size(1)]
    words = torch.arange(src_tokens.size(1), device=target.device)
    linked = torch.zeros(target.numel(), len(words), device=target.device)
    # The 0-1 matrix: a link given twice is a single 1.
    linked = linked.index_put((row, column), torch.ones((), device=target.device))
    offset = words - words.unsqueeze(1)
    bumps = torch.exp(-offset.square() / (2 * variance)) if variance else offset.eq(0).float()
    with without_autocast(target.device.type):
        gold = (linked @ bumps).view(*target.shape, -1)
    # Padding and the end symbol are not words.
    gold = gold * (words < real.sum(dim=1, keepdim=True) - 1).unsqueeze(1)
    return gold / gold.sum(dim=2, keepdim=True).clamp(min=torch.finfo(gold.dtype).tiny)


@contextlib.contextmanager
def recorded_head(
    model, layer: int = -1, head: int = -1
) -> Iterator[Callable[[Tensor], Tensor | None]]:
    """Record the cross-attention of one head while a model runs, with its gradient.

    Args:
        model: a Transformer or LSTM, of fairseq or of this package.
        layer: of the decoder, from 1 (the lowest), or from -1 (the last) backwards.
        head: of the layer, likewise.

    Yields:
        a function from the real source tokens, bool ``[batch, source]``, to the weights of the
        run, ``[batch, target, source]``.  The words of the source come first, whichever side is
        padded.  It returns None if the layer did not run (``--decoder-layerdrop``).

    Raises:
        UserError: if there is no such head.
    """
    decoder = getattr(model, "decoder", None)
    if isinstance(decoder, TransformerDecoderBase):
        record = _record_transformer
    elif isinstance(decoder, LSTMDecoder) and decoder.attention is not None:
        record = _record_lstm
    else:
        raise UserError(
            f"{type(model).__name__} has no cross-attention that can be supervised; use a "
            "Transformer or fairseq's lstm with attention"
        )
    handles, weights = record(decoder, layer, head)
    try:
        yield weights
    finally:
        for handle in handles:
            handle.remove()


def _record_transformer(decoder, layer, head):
    # Hook the layer, not its attention: with checkpointed activations, only what the layer
    # returns has a gradient.
    layers = list(torch.nn.ModuleList.__iter__(decoder.layers))  # LayerDrop's iterator skips some
    chosen: Any = layers[_index("--supervised-layer", layer, len(layers))]
    if getattr(chosen, "encoder_attn", None) is None:
        raise UserError(f"--supervised-layer {layer}: this layer has no cross-attention")
    head = _index("--supervised-head", head, chosen.encoder_attn.num_heads)
    outputs: list[Tensor] = []

    def ask(module, args, kwargs):
        return args, {**kwargs, "need_head_weights": True}

    def keep(module, args, output):
        outputs.append(output[1])  # [heads, batch, target, source]

    def weights(real):
        return _words_first(outputs[-1][head], real) if outputs else None

    return (
        chosen.register_forward_pre_hook(ask, with_kwargs=True),
        chosen.register_forward_hook(keep),
    ), weights


def _record_lstm(decoder, layer, head):
    _index("--supervised-layer", layer, 1)
    _index("--supervised-head", head, 1)
    outputs: list[Tensor] = []

    def keep(module, args, output):
        outputs.append(output[1])  # of a step, [source, batch]

    def weights(real):
        # The encoder has moved padding from the left to the right.
        return torch.stack(outputs).permute(2, 0, 1)

    return (decoder.attention.register_forward_hook(keep),), weights


def _index(flag: str, value: int, size: int) -> int:
    if not 1 <= abs(value) <= size:
        raise UserError(f"{flag} {value}: this model has {size}; use 1 to {size}, or -1: the last")
    return value - 1 if value > 0 else size + value


def _words_first(weights: Tensor, real: Tensor) -> Tensor:
    """Rotate the source of ``[batch, target, source]`` so that padding on the left comes last."""
    first = real.long().argmax(dim=1, keepdim=True)
    columns = (torch.arange(real.size(1), device=real.device) + first) % real.size(1)
    return weights.gather(2, columns.unsqueeze(1).expand_as(weights))
