"""fairseq's label-smoothed cross-entropy in a fraction of its time and memory.

``--criterion fused_label_smoothed_cross_entropy`` trains any model of fairseq whose decoder ends in
a softmax.  Loss, gradient and log are those of ``label_smoothed_cross_entropy``.  Evaluation, and
models with an adaptive softmax or probabilities of their own, run fairseq's code.

fairseq passes six times over a matrix of tokens x vocabulary, and keeps three of its size.  Here
the logits are taken in blocks that stay in the cache, and their gradient takes their place.  With
p the softmax, V the size of the vocabulary and u = epsilon / (V - 1), it is for each token

    d loss / d logits = p - u - (1 - epsilon - u) 1[target],
    d nll / d logits = p - 1[target].

torch's ``linear_cross_entropy`` works in blocks as well, but not with label smoothing.

(fairseq reads the types of the fields, so this file cannot postpone annotations.)
"""

from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import wraps

import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from fairseq.models import BaseFairseqModel, FairseqDecoder
from fairseq.models.transformer import TransformerModelBase
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..devices import has_bfloat16, without_autocast
from ..errors import UserError

#: Numbers in a block of logits: so many stay in a core's cache, or keep a GPU busy.
_BLOCK = {"cpu": 2**19, "cuda": 2**25}

#: The length up to which plain products are faster than flash attention in bfloat16.
_SHORT = 256

#: Methods that make probabilities by a softmax of the decoder's output.
_METHODS = ("get_normalized_probs", "get_normalized_probs_scriptable")
_OWNERS = (BaseFairseqModel, TransformerModelBase, FairseqDecoder)
_SOFTMAX = {getattr(owner, method) for owner in _OWNERS for method in _METHODS}


@dataclass
class FusedLabelSmoothedCrossEntropyConfig(LabelSmoothedCrossEntropyCriterionConfig):
    """Settings of :class:`FusedLabelSmoothedCrossEntropy`."""

    autocast_bf16: bool = field(
        default=False,
        metadata={"help": "train with matrix products in bfloat16; weights stay in fp32"},
    )


@register_criterion(
    "fused_label_smoothed_cross_entropy", dataclass=FusedLabelSmoothedCrossEntropyConfig
)
class FusedLabelSmoothedCrossEntropy(LabelSmoothedCrossEntropyCriterion):
    """fairseq's criterion, in less time and memory where a model trains.

    There, ``backward`` overwrites ``net_output[0]`` with its gradient.

    Raises:
        UserError: in training with ``--autocast-bf16``, on a device without bfloat16 or with
            ``--checkpoint-activations``.
    """

    def __init__(
        self,
        task,
        sentence_avg,
        label_smoothing,
        ignore_prefix_size=0,
        report_accuracy=False,
        autocast_bf16=False,
    ):
        super().__init__(task, sentence_avg, label_smoothing, ignore_prefix_size, report_accuracy)
        self.autocast_bf16 = autocast_bf16

    def forward(self, model, sample, reduce=True):
        """Return fairseq's values."""
        if not (self.autocast_bf16 and torch.is_grad_enabled()):
            return super().forward(model, sample, reduce)
        kind = sample["target"].device.type
        if not has_bfloat16(kind):  # only here: fairseq-validate builds it on any machine
            lacks = "CPU has no bfloat16 instructions (AVX512-BF16 or AMX); omit it"
            if kind != "cpu":
                lacks = "GPU has no bfloat16 (older than Ampere); use --fp16"
            raise UserError(f"--autocast-bf16: this {lacks}")
        if any(hasattr(module, "precheckpoint_forward") for module in model.modules()):
            raise UserError(
                "--autocast-bf16: --checkpoint-activations computes layers again without it; leave "
                "out one of them"
            )
        with torch.autocast(kind, torch.bfloat16), _attention(sample["target"]):
            return super().forward(model, sample, reduce)

    def compute_loss(self, model, net_output, sample, reduce=True):
        """Return the loss and the negative log-likelihood; ``reduce=False``: ``[tokens, 1]``."""
        decoder = getattr(model, "decoder", None)
        if torch.is_grad_enabled() and getattr(decoder, "adaptive_softmax", None) is not None:
            raise UserError(
                "an adaptive softmax has a loss of its own: use --criterion adaptive_loss"
            )
        if not (torch.is_grad_enabled() and ends_in_softmax(model)):
            return super().compute_loss(model, net_output, sample, reduce)
        logits, target = net_output[0], model.get_targets(sample, net_output)
        if self.ignore_prefix_size > 0:
            logits = logits[:, self.ignore_prefix_size :]
            target = target[:, self.ignore_prefix_size :]
        logits, target = logits.reshape(-1, logits.size(-1)), target.reshape(-1)
        losses, nll = SmoothedCrossEntropy.apply(logits, target, self.eps, self.padding_idx)
        return (losses.sum(), nll.sum()) if reduce else (losses, nll)


