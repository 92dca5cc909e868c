"""Running means and deviations of numbers that come sentence by sentence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class RunningMean:
    """Mean and deviation of numbers added so far."""

    count: int = 0
    total: float = 0.0
    spread: float = 0.0  # sum of the squares of their differences from their mean

    def add(self, values: np.ndarray) -> None:
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
        self.count += values.size
        self.total += float(values.sum())

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    @property
    def deviation(self) -> float | None:
        return float(np.sqrt(self.spread / self.count)) if self.count else None
