"""Timing whole systems against fairseq's stock transformer, each system in rounds of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .common import (
    NULL,
    VANILLA,
    Settings,
    interleaved,
    milliseconds,
    paths_taken,
    ratio,
)
from .models import SYSTEMS, dictionary

#: Makes what is timed, of a system (None = stock), a path, a dictionary and settings.
Make = Callable[..., Callable[[], object]]


def timed(
    benchmark: str, measure: str, make: Make, settings: Settings
) -> Iterator[tuple[dict, list[float], list[float]]]:
    """Time every system that is wanted, by every path.

    Yields:
        a result, see README.md; seconds of each of its rounds, and those of vanilla.
    """
    words = dictionary(settings)
    for system in filter(settings.wants, SYSTEMS):
        calls = {name: make(None, name, words, settings) for name in (VANILLA, NULL)}
        taken: dict[str, list[str]] = {NULL: []}
        for path in settings.paths:
            call = make(system, path, words, settings)
            paths = paths_taken(call)
            if paths not in taken.values():  # a forced path that is able nowhere
                calls[path], taken[path] = call, paths
        seconds = interleaved(calls, settings)
        for candidate, paths in taken.items():
            result = {
                "benchmark": benchmark,
                "case": system,
                "measure": measure,
                "sentences": settings.sentences,
                "queries": settings.length,
                "candidate": candidate,
                "paths": paths,
                "ratio": ratio(seconds, candidate),
                "vanilla_ms": milliseconds(seconds[VANILLA]),
            }
            yield result, seconds[candidate], seconds[VANILLA]
