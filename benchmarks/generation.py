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

from .common import (
    NULL,
    VANILLA,
    Settings,
    forced,
    interleaved,
    milliseconds,
    paths_taken,
    ratio,
)
from .models import SYSTEMS, build, dictionary, sentences

BEAM = 4

#: Lengths of source and hypotheses unless others are asked for.
LENGTHS = (25, 100)


def run(settings: Settings, lengths: tuple[int, ...] = LENGTHS) -> Iterator[dict]:
    """Time every system at every length.

    Yields:
        a result for each, see README.md.
    """
    for length in lengths:
        yield from _at_length(replace(settings, length=length))


def _at_length(settings: Settings) -> Iterator[dict]:
    for system in filter(settings.wants, SYSTEMS):
        yield from _system(system, dictionary(settings), settings)


def _system(system: str, words, settings: Settings) -> Iterator[dict]:
    calls = {name: _translate(None, name, words, settings) for name in (VANILLA, NULL)}
    taken: dict[str, list[str]] = {NULL: []}
    for path in settings.paths:
        call = _translate(system, path, words, settings)
        paths = paths_taken(call)
        if paths not in taken.values():  # a forced path that is able nowhere
            calls[path], taken[path] = call, paths
    seconds = interleaved(calls, settings)
    for candidate, paths in taken.items():
        yield {
            "benchmark": "generation",
            "case": system,
            "measure": "generation",
            "sentences": settings.sentences,
            "queries": settings.length,
            "candidate": candidate,
            "paths": paths,
            "ratio": ratio(seconds, candidate),
            "sentences_a_second": _speed(seconds[candidate], settings),
            "vanilla_sentences_a_second": _speed(seconds[VANILLA], settings),
            "vanilla_ms": milliseconds(seconds[VANILLA]),
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
