"""Means and deviations of numbers that come sentence by sentence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class Tally:
    """Numbers, added up.

    Attributes:
        count: how many.
        total: their sum.
        squares: the sum of their squares.
    """

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, values: np.ndarray) -> None:
        """Add numbers, of any shape."""
        values = np.asarray(values, np.float64)
        self.count += values.size
        self.total += float(values.sum())
        self.squares += float((values**2).sum())

    @property
    def mean(self) -> float | None:
        """None of nothing."""
        return self.total / self.count if self.count else None

    @property
    def deviation(self) -> float | None:
        """The standard deviation, of these numbers as all there are; None of nothing."""
        if not self.count:
            return None
        return float(np.sqrt(max(self.squares / self.count - self.mean**2, 0.0)))
