"""Means over seeds, with intervals over seeds and sentences together.

A mean over n seeds varies by the variance of the seeds' scores over n, and by the variance of the
mean over draws of the sentences (see :mod:`.counts`).  Both are added, and Student's t has
Satterthwaite's degrees of freedom (1946): with two seeds that differ, few.  Of one seed there is
only the second.  Of scores whose sentences cannot be resampled there is only the first, for three
seeds or more.  A difference, or another sum of scores, is taken within each seed and each draw.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import fmean, variance

import numpy as np

from .counts import SAMPLES, Score, SentenceCounts

#: How intervals and p are computed, for readers.
HOW = (
    f"±, and in brackets: 95 % intervals over seeds (Student's t) and sentences (bootstrap, "
    f"{SAMPLES:,} draws) together; p: of the difference, two-sided. Neither is corrected for the "
    "number of comparisons. Differences are of the seeds that both have, taken before rounding."
)
#: By how many seeds, what they miss.
FEW_SEEDS = {
    1: "Of one seed, ± and p are over sentences alone: how much trainings differ is not in them.",
    2: "Of two seeds that differ much, intervals are too narrow.",
}


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds, with half of its 95 % interval.

    ``covers`` says what it is over: ``seeds and sentences``, or one of these.  ``half`` is None
    where nothing can be said.  ``freedom`` is that of Student's t, None where nothing varies.
    """

    value: float
    by_seed: Mapping[int, float]
    half: float | None = None
    freedom: float | None = None
    covers: str = ""

    @property
    def low(self) -> float:
        return self.value - (self.half or 0)

    @property
    def high(self) -> float:
        return self.value + (self.half or 0)

    @property
    def p(self) -> float | None:
        """The two-sided p that it is zero."""
        if self.half is None:
            return None
        if not self.freedom:  # the same translations
            return float(self.value == 0)
        student = _student()
        errors = abs(self.value) / self.half * student.ppf(0.975, self.freedom)
        return 2 * float(student.sf(errors, self.freedom))

    def text(self, digits: int = 2) -> str:
        """``34.46 ± 0.83``."""
        interval = "" if self.half is None else f" ± {self.half:.{digits}f}"
        return f"{self.value:.{digits}f}{interval}"

    def signed(self, digits: int = 2) -> str:
        """``+1.19 (+0.82 to +1.54)``."""
        ends = f" ({self.low:+.{digits}f} to {self.high:+.{digits}f})"
        return f"{self.value:+.{digits}f}" + ends * (self.half is not None)

    def as_dict(self, *, is_difference: bool = False) -> dict:
        return asdict(self) | ({"p": self.p} if is_difference else {})


def estimate(*terms: tuple[int, Mapping[int, Score]]) -> Estimate | None:
    """The mean over seeds of a sum of scores; each term has its sign, and its scores by seed.

    None if no seed has all of them.
    """
    seeds = sorted(set.intersection(*(set(scores) for _, scores in terms)))
    if not seeds:
        return None
    by_seed = {seed: sum(sign * scores[seed].value for sign, scores in terms) for seed in seeds}
    counted = [[scores[seed].counts for seed in seeds] for _, scores in terms]
    means = [_mean_drawn(counts) for counts in counted]
    signed = [sign * one for (sign, _), one in zip(terms, means, strict=True) if one is not None]
    if len(signed) < len(terms):
        return combined(by_seed, None)
    sentences = min(len(one.rows) for counts in counted for one in counts if one is not None)
    return combined(by_seed, float(np.var(np.sum(signed, axis=0), ddof=1)), sentences)


def combined(
    by_seed: Mapping[int, float], of_sentences: float | None, sentences: int = 2
) -> Estimate:
    """The mean over seeds; ``of_sentences``: its variance over draws, if they can be drawn."""
    value, count = fmean(by_seed.values()), len(by_seed)
    of_seeds = variance(by_seed.values()) / count if count > 1 else 0.0
    if of_sentences is None and count < 3:
        return Estimate(value, by_seed)
    covers = " and ".join(["seeds"] * (count > 1) + ["sentences"] * (of_sentences is not None))
    of_sentences = of_sentences or 0.0
    total = of_seeds + of_sentences
    if total == 0:
        return Estimate(value, by_seed, 0.0, None, covers)
    freedom = total**2 / (of_seeds**2 / max(1, count - 1) + of_sentences**2 / max(1, sentences - 1))
    half = float(_student().ppf(0.975, freedom)) * math.sqrt(total)
    return Estimate(value, by_seed, half, freedom, covers)


def _student():
    from scipy.stats import t  # here: no --help needs it, and it takes most of a second

    return t


def _mean_drawn(counts: list[SentenceCounts | None]) -> np.ndarray | None:
    """The mean over seeds for each draw, ``[SAMPLES]``; None if they cannot be drawn together."""
    drawn = [one.drawn for one in counts if one is not None and one.drawn is not None]
    origins = {one.origin for one in counts if one is not None}
    return np.mean(drawn, axis=0) if len(drawn) == len(counts) and len(origins) == 1 else None


def difference(ours: Mapping[int, Score], theirs: Mapping[int, Score]) -> Estimate | None:
    """Ours minus theirs; None if they are not of the same sentences, counted in the same way."""
    both = [scores[seed] for scores in (ours, theirs) for seed in ours.keys() & theirs.keys()]
    origins = {one.signature if one.counts is None else one.counts.origin for one in both}
    return estimate((1, ours), (-1, theirs)) if len(origins) == 1 else None


def p_value(p: float | None) -> str:
    return "" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"
