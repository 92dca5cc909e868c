"""Decoding step by step, with reordered hypotheses, gives what decoding at once gives."""

import itertools

import pytest
import torch
from models import CONFIGURATIONS, PAD, build_tiny, check_incremental


@pytest.mark.parametrize("fusion", ["gated-sum", "sum", "concat"])
def test_every_legal_branch_set(fusion):
    words = ("fw", "l1", "l2", "l5")
    for size in range(1, len(words) + 1):
        for branches in map(",".join, itertools.combinations(words, size)):
            model = build_tiny("hysan-gated", decoder_branches=branches, branch_fusion=fusion)
            check_incremental(model.double(), steps=7)


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
        step = model.decoder(
            prefixes[:, :length], encoder_out=encoder_out, incremental_state=state
        )[0]
        assert step.isfinite().all()
        for row, padded in ((0, 0), (1, 2)):
            if length > padded:
                torch.testing.assert_close(
                    step[row, -1], whole[row, length - 1], rtol=0, atol=1e-10
                )
