"""A vector for each sentence: the mean of an encoder layer's states over its tokens.

Legend: b = sentences of a batch, n = tokens of the longest one, d = width of the states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from fairseq.models.lightconv import LightConvEncoder
from fairseq.models.lstm import LSTMEncoder
from fairseq.models.transformer import TransformerEncoderBase
from torch import Tensor, nn

from ...errors import UserError
from ...models.lstm_on_top import EncoderUnderLSTM
from ..inference.sentences import Sentences, in_batches

LAST = -1


@dataclass(frozen=True)
class States:
    """The states of an encoder for a batch.

    Attributes:
        layers: ``[n, b, d]`` by number: 0 = embeddings, 1 = lowest layer, the highest = what the
            decoder receives.  Only layers that the encoder returns are there.
        padding: True where there is no token, ``[n, b]``.
    """

    layers: dict[int, Tensor]
    padding: Tensor

    def layer(self, number: int) -> Tensor:
        """Return the states of a layer; LAST is the highest."""
        if number == LAST:
            return self.layers[max(self.layers)]
        if number not in self.layers:
            there = ", ".join(map(str, sorted(self.layers)))
            raise UserError(f"--layer {number}: this encoder has {there}, and last")
        return self.layers[number]


def encode(model: nn.Module, net_input: dict) -> States:
    """Run a model's encoder on the ``net_input`` of a batch, padded on either side."""
    encoder = getattr(model, "encoder", None)
    tokens, lengths = net_input["src_tokens"], net_input["src_lengths"]
    if isinstance(encoder, LSTMEncoder):
        states, _, _, padding = encoder(tokens, lengths)  # padding is now on the right
        return States({encoder.num_layers: states}, padding)
    if isinstance(encoder, TransformerEncoderBase):
        out = encoder(tokens, src_lengths=lengths, return_all_hiddens=True)
        layers = list(out["encoder_states"])
        if isinstance(encoder, EncoderUnderLSTM):  # a further layer, on top of the last norm
            if encoder.layer_norm is not None:
                layers[-1] = encoder.layer_norm(layers[-1])
            layers.append(out["encoder_out"][0])
        else:
            layers[-1] = out["encoder_out"][0]  # after the last norm, if there is one
        numbered = dict(enumerate(layers))
    elif isinstance(encoder, LightConvEncoder):
        out = encoder(tokens, src_lengths=lengths)
        numbered = {len(encoder.layers): out["encoder_out"][0]}
    else:
        raise UserError(
            f"probing does not know where a {type(model).__name__} has its encoder's states; it "
            "supports transformers of fairseq and of this package, fairseq's lstm and lightconv"
        )
    return States(numbered, tokens.eq(encoder.padding_idx).t())


def mean_states(states: Tensor, padding: Tensor, *, end_symbol: bool) -> Tensor:
    """Return the mean ``[b, d]`` of states ``[n, b, d]`` over the tokens of each sentence.

    It is in single precision at least, and 0 for a sentence without tokens that count; the last
    token of each sentence, its end symbol, may not.  ``padding`` is as in :class:`States`.
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
    max_tokens: int = 4000,
    device: str = "cpu",
    progress: Callable[[int], object] = lambda done: None,
) -> Tensor:
    """Return a vector for each sentence, ``[sentences, d]``, on the CPU.

    The model is in evaluation mode and on the device; no sentence is longer than it takes.
    ``layer`` is 1 for the lowest, 0 for the embeddings with positions, or LAST.  ``end_symbol``
    says whether the mean includes it.  Apart from rounding, vectors do not depend on the batches.
    ``progress`` is called with the number of sentences done since the last call.
    """

    def compute(sample: dict) -> Sequence[Tensor]:
        states = encode(model, sample["net_input"])
        return mean_states(states.layer(layer), states.padding, end_symbol=end_symbol).cpu()

    rows = in_batches(sentences, compute, max_tokens=max_tokens, device=device, progress=progress)
    vectors = torch.stack(list(rows))
    broken = (~vectors.isfinite().all(1)).nonzero().flatten().tolist()
    if broken:
        raise UserError(
            f"the encoder's states of {len(broken):,} sentences are not finite, first of sentence "
            f"{broken[0] + 1}: the model has diverged, or half precision is too narrow for it"
        )
    return vectors
