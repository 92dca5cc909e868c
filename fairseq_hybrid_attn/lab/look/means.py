"""Running means of numbers that come sentence by sentence, with their intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student


@dataclass
class MeanOfSums:
    """Mean of numbers of which each sentence's sum is added, and its interval over sentences."""

    count: int = 0
    total: float = 0.0
    # For the interval, of each sentence's sum s and count c: the first mean, which is taken off
    # before squares lose what is smaller by half of the digits, and sums of s s, s c and c c.
    sentences: int = 0
    first: float = 0.0
    squares: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def add_sum(self, total: float, count: int) -> None:
        """Add a sentence with ``count`` numbers."""
        self.first = self.first if self.sentences else total / count
        off = total - self.first * count
        new = (off * off, off * count, count * count)
        self.squares = tuple(a + b for a, b in zip(self.squares, new, strict=True))
        self.sentences += 1
        self.count += count
        self.total += total

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    @property
    def interval(self) -> float | None:
        """Half the 95 % interval of the mean over sentences; None for fewer than two.

        Numbers of a sentence depend on each other, so that sentences are what varies: Student's t
        times the standard error of a ratio of two sums over them, by the delta method.
        """
        if self.sentences < 2:
            return None
        mean, (ss, sc, cc) = self.mean - self.first, self.squares
        left = max(ss - 2 * mean * sc + mean * mean * cc, 0.0)
        quantile = float(student.ppf(0.975, self.sentences - 1))
        return quantile * math.sqrt(left * self.sentences / (self.sentences - 1)) / self.count


@dataclass
class RunningMean(MeanOfSums):
    """The same of numbers that are added themselves, and so with their deviation."""

    spread: float = 0.0  # sum of the squares of their differences from their mean

    def add(self, values: np.ndarray) -> None:
        """Add the numbers of a sentence."""
        values = np.asarray(values, np.float64)
        if not values.size:
            return
        mean = float(values.mean())
        # Combines two groups (Chan, Golub & LeVeque 1983).  The mean of squares minus the square of
        # the mean would lose what is smaller than the mean by half of the digits.
        self.spread += float(((values - mean) ** 2).sum())
        if self.count:
            both = self.count + values.size
            self.spread += (mean - self.mean) ** 2 * self.count * values.size / both
        self.add_sum(float(values.sum()), values.size)

    @property
    def deviation(self) -> float | None:
        return float(np.sqrt(self.spread / self.count)) if self.count else None
