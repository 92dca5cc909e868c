"""Attention patterns: which key positions a query position may attend to.

A pattern is a pure function of the offset ``j - i`` between a key position j and a query
position i.  Padding on the left, which shifts a sentence, therefore does not change it.
``True`` means *may attend*, here and everywhere in this package.

HySAN and MMA use *forward* and *backward* with opposite meanings.  This file says ``past`` and
``future`` instead; ``vocabulary.py`` has the words of a paper.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral

import torch
from torch import Tensor

from .errors import UserError


class Pattern(ABC):
    """A rule that allows or forbids a key for a query, given their offset.

    Patterns are immutable and hashable (frozen dataclasses), since masks are cached by pattern.
    """

    def __init_subclass__(cls) -> None:
        if "mask" in vars(cls):
            raise TypeError(f"{cls.__name__} defines mask(); define allows(), which masks follow")

    @abstractmethod
    def allows(self, offset: Tensor) -> Tensor:
        """Return which offsets may be attended to.

        Args:
            offset: integers ``j - i`` (key position minus query position), any shape.

        Returns:
            bool tensor of the same shape; True = query i may attend to key j.
        """

    def mask(self, queries: int, keys: int, *, device: torch.device | None = None) -> Tensor:
        """Return the pattern as a bool matrix ``[queries, keys]``, True = may attend.

        The queries are the *last* ``queries`` of the ``keys`` positions.  This covers both
        ordinary attention (as many queries as keys) and a step of incremental decoding.
        """
        i = torch.arange(keys - queries, keys, device=device).unsqueeze(1)
        j = torch.arange(keys, device=device).unsqueeze(0)
        allowed = self.allows(j - i)
        if allowed.dtype != torch.bool or allowed.shape != (queries, keys):
            found = f"{allowed.dtype} {list(allowed.shape)}"
            raise UserError(f"{self}: allows() returned {found}, not a bool for each offset")
        return allowed

    @property
    def mask_mod(self) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
        """From batch, head, query and key to whether the query may attend: for FlexAttention."""
        return lambda b, h, q_idx, kv_idx: self.allows(kv_idx - q_idx)


#: As far as any, and still a 64-bit number.
_FAR = 2**62


@dataclass(frozen=True)
class Band(Pattern):
    """Keys from ``behind`` positions before the query to ``ahead`` positions after it.

    ``None`` means no limit.  All patterns of the three mask papers are bands.
    """

    behind: int | None = None
    ahead: int | None = None

    def allows(self, offset: Tensor) -> Tensor:
        """-behind <= j - i <= ahead; shapes as in :meth:`Pattern.allows`."""
        allowed = torch.ones_like(offset, dtype=torch.bool)
        if self.behind is not None:
            allowed = allowed & (offset >= -min(self.behind, _FAR))
        if self.ahead is not None:
            allowed = allowed & (offset <= min(self.ahead, _FAR))
        return allowed


@dataclass(frozen=True)
class Causal(Pattern):
    """Another pattern, without the keys after the query."""

    pattern: Pattern

    def allows(self, offset: Tensor) -> Tensor:
        """Shapes as in :meth:`Pattern.allows`."""
        return self.pattern.allows(offset) & (offset <= 0)


def causal(pattern: Pattern) -> Pattern:
    """Return a pattern without the keys after the query: under the causal mask of a decoder."""
    if type(pattern) is not Band:  # a subclass may allow other offsets
        return Causal(pattern)
    return Band(pattern.behind, 0 if pattern.ahead is None else min(pattern.ahead, 0))


@lru_cache(maxsize=256)
def nearest_later_key(pattern: Pattern) -> int | None:
    """Return how far ahead a query sees at least, if it sees any later key; None = causal.

    Other patterns than bands are asked, for up to 2^20 positions.
    """
    if type(pattern) is Band:
        nearest = max(1, -pattern.behind) if pattern.behind is not None else 1
        return nearest if pattern.ahead is None or nearest <= pattern.ahead else None
    cpu = torch.device("cpu")
    seen = [pattern.allows(torch.arange(1, 2**20, device=cpu)).nonzero().flatten() + 1]
    # Small matrices as well, for rules that do not judge each offset by itself.
    for n in range(2, 33):
        i, j = pattern.mask(n, n, device=cpu).triu(1).nonzero(as_tuple=True)
        seen.append(j - i)
    offsets = torch.cat(seen)
    return int(offsets.min()) if len(offsets) else None


#: Every position (HySAN Eq. 4; MMA Eq. 8).
GLOBAL = Band()
#: The query's own position and those before it (HySAN Eq. 9, M_fw; MMA Eq. 11, M^B).
PAST = Band(ahead=0)
#: The query's own position and those after it (HySAN Eq. 9, M_bw; MMA Eq. 10, M^F).
FUTURE = Band(behind=0)


def local(width: int) -> Band:
    """At most ``width`` positions to each side (HySAN Eq. 11, M_e; MMA Eq. 9;
    hybrid gate Eq. 3, where ``width`` is m)."""
    return Band(behind=_checked(width), ahead=width)


def local_past(width: int) -> Band:
    """The query's own position and ``width`` before it: a local pattern under the causal
    mask of a decoder (HySAN Eq. 11, M_d)."""
    return Band(behind=_checked(width), ahead=0)


def _checked(width: int) -> int:
    if not isinstance(width, Integral) or width < 0:
        raise UserError(f"a local pattern of width {width}: use a whole number, 0 or more")
    return width
