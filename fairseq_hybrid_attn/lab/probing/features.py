"""A vector for each sentence: the mean of an encoder layer's states over its tokens.

Legend: b = sentences of a batch, n = tokens of the longest one, d = width of the states.
"""

from __future__ import annotations

import torch
from fairseq.models.transformer import TransformerEncoderBase
from torch import Tensor, nn

from ...errors import UserError
from ...models.lstm_on_top import EncoderUnderLSTM
from ..models.sentences import Sentences, in_batches

LAST = -1


def encode(model: nn.Module, net_input: dict) -> tuple[list[Tensor], Tensor]:
    """Run a model's encoder on the ``net_input`` of a batch, padded on either side.

    Returns:
        states ``[n, b, d]`` of the layers that the encoder returns: 0 = embeddings, 1 = lowest,
        the last = what the decoder receives; and where there is no token, ``[n, b]``.
    """
    encoder = getattr(model, "encoder", None)
    if not isinstance(encoder, TransformerEncoderBase):
        raise UserError(
            f"probing does not know where a {type(model).__name__} has its encoder's states; it "
            "supports transformers of fairseq and of this package"
        )
    tokens, lengths = net_input["src_tokens"], net_input["src_lengths"]
    out = encoder(tokens, src_lengths=lengths, return_all_hiddens=True)
    layers = list(out["encoder_states"])
    if isinstance(encoder, EncoderUnderLSTM):  # a further layer, on top of the last norm
        if encoder.layer_norm is not None:
            layers[-1] = encoder.layer_norm(layers[-1])
        layers.append(out["encoder_out"][0])
    else:
        layers[-1] = out["encoder_out"][0]  # after the last norm, if there is one
    return layers, tokens.eq(encoder.padding_idx).t()


def mean_states(states: Tensor, padding: Tensor, *, end_symbol: bool) -> Tensor:
    """Return the mean ``[b, d]`` of states ``[n, b, d]`` over the tokens of each sentence.

    It has at least single precision, and is 0 for a sentence without tokens that count.  With
    ``end_symbol`` false, the last token of each sentence, its end symbol, does not count.
    """
    counts = ~padding
    if not end_symbol:
        # One token remains from here on: this is the last.
        counts = counts & (counts.flip(0).cumsum(0).flip(0) != 1)
    states = states.to(torch.promote_types(states.dtype, torch.float32))
    # Filled, not multiplied by 0: padding may hold anything, even NaN.
    total = states.masked_fill(~counts.unsqueeze(2), 0).sum(0)
    return total / counts.sum(0).clamp(min=1).unsqueeze(1)


@torch.no_grad()
def sentence_vectors(
    model: nn.Module,
    sentences: Sentences,
    *,
    layer: int = LAST,
    end_symbol: bool = True,
    **batches,
) -> Tensor:
    """Return a vector for each sentence, ``[sentences, d]``, on the CPU.

    The model is in evaluation mode and on the device; ``batches`` come from :func:`in_batches`.
    ``layer`` is 1 for the lowest, 0 for the embeddings with positions, or LAST; ``end_symbol``
    says whether the mean includes it.  Apart from rounding, vectors do not depend on the batches.
    """

    def compute(sample: dict) -> Tensor:
        layers, padding = encode(model, sample["net_input"])
        if layer >= len(layers):
            there = ", ".join(map(str, range(len(layers))))
            raise UserError(f"--layer {layer}: this encoder has {there}, and last")
        return mean_states(layers[layer], padding, end_symbol=end_symbol).cpu()

    vectors = torch.stack(list(in_batches(sentences, compute, **batches)))
    broken = (~vectors.isfinite().all(1)).nonzero().flatten().tolist()
    if broken:
        raise UserError(
            f"the encoder's states of {len(broken):,} sentences are not finite, first in sentence "
            f"{broken[0] + 1}: the model has diverged, or half precision is too narrow for it"
        )
    return vectors
