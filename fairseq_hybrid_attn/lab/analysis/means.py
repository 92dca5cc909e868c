"""Means of numbers that come sentence by sentence, with their intervals."""

from __future__ import annotations

import math
from array import array

import numpy as np

from ..scores.statistics import combined


class RunningMean:
    """Mean and deviation of numbers, and the interval of the mean over sentences."""

    def __init__(self):
        # Of each sentence: how many numbers, their sum, and the sum of their squared deviations.
        self._sentences = array("d")
        self.count, self.total = 0, 0.0

    def add(self, values: np.ndarray) -> None:
        """Add the numbers of a sentence."""
        values = np.asarray(values, np.float64)
        if values.size:
            self.add_sum(float(values.sum()), values.size, float(values.var() * values.size))

    def add_sum(self, total: float, count: int, spread: float = math.nan) -> None:
        """Add a sentence with ``count`` numbers by their sum; then there is no deviation."""
        self._sentences.extend((count, total, spread))
        self.count += count
        self.total += total

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    @property
    def deviation(self) -> float | None:
        if not self.count:
            return None
        counts, sums, spreads = np.array(self._sentences).reshape(-1, 3).T
        # The mean of squares minus the square of the mean would lose half of the digits.
        between = counts * (sums / counts - self.mean) ** 2
        return math.sqrt((spreads + between).sum() / self.count)

    @property
    def interval(self) -> float | None:
        """Half the 95 % interval of the mean over sentences; None for fewer than two.

        Numbers of a sentence depend on each other, so that sentences are what varies: the variance
        is that of a ratio of two sums over them, by the delta method.
        """
        counts, sums, _ = np.array(self._sentences).reshape(-1, 3).T
        sentences = len(counts)
        if sentences < 2:
            return None
        mean = self.total / self.count
        of_mean = (sums - mean * counts).var(ddof=1) * sentences / self.count**2
        return combined({1: mean}, float(of_mean), sentences).half