def _attention(target: Tensor):
    """On a CPU, make stock attention multiply plain matrices if sentences are short.

    In bfloat16, torch's flash attention takes five times as long there at 25 tokens.
    """
    short = not target.is_cuda and target.size(1) <= _SHORT
    return sdpa_kernel(SDPBackend.MATH) if short else nullcontext()


def ends_in_softmax(model) -> bool:
    """Return whether a model's probabilities are the softmax of its decoder's output."""
    decoder = getattr(model, "decoder", None)
    if not isinstance(decoder, FairseqDecoder):
        return False
    return getattr(decoder, "adaptive_softmax", None) is None and all(
        getattr(getattr(owner, method), "__func__", None) in _SOFTMAX
        for owner in (model, decoder)
        for method in _METHODS
    )


def first_order(backward):
    """Make the ``backward`` of a function raise a RuntimeError under ``create_graph``.

    PyTorch's ``once_differentiable`` notices a second derivative only if the upstream gradient
    needs one; otherwise it would silently drop a penalty on gradients.  The gradient keeps its
    precision if it is asked for under autocast.
    """

    @wraps(backward)
    def only_once(ctx, *grads):
        if torch.is_grad_enabled():
            raise RuntimeError(
                "the fused loss has no second derivative: use label_smoothed_cross_entropy"
            )
        with without_autocast(grads[0].device.type):
            return backward(ctx, *grads)

    return only_once


class SmoothedCrossEntropy(torch.autograd.Function):
    """Both losses of all tokens; their gradient takes the place of the logits."""

    @staticmethod
    def forward(ctx, logits: Tensor, target: Tensor, epsilon: float, padding: int):
        """Return the loss and the negative log-likelihood of each token, ``[tokens, 1]``.

        Args:
            logits: ``[tokens, V]``, in any precision; the gradient overwrites them.
            target: ``[tokens]``.
            epsilon: the label smoothing.
            padding: the target whose tokens have a loss of 0.
        """
        uniform = epsilon / (logits.size(1) - 1)
        target = target.unsqueeze(1)
        losses, nll = (torch.empty(target.shape, device=logits.device) for _ in range(2))
        for scores, gold, loss, likelihood in _blocks(logits, target, losses, nll):
            logs = torch.log_softmax(scores, dim=1, dtype=torch.float32)
            torch.neg(logs.gather(1, gold), out=likelihood)
            smooth = logs.sum(dim=1, keepdim=True).mul_(-uniform)
            torch.add(smooth, likelihood, alpha=1 - epsilon - uniform, out=loss)
        padded = target.eq(padding)
        ctx.save_for_backward(logits, target, padded)
        ctx.epsilon, ctx.uniform = epsilon, uniform
        return losses.masked_fill_(padded, 0), nll.masked_fill_(padded, 0)

    @staticmethod
    @first_order
    def backward(ctx, of_losses: Tensor, of_nll: Tensor):
        """Overwrite the logits; the scales come first, so half precision keeps its range."""
        logits, target, padded = ctx.saved_tensors
        given = (gradient.masked_fill(padded, 0) for gradient in (of_losses, of_nll))
        for scores, gold, of_loss, of_likelihood in _blocks(logits, target, *given):
            p = torch.softmax(scores, dim=1, dtype=torch.float32)
            p.mul_(of_loss + of_likelihood).sub_(ctx.uniform * of_loss)
            peak = (ctx.uniform + ctx.epsilon - 1) * of_loss - of_likelihood
            scores.copy_(p.scatter_add_(1, gold, peak))
        return logits, None, None, None


def _blocks(logits: Tensor, *others: Tensor):
    """Yield blocks of rows of the logits and of other tensors."""
    rows = max(1, _BLOCK.get(logits.device.type, _BLOCK["cuda"]) // logits.size(1))
    return zip(*(tensor.detach().split(rows) for tensor in (logits, *others)), strict=True)
