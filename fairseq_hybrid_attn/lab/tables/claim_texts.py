"""Claims in print: as a grid, or a sentence each."""

from __future__ import annotations

from tabulate import tabulate

from ..scoring.combining import Combined
from ..scoring.significance import SAMPLES
from .comparison import Verdict
from .grids import STALE, signed

HOW_JUDGED = (
    f"Differences of BLEU; in brackets the 95 % interval by resampling the test set {SAMPLES:,} "
    "times, the same sentences for all systems. Held: all of it is above zero, and every seed; did "
    "not hold: both below. The interval knows nothing of how much trainings with other seeds would "
    "differ, nor of how many claims there are."
)


def as_grid(verdicts: tuple[Verdict, ...]) -> list[str]:
    """What became of the paper's claims."""
    rows = [
        [
            one.claim,
            signed(one.paper),
            _with_interval(one.ours) if one.ours else "",
            _by_seed(one),
            one.verdict + (STALE if one.stale else ""),
        ]
        for one in verdicts
    ]
    headers = ["claim", "paper", "ours (95 %)", "by seed", ""]
    return [tabulate(rows, headers, tablefmt="simple", disable_numparse=True)]


def as_sentences(verdicts: tuple[Verdict, ...]) -> list[str]:
    """The same, a sentence each."""
    sentences = []
    for one in verdicts:
        stale = f"{STALE} (a run is not up to date)" if one.stale else ""
        seeds = " (one seed)" if len(one.by_seed) == 1 else ""
        sentence = f"- **{one.verdict[0].upper()}{one.verdict[1:]}**{seeds}{stale}: {one.claim}"
        told = [
            *([f"ours {_with_interval(one.ours)}, {_by_seed(one)}"] if one.ours else []),
            *([f"paper {signed(one.paper)}{_outside(one)}"] if one.paper is not None else []),
        ]
        sentences.append(f"{sentence}: {'; '.join(told)}." if told else f"{sentence}.")
    return ["\n".join(sentences)]


def _by_seed(one: Verdict) -> str:
    """The sum of each seed, and the seeds that have none."""
    told = [f"seed {seed}: {value:+.2f}" for seed, value in one.by_seed.items()]
    if one.lacking and told:
        told.append(f"not all runs with seed {', '.join(map(str, one.lacking))}")
    return ", ".join(told)


def _outside(one: Verdict) -> str:
    """Where the paper's sum is, if it is not within our interval."""
    if one.ours is None or one.ours.low <= one.paper <= one.ours.high:
        return ""
    return f" ({'above' if one.paper > one.ours.high else 'below'} our interval)"


def _with_interval(sum_of_ours: Combined) -> str:
    ours = sum_of_ours
    return f"{ours.value:+.2f} ({ours.low:+.2f} to {ours.high:+.2f})"
