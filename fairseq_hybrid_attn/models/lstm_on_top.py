"""LSTM on top (Ma & Zhao 2020, section 3.2): recurrence above the last layer of a Transformer.

The output O of the last encoder or decoder layer goes through Eq. 16,

    Õ = PFN(LSTM(FFNN(O) + O)), here normalised,

and Õ replaces it.  The decoder's cross-attentions look at Õ of the source, and the output layer
at Õ of the target.  Everything below is fairseq's own Transformer, including the cross-attention
that alignments are read from.

docs/papers/alignment.md says how open points of the paper are read; the layer norm is one.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from fairseq import utils
from fairseq.incremental_decoding_utils import with_incremental_state
from fairseq.modules import FairseqDropout, LayerNorm
from torch import Tensor, nn

from ..errors import Faults
from .transformer import (
    PatternedDecoder,
    PatternedEncoder,
    PatternedTransformer,
    PatternedTransformerConfig,
    Plans,
    register,
    wrapped,
)


@dataclass
class LSTMOnTopConfig(PatternedTransformerConfig):
    """Settings of ``transformer_lstm_on_top``; base size by default."""

    encoder_lstm_layers: int = field(
        default=2,
        metadata={"help": "layers of the bidirectional LSTM on top of the encoder; 0: none"},
    )
    decoder_lstm_layers: int = field(
        default=2, metadata={"help": "layers of the LSTM on top of the decoder; 0: none"}
    )


@register("transformer_lstm_on_top", LSTMOnTopConfig)
class LSTMOnTop(PatternedTransformer):
    """Transformer with LSTMs on top of the encoder, the decoder or both."""

    @classmethod
    def plan(cls, cfg, faults: Faults) -> Plans:
        """Leave all layers to fairseq; check the LSTMs on top."""
        for side in ("encoder", "decoder"):
            layers = getattr(cfg, f"{side}_lstm_layers")
            if layers < 0:
                faults.add(f"--{side}-lstm-layers", layers, "use 1 or more, or 0 for no LSTM")
        if cfg.encoder_lstm_layers > 0 and cfg.encoder.embed_dim % 2:
            faults.add(
                "--encoder-embed-dim",
                cfg.encoder.embed_dim,
                "each direction of --encoder-lstm-layers takes half of it; use an even width",
            )
        for kind in ("scalar", "pq"):
            if (noise := getattr(cfg.quant_noise, kind)) > 0:
                said = "fairseq cannot quantise an LSTM; leave the flag out"
                faults.add(f"--quant-noise-{kind}", noise, said)
        return Plans()

    @classmethod
    def encoder_type(cls, cfg):
        return EncoderUnderLSTM if cfg.encoder_lstm_layers else super().encoder_type(cfg)

    @classmethod
    def decoder_type(cls, cfg):
        return DecoderUnderLSTM if cfg.decoder_lstm_layers else super().decoder_type(cfg)


class EncoderUnderLSTM(PatternedEncoder):
    """fairseq's encoder; its ``encoder_out`` is Õ."""

    def __init__(self, cfg, dictionary, embed_tokens, return_fc=False):
        super().__init__(cfg, dictionary, embed_tokens, return_fc)
        top = LSTMTop(
            cfg.encoder.embed_dim,
            cfg.encoder.ffn_embed_dim,
            cfg.encoder_lstm_layers,
            cfg,
            bidirectional=True,
        )
        self.top = wrapped(top, cfg)

    def forward(self, src_tokens, *args, **kwargs):
        """Return fairseq's output, with Õ for O."""
        out = super().forward(src_tokens, *args, **kwargs)
        states, padding = out["encoder_out"][0], out["encoder_padding_mask"][0]
        return {**out, "encoder_out": [self.top(states, padding)]}


class DecoderUnderLSTM(PatternedDecoder):
    """fairseq's decoder; its features are Õ."""

    def __init__(self, cfg, dictionary, embed_tokens, **kwargs):
        super().__init__(cfg, dictionary, embed_tokens, **kwargs)
        # If --decoder-output-dim differs, fairseq's features have that width.
        width = self.embed_dim if self.project_out_dim is None else self.output_embed_dim
        top = LSTMTop(
            width, cfg.decoder.ffn_embed_dim, cfg.decoder_lstm_layers, cfg, bidirectional=False
        )
        self.top = wrapped(top, cfg)

    def extract_features(
        self, prev_output_tokens, encoder_out=None, incremental_state=None, *args, **kwargs
    ):
        """Return fairseq's features, with Õ for O."""
        features, extra = super().extract_features(
            prev_output_tokens, encoder_out, incremental_state, *args, **kwargs
        )
        if incremental_state is not None:
            prev_output_tokens = prev_output_tokens[:, -1:]
        padding = prev_output_tokens.eq(self.padding_idx)
        features = self.top(features.transpose(0, 1), padding, incremental_state)
        return features.transpose(0, 1), extra


