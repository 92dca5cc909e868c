"""The models learn what they should, from a new random seed at each run.

The task is to write a sequence backwards.  An encoder without positions and with global heads alone
sees a bag of words and cannot (test_models.py).  Mixed heads and hybrid branches see the order, as
the papers claim in their columns without positions.
"""

import secrets

import pytest
import torch
import torch.nn.functional as F
from fairseq.sequence_generator import SequenceGenerator
from models import EOS, PAD, TINY, build, pad

FIRST, SYMBOLS, LENGTHS, BATCH, STEPS = 4, 8, (2, 6), 96, 350
SIZE = TINY | {
    "encoder_embed_dim": 48,
    "encoder_ffn_embed_dim": 96,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "share_all_embeddings": True,
}
SLOW = pytest.mark.slow


def batch(size):
    """Sources padded on the left, as fairseq does, and targets padded on the right."""
    lengths = torch.randint(LENGTHS[0], LENGTHS[1] + 1, (size,)).tolist()
    words = [torch.randint(FIRST, FIRST + SYMBOLS, (n,)).tolist() for n in lengths]
    target = pad([[*x[::-1], EOS] for x in words], PAD, left=False)
    return pad([[*x, EOS] for x in words], PAD, left=True), target


def train(model):
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=STEPS)
    for _ in range(STEPS):
        source, target = batch(BATCH)
        previous = target.roll(1, dims=1)
        previous[previous == EOS] = PAD
        previous[:, 0] = EOS
        output = model(source, source.ne(PAD).sum(1), previous)[0]
        loss = F.cross_entropy(output.flatten(0, 1), target.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()


def exact_matches(model, size=200):
    """The share of sequences that beam search writes without a mistake."""
    model.eval()
    source, target = batch(size)
    generator = SequenceGenerator([model], model.decoder.dictionary, beam_size=4, max_len_b=10)
    sample = {"net_input": {"src_tokens": source, "src_lengths": source.ne(PAD).sum(1)}}
    found = [several[0]["tokens"].tolist() for several in generator.generate([model], sample)]
    wanted = [row[row.ne(PAD)].tolist() for row in target]
    return sum(f == w for f, w in zip(found, wanted, strict=True)) / size


@pytest.mark.parametrize(
    "arch, settings",
    [
        ("mma", {"no_encoder_positions": True}),
        pytest.param("hysan", {"no_encoder_positions": True}, marks=SLOW),
        pytest.param("hybrid_gate", {}, marks=SLOW),
        pytest.param("localness", {}, marks=SLOW),
        pytest.param("lstm_on_top", {"encoder_lstm_layers": 1}, marks=SLOW),
    ],
)
def test_learns_to_reverse(arch, settings):
    seed = secrets.randbelow(2**31)
    torch.manual_seed(seed)
    model = build(f"transformer_{arch}", symbols=SYMBOLS, **{**SIZE, **settings})
    train(model)
    accuracy = exact_matches(model)
    assert accuracy > 0.85, f"{arch} {settings} with seed {seed}: {accuracy:.0%}"
