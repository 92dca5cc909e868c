"""Decoding step by step, with the hypotheses of a beam reordered, is decoding at once."""

import itertools

import pytest
import torch
from models import CONFIGURATIONS, build_tiny, pad

DECODER_WORDS = ("fw", "l1", "l2", "l5")
DECODER_BRANCHES = [
    ",".join(words)
    for size in range(1, len(DECODER_WORDS) + 1)
    for words in itertools.combinations(DECODER_WORDS, size)
]
FUSIONS = ("gated-sum", "sum", "concat")


def check_incremental(model, steps=9):
    """Extend random hypotheses, reordering them at each step as a beam search does, and
    compare each step's logits with those of the same prefixes computed at once."""
    generator = torch.Generator().manual_seed(1)
    padding = model.encoder.padding_idx
    sources = pad([[5, 6, 7, 8, 2], [9, 2], [4, 11, 2]], padding, left=True)
    beam = 4
    encoder_out = model.encoder(sources)
    order = torch.arange(3).repeat_interleave(beam)
    encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)
    state = {}
    prefixes = torch.full((3 * beam, 1), 2)
    for _ in range(steps):
        step = model.decoder(prefixes, encoder_out=encoder_out, incremental_state=state)[0]
        whole = model.decoder(prefixes, encoder_out=encoder_out)[0]
        torch.testing.assert_close(step[:, -1], whole[:, -1], rtol=0, atol=1e-10)
        # Within each sentence, hypotheses survive, multiply or die.
        new = torch.randint(beam, (3, beam), generator=generator)
        new = (new + beam * torch.arange(3).unsqueeze(1)).view(-1)
        words = torch.randint(4, 16, (3 * beam, 1), generator=generator)
        prefixes = torch.cat([prefixes[new], words], dim=1)
        model.decoder.reorder_incremental_state_scripting(state, new)


@pytest.mark.parametrize("branches", DECODER_BRANCHES)
@pytest.mark.parametrize("fusion", FUSIONS)
def test_every_legal_branch_set(branches, fusion):
    model = build_tiny("hysan-gated", decoder_branches=branches, branch_fusion=fusion).double()
    check_incremental(model)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_every_model(name, double_softmax):
    check_incremental(build_tiny(name).double())


def test_without_positions():
    check_incremental(build_tiny("hysan-gated", no_decoder_positions=True).double())


def test_with_other_heads_and_another_width_than_the_encoder():
    model = build_tiny("hysan-gated", decoder_embed_dim=24, decoder_attention_heads=2).double()
    assert model.decoder.layers[0].self_attn.num_heads == 2
    check_incremental(model)


def test_with_padding_at_the_start_of_some_prefixes():
    """Prefixes of different length, padded on the left, as a forced prefix may be.

    Without positions, which fairseq counts otherwise step by step than at once there.
    """
    model = build_tiny("hysan-gated", no_decoder_positions=True).double()
    padding = model.encoder.padding_idx
    encoder_out = model.encoder(torch.tensor([[5, 6, 2], [9, 4, 2]]))
    prefixes = torch.tensor([[2, 5, 6, 7, 8], [padding, padding, 2, 9, 10]])
    whole = model.decoder(prefixes, encoder_out=encoder_out)[0]
    state = {}
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
