"""A whole training step of each system against the same of fairseq's stock transformer.

Forward with dropout 0.1, label-smoothed cross entropy as fairseq computes it, backward, and
a step of Adam.  In half precision the parameters themselves are halved, for all alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss

from .common import Settings, forced
from .models import build, sentences
from .systems import timed


def run(settings: Settings) -> Iterator[dict]:
    """Time every system, each in rounds of its own.

    Yields:
        a result for each system and path, see README.md.
    """
    for result, _, _ in timed("step", "training step", _step, settings):
        yield result


def _step(system: str | None, path: str, words, settings: Settings) -> Callable[[], None]:
    model = build(system, words, settings).train()
    optimizer = torch.optim.Adam(
        model.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=settings.device == "cuda"
    )
    source = sentences(words, settings, seed=1)
    lengths = source.ne(words.pad()).sum(dim=1)
    target = sentences(words, settings, seed=2).flip(1)  # targets are padded on the right
    previous = torch.cat([torch.full_like(target[:, :1], words.eos()), target[:, :-1]], dim=1)

    def step() -> None:
        with forced("chosen" if system is None else path):
            logits = model(source, lengths, previous)
            log_probabilities = model.get_normalized_probs(logits, log_probs=True)
            loss, _ = label_smoothed_nll_loss(
                log_probabilities.view(-1, len(words)),
                target.reshape(-1),
                0.1,
                ignore_index=words.pad(),
            )
            (loss / target.numel()).backward()
            optimizer.step()
            optimizer.zero_grad()

    return step
