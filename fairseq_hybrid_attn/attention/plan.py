"""What an attention layer does; a model makes a plan for each of its layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from ..patterns import GLOBAL, Pattern
from .fusion import Fusion, Sum
from .problem import Branch


@dataclass(frozen=True)
class AttentionPlan:
    """The patterns, fusion, bias and relative positions of a self-attention.

    Attributes:
        branches: the patterns of each branch: one for all its heads, or one per head.
        fusion: builds the fusion from (d, h, number of branches).
        bias: builds a module from d that computes a score bias from the queries (see
            :class:`~.gaussian.GaussianBias`); None = no bias.
        relative_positions: "rotary" or "alibi" (see ``positions.py``); None = no positions.
    """

    branches: tuple[Branch, ...] = ((GLOBAL,),)
    fusion: Callable[[int, int, int], Fusion] = Sum
    bias: Callable[[int], nn.Module] | None = None
    relative_positions: str | None = None

    @classmethod
    def of_branches(
        cls, patterns: tuple[Pattern, ...], fusion: Callable[[int, int, int], Fusion]
    ) -> AttentionPlan:
        """Plan a branch for each pattern; a single branch gets no fusion."""
        return cls(
            branches=tuple((pattern,) for pattern in patterns),
            fusion=fusion if len(patterns) > 1 else Sum,
        )

    @classmethod
    def of_heads(cls, patterns: tuple[Pattern, ...], num_heads: int) -> AttentionPlan:
        """Plan one branch; each pattern gets an equal number of its h neighbouring heads."""
        share = num_heads // len(patterns)
        return cls(branches=(tuple(pattern for pattern in patterns for _ in range(share)),))