@with_incremental_state
class LSTMTop(nn.Module):
    """PFN(LSTM(FFNN(O) + O)), Eq. 16, and a layer norm.

    Args:
        width: of O and of the result.
        ffn_width: of the hidden layer of FFNN and PFN.
        layers: of the LSTM.
        cfg: the model's settings, for activation and dropout.
        bidirectional: whether the LSTM has two directions, each of half the width.
    """

    get_incremental_state: Any  # by fairseq's decorator
    set_incremental_state: Any

    def __init__(self, width: int, ffn_width: int, layers: int, cfg, *, bidirectional: bool):
        super().__init__()
        self.ffnn = FeedForward(width, ffn_width, cfg)
        self.lstm = nn.LSTM(
            width,
            width // 2 if bidirectional else width,
            layers,
            dropout=cfg.dropout if layers > 1 else 0.0,
            bidirectional=bidirectional,
        )
        self.pfn = FeedForward(width, ffn_width, cfg)
        self.layer_norm = LayerNorm(width, export=cfg.export)

    def forward(self, x, padding, incremental_state=None):
        """Compute Õ, ``[n, batch, width]``, for a whole sequence or its next position.

        The LSTM goes from word to word and skips padding, wherever it stands.

        Args:
            x: O, ``[n, batch, width]``; with ``incremental_state``, of the next position (n = 1).
            padding: True = padding, bool ``[batch, n]``.
            incremental_state: fairseq's cache, which holds the LSTM's state between the steps.
        """
        x = self.ffnn(x) + x
        # Under autocast, the LSTM computes in the precision of its weights.  torch's own casting
        # fails on a CPU, and the state must not change its type between the steps.
        with torch.autocast(x.device.type, enabled=False):
            x = x.to(self.lstm.weight_ih_l0.dtype)
            if incremental_state is None:
                x = self._sequence(x, padding)
            else:
                x = self._step(x, padding, incremental_state)
        return self.layer_norm(self.pfn(x))

    def _sequence(self, x, padding):
        # A sentence of padding alone keeps one position, since an LSTM needs one.
        lengths = padding.logical_not().sum(dim=1).clamp(min=1)
        words_first = padding.long().argsort(dim=1, stable=True).t().unsqueeze(2)
        states = unpacked_lstm(self.lstm, x.gather(0, words_first.expand_as(x)), lengths)
        return torch.zeros_like(states).scatter(0, words_first.expand_as(states), states)

    def _step(self, x, padding, incremental_state):
        saved = self.get_incremental_state(incremental_state, "lstm")
        # The cache has the batch first; an LSTM needs [layers, batch, width].
        before = saved and tuple(saved[k].transpose(0, 1).contiguous() for k in ("h", "c"))
        output, after = self.lstm(x, before)
        # Padding keeps the earlier state; without any, asking would make a GPU wait at each word.
        before = before or tuple(map(torch.zeros_like, after))
        skip = padding.view(1, -1, 1)
        after = tuple(map(partial(torch.where, skip), before, after))
        output = output.masked_fill(skip, 0)
        h, c = (state.transpose(0, 1) for state in after)
        self.set_incremental_state(incremental_state, "lstm", {"h": h, "c": c})
        return output

    def reorder_incremental_state(self, incremental_state, new_order):
        """Reorder the state as a beam search does; ``new_order``: an old row for each new row."""
        saved = self.get_incremental_state(incremental_state, "lstm")
        if saved is not None:
            saved = {name: state.index_select(0, new_order) for name, state in saved.items()}
            self.set_incremental_state(incremental_state, "lstm", saved)


def unpacked_lstm(lstm: nn.LSTM, x: Tensor, lengths: Tensor) -> Tensor:
    """Return the states of an LSTM, ``[n, batch, width]``, 0 after the end of a sentence.

    Packed sequences take about twice the time on a CPU, and a GPU waits for their lengths.

    Args:
        x: ``[n, batch, width]``, words first.
        lengths: ``[batch]``, of 1 or more.
    """
    position = torch.arange(len(x), device=x.device).unsqueeze(1)
    real = (position < lengths).unsqueeze(2)
    reversed_words = torch.where(real[..., 0], lengths - 1 - position, position).unsqueeze(2)
    weights = lstm.all_weights  # of each layer and, within it, each direction
    directions = 2 if lstm.bidirectional else 1
    for number in range(lstm.num_layers):
        if number and lstm.dropout:
            x = F.dropout(x, lstm.dropout, lstm.training)
        outputs = []
        for direction in range(directions):
            used = tuple(weights[number * directions + direction])
            given = x.gather(0, reversed_words.expand_as(x)) if direction else x
            start = x.new_zeros(1, x.size(1), lstm.hidden_size)
            states = torch.lstm(given, (start, start), used, True, 1, 0.0, True, False, False)[0]
            outputs.append(
                states.gather(0, reversed_words.expand_as(states)) if direction else states
            )
        x = torch.cat(outputs, dim=2)
    return x * real


class FeedForward(nn.Module):
    """A two-layer network for each position, as within the Transformer's layers."""

    def __init__(self, width: int, hidden: int, cfg):
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, width)
        self.activation = utils.get_activation_fn(cfg.activation_fn)
        # fairseq's layers accept the older name of the setting too.
        inner = cfg.activation_dropout or cfg.relu_dropout or 0.0
        self.activation_dropout_module = FairseqDropout(inner, type(self).__name__)
        self.dropout_module = FairseqDropout(cfg.dropout, type(self).__name__)

    def forward(self, x):
        """Map ``[..., width]`` to the same shape."""
        x = self.activation_dropout_module(self.activation(self.fc1(x)))
        return self.dropout_module(self.fc2(x))
