"""Translating with fairseq's beam search (beam 4), in sentences a second.

The models are untrained and every hypothesis has the same length, so that all systems take the
same number of steps.  What is a ratio here is time over time of the stock transformer, like
everywhere else: 1.05 is 5 % fewer sentences a second.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from fairseq.sequence_generator import SequenceGenerator

from .common import Settings, forced
from .models import build, sentences
from .systems import timed

BEAM = 4

#: Lengths of source and hypotheses unless others are asked for.
LENGTHS = (25, 100)


def run(settings: Settings, lengths: tuple[int, ...] = LENGTHS) -> Iterator[dict]:
    """Time every system at every length.

    Yields:
        a result for each, see README.md.
    """
    for length in lengths:
        at_length = replace(settings, length=length)
        for result, ours, theirs in timed("generation", "generation", _translate, at_length):
            yield {
                **result,
                "sentences_a_second": _speed(ours, settings),
                "vanilla_sentences_a_second": _speed(theirs, settings),
            }


def _speed(seconds: list[float], settings: Settings) -> float:
    return round(settings.sentences / statistics.median(seconds), 3)


def _translate(system: str | None, path: str, words, settings: Settings) -> Callable[[], object]:
    model = build(system, words, settings).eval()
    model.make_generation_fast_(beamable_mm_beam_size=BEAM, need_attn=False)
    generator = SequenceGenerator(
        [model],
        words,
        beam_size=BEAM,
        max_len_b=settings.length,
        min_len=settings.length,
    )
    source = sentences(words, settings, seed=1)
    lengths = source.ne(words.pad()).sum(dim=1)
    sample = {"net_input": {"src_tokens": source, "src_lengths": lengths}}

    def translate() -> object:
        with forced("chosen" if system is None else path), torch.no_grad():
            return generator.generate([model], sample)

    return translate
