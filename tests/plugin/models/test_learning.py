"""The models learn what they should, from a new random seed at each run.

The task is to write a sequence backwards.  An encoder without positions and with global
heads alone sees a bag of words and cannot; mixed heads and hybrid branches see the order,
which is the claim of the papers' columns without positions.
"""

import secrets

import pytest
import torch
import torch.nn.functional as F
from fairseq.sequence_generator import SequenceGenerator
from models import build

PAD, EOS, FIRST = 1, 2, 4
SYMBOLS, LENGTHS, BATCH, STEPS = 8, (2, 6), 96, 350
SIZE = {
    "encoder_embed_dim": 48,
    "encoder_ffn_embed_dim": 96,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "dropout": 0.0,
    "share_all_embeddings": True,
    "max_source_positions": 64,
    "max_target_positions": 64,
}

LEARNERS = {
    "mma": ("transformer_mma", {}),
    "mma-nopos": ("transformer_mma", {"no_encoder_positions": True}),
    "hysan-nopos": ("transformer_hysan", {"no_encoder_positions": True}),
    "gate": ("transformer_hybrid_gate", {}),
    "local-s": ("transformer_localness", {}),
    "lstm-on-top": (
        "transformer_lstm_on_top",
        {"encoder_lstm_layers": 1, "decoder_lstm_layers": 1},
    ),
}
BAG_OF_WORDS = ("transformer_mma", {"no_encoder_positions": True, "head_patterns": "global"})


def batch(size):
    """Sources padded on the left, as fairseq does, and targets padded on the right."""
    longest = LENGTHS[1] + 1
    source = torch.full((size, longest), PAD)
    target = torch.full((size, longest), PAD)
    for row in range(size):
        n = int(torch.randint(LENGTHS[0], LENGTHS[1] + 1, ()))
        words = torch.randint(FIRST, FIRST + SYMBOLS, (n,))
        end = torch.tensor([EOS])
        source[row, longest - n - 1 :] = torch.cat([words, end])
        target[row, : n + 1] = torch.cat([words.flip(0), end])
    return source, target


def train(model):
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=STEPS)
    for _ in range(STEPS):
        source, target = batch(BATCH)
        previous = target.roll(1, dims=1)
        previous[:, 0] = EOS
        previous[previous == EOS] = PAD
        previous[:, 0] = EOS
        logits = model(source, source.ne(PAD).sum(1), previous)[0]
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()


def exact_matches(model, size=200):
    """Share of sequences that beam search writes without a mistake."""
    model.eval()
    source, target = batch(size)
    generator = SequenceGenerator([model], model.decoder.dictionary, beam_size=4, max_len_b=10)
    sample = {"net_input": {"src_tokens": source, "src_lengths": source.ne(PAD).sum(1)}}
    found = generator.generate([model], sample)
    hits = [
        hypotheses[0]["tokens"].tolist() == row[row.ne(PAD)].tolist()
        for hypotheses, row in zip(found, target, strict=True)
    ]
    return sum(hits) / size


def learn(arch, settings):
    seed = secrets.randbelow(2**31)
    torch.manual_seed(seed)
    model = build(arch, symbols=SYMBOLS, **{**SIZE, **settings})
    train(model)
    return exact_matches(model), seed


@pytest.mark.parametrize("name", LEARNERS)
def test_learns_to_reverse(name):
    accuracy, seed = learn(*LEARNERS[name])
    assert accuracy > 0.85, f"{name} with seed {seed}: {accuracy:.0%}"


def test_a_bag_of_words_cannot_be_reversed():
    accuracy, seed = learn(*BAG_OF_WORDS)
    assert accuracy < 0.5, f"seed {seed}: {accuracy:.0%}"
