"""Probing: what a classifier can tell about a sentence from the states of a frozen encoder."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import UserError

#: The sentences of task files have the tokens of the training text.
AS_TRAINED = "as-trained"
#: They are in the model's subwords.
SUBWORDS = "subwords"


@dataclass(frozen=True)
class ProbeSettings:
    """How classifiers are trained; all combinations of several values are tried.

    ``passes`` is the number of passes over the training set between two validations.
    """

    hidden: tuple[int, ...] = (50, 100, 200)  # units; 0: no hidden layer
    dropout: tuple[float, ...] = (0.0, 0.1, 0.2)
    l2: tuple[float, ...] = (1e-5, 1e-4, 1e-3, 1e-2)
    batch_size: int = 64
    tenacity: int = 5
    passes: int = 4
    max_passes: int = 200

    def __post_init__(self):
        if min(self.hidden) < 0:
            raise UserError("--hidden: give numbers from 0 (no hidden layer)")
        if not all(0 <= rate < 1 for rate in self.dropout):
            raise UserError("--dropout: give rates from 0 to below 1")

    def candidates(self) -> list[tuple[int, float, float]]:
        """Hidden units, dropout and L2 of all candidates; only hidden units are dropped."""
        return [
            (hidden, dropout, l2)
            for hidden in self.hidden
            for dropout in (self.dropout if hidden else (0.0,))
            for l2 in self.l2
        ]
