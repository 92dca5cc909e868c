"""What an attention layer is to do, said once and handed down from a model to its layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from ..patterns import GLOBAL, Pattern
from .fusion import Fusion, Sum
from .problem import Branch


@dataclass(frozen=True)
class AttentionPlan:
    """
    Attributes:
        branches: the patterns of each branch: one for all its heads, or one per head.
        fusion: builds the fusion from (d, h, number of branches).
        bias: builds a module from d that makes a score bias out of the queries (see
            :class:`~.gaussian.GaussianBias`); None = no bias.
    """

    branches: tuple[Branch, ...] = ((GLOBAL,),)
    fusion: Callable[[int, int, int], Fusion] = Sum
    bias: Callable[[int], nn.Module] | None = None

    @classmethod
    def of_branches(
        cls, patterns: tuple[Pattern, ...], fusion: Callable[[int, int, int], Fusion]
    ) -> AttentionPlan:
        """A branch for each pattern; a single branch needs no fusion and gets none."""
        return cls(
            branches=tuple((pattern,) for pattern in patterns),
            fusion=fusion if len(patterns) > 1 else Sum,
        )

    @classmethod
    def of_heads(cls, patterns: tuple[Pattern, ...], num_heads: int) -> AttentionPlan:
        """One branch whose heads share out the patterns, neighbours alike.

        Args:
            patterns: as many as divide ``num_heads``.
            num_heads: h.
        """
        share = num_heads // len(patterns)
        return cls(branches=(tuple(pattern for pattern in patterns for _ in range(share)),))
