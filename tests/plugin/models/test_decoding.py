"""Decoding step by step, with reordered hypotheses, gives what decoding at once gives."""

from itertools import chain, combinations, cycle

import pytest
import torch
from models import CONFIGURATIONS, PAD, build_tiny, check_incremental


def test_every_legal_branch_set():
    """With each fusion in turn."""
    words, fusions = ("fw", "l1", "l2", "l5"), cycle(("gated-sum", "sum", "concat"))
    for some in chain.from_iterable(combinations(words, size) for size in range(1, 5)):
        settings = {"decoder_branches": ",".join(some), "branch_fusion": next(fusions)}
        check_incremental(build_tiny("hysan-gated", **settings).double(), steps=7)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_every_model(name, double_softmax):
    check_incremental(build_tiny(name).double())


def test_other_widths_and_no_positions(double_softmax):
    for name in ("hysan-gated", "lstm-on-top"):
        check_incremental(build_tiny(name, no_decoder_positions=True).double())
        model = build_tiny(
            name, decoder_embed_dim=24, decoder_ffn_embed_dim=40, decoder_attention_heads=2
        )
        assert model.decoder.layers[0].self_attn.num_heads == 2
        check_incremental(model.double())


def test_with_padding_at_the_start_of_some_prefixes():
    """Prefixes of different lengths, padded on the left, as a forced prefix may be.

    Without positions, since fairseq counts these differently step by step there.
    """
    model = build_tiny("hysan-gated", no_decoder_positions=True).double()
    encoder_out = model.encoder(torch.tensor([[5, 6, 2], [9, 4, 2]]))
    prefixes = torch.tensor([[2, 5, 6, 7, 8], [PAD, PAD, 2, 9, 10]])
    whole, state = model.decoder(prefixes, encoder_out=encoder_out)[0], {}
    for length in range(1, 6):
        prefix = prefixes[:, :length]
        step = model.decoder(prefix, encoder_out=encoder_out, incremental_state=state)[0][:, -1]
        assert step.isfinite().all()
        for row in (0, 1) if length > 2 else (0,):
            torch.testing.assert_close(step[row], whole[row, length - 1], rtol=0, atol=1e-10)
