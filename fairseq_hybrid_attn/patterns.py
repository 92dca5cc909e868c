"""Attention patterns: which key positions a query position may attend to.

A pattern is a pure function of the offset ``j - i`` between a key position j and a query
position i.  Padding on the left, which shifts a sentence, therefore does not change it.
``True`` means *may attend*, here and everywhere in this package.

HySAN and MMA use *forward* and *backward* with opposite meanings.  This file says ``past`` and
``future`` instead.  Only the vocabularies at its end translate the words of a paper.  Your own
patterns get their words by :func:`register_pattern`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from .errors import IF_REGISTERED, Faults, UserError


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


#: Longer than any sentence, and still a 64-bit number.
_FARTHEST = 2**62


@dataclass(frozen=True)
class Band(Pattern):
    """Keys from ``behind`` positions before the query to ``ahead`` positions after it.

    ``None`` means no limit.  All patterns of the three mask papers are bands.
    """

    behind: int | None = None
    ahead: int | None = None

    def __init_subclass__(cls) -> None:
        # causal() reads the two numbers of a band.
        raise TypeError(f"{cls.__name__}: subclass Pattern; a Band is its two numbers")

    def allows(self, offset: Tensor) -> Tensor:
        """-behind <= j - i <= ahead; shapes as in :meth:`Pattern.allows`."""
        allowed = torch.ones_like(offset, dtype=torch.bool)
        if self.behind is not None:
            allowed = allowed & (offset >= -_within(self.behind))
        if self.ahead is not None:
            allowed = allowed & (offset <= _within(self.ahead))
        return allowed


def _within(bound: int) -> int:
    return max(-_FARTHEST, min(bound, _FARTHEST))


@dataclass(frozen=True)
class Causal(Pattern):
    """Another pattern, without the keys after the query."""

    pattern: Pattern

    def allows(self, offset: Tensor) -> Tensor:
        """Shapes as in :meth:`Pattern.allows`."""
        return self.pattern.allows(offset) & (offset <= 0)


def causal(pattern: Pattern) -> Pattern:
    """Return a pattern without the keys after the query: under the causal mask of a decoder."""
    if not isinstance(pattern, Band):
        return Causal(pattern)
    return Band(pattern.behind, 0 if pattern.ahead is None else min(pattern.ahead, 0))


#: No text has as many positions.
_LONGEST = 2**20


@lru_cache(maxsize=256)
def nearest_later_key(pattern: Pattern) -> int | None:
    """Return how far ahead a query sees at least, if it sees any later key; None = causal."""
    cpu = torch.device("cpu")
    seen = [pattern.allows(torch.arange(1, _LONGEST, device=cpu)).nonzero().flatten() + 1]
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
    return Band(behind=width, ahead=width)


def local_past(width: int) -> Band:
    """The query's own position and ``width`` before it: a local pattern under the causal
    mask of a decoder (HySAN Eq. 11, M_d)."""
    return Band(behind=width, ahead=0)


#: From a word of a paper to its pattern.  A word that ends in ``K`` names a family: the user
#: writes a whole number in place of K, and the function gets that number.
Vocabulary = Mapping[str, Pattern | Callable[[int], Pattern]]

HYSAN_ENCODER: Vocabulary = {"global": GLOBAL, "fw": PAST, "bw": FUTURE, "lK": local}
HYSAN_DECODER: Vocabulary = {"fw": PAST, "lK": local_past}


def mma_vocabulary(width: int) -> Vocabulary:
    """Return MMA's words; ``width`` is w of the local pattern (Eq. 9)."""
    return {"global": GLOBAL, "local": local(width), "forward": FUTURE, "backward": PAST}


def mma_causal_vocabulary(width: int) -> Vocabulary:
    """Return those of MMA's words that a language model can use, under its causal mask."""
    return {"backward": PAST, "local": local_past(width)}


_REGISTERED: dict[str, dict[str, Pattern | Callable[[int], Pattern]]] = {
    "encoder": {},
    "decoder": {},
}


def register_pattern(side: str, word: str, pattern: Pattern | Callable[[int], Pattern]) -> None:
    """Add a word to all flags that take patterns of encoders, or of decoders.

    Args:
        side: ``encoder`` or ``decoder``.  The patterns of a decoder must not see the future.
        word: as in a :data:`Vocabulary`.
        pattern: a pattern; for a word that ends in ``K``, a function of the number in place of K,
            such as the pattern's class.  It may refuse a number by a ValueError.

    Raises:
        UserError: if the word cannot be used, or is used already.
    """
    if side not in _REGISTERED:
        raise UserError(f"register_pattern: {side!r} is not a side; use {' or '.join(_REGISTERED)}")
    if not re.fullmatch(r"(?!K$)[^\W\d]([\w-]*[^\W\dK])?K?", word):
        raise UserError(
            f"register_pattern: {word!r} is not a word; use letters, with K at the end for a number"
        )
    for taken in (HYSAN_ENCODER, HYSAN_DECODER, mma_vocabulary(1), _REGISTERED[side]):
        if word in taken:
            raise UserError(f"register_pattern: {word!r} is a word for patterns already")
    if not callable(pattern) if word.endswith("K") else not isinstance(pattern, Pattern):
        kind = "a function of a number" if word.endswith("K") else "a pattern"
        raise UserError(f"register_pattern: {word!r} must be {kind}, not {pattern!r}")
    _REGISTERED[side][word] = pattern


def words_for(side: str, own: Vocabulary) -> Vocabulary:
    """Return a paper's own words together with those that are registered for a side."""
    return {**own, **_REGISTERED[side]}


def parse_patterns(
    flag: str,
    value: str,
    vocabulary: Vocabulary,
    faults: Faults,
    *,
    decoder: bool = False,
) -> tuple[Pattern, ...]:
    """Read a comma list of a paper's words, for instance ``"global,fw,bw,l5"``.

    Args:
        flag: the flag that the list comes from, for messages.
        faults: receives a message for every wrong word.
        decoder: refuse words whose pattern sees a later key.

    Returns:
        the patterns in the order written, without the wrong ones.
    """
    words = [word.strip() for word in value.split(",")] if value.strip() else []
    choices = ", ".join(vocabulary)
    if not words:
        faults.add(flag, repr(value), f"the list is empty; give at least one of {choices}")
    patterns = []
    for word in words:
        family, number = re.fullmatch(r"(.*?)(\d*)", word, re.DOTALL).groups()  # type: ignore[union-attr]
        if word in vocabulary and not word.endswith("K"):
            pattern = vocabulary[word]
        elif number and f"{family}K" in vocabulary:
            if int(number) < 1:
                faults.add(flag, value, f"{word!r} has width {number}; use 1 or more")
                continue
            try:
                pattern = vocabulary[f"{family}K"](int(number))  # type: ignore[operator]
            except ValueError as error:
                faults.add(flag, value, f"{word!r}: {error}")
                continue
        else:
            number_hint = " (K a whole number)" if "K" in choices else ""
            hint = "; a decoder must not see the future" if decoder else ""
            use = f"use {choices}{number_hint}{hint}{IF_REGISTERED}"
            faults.add(flag, value, f"{word!r} is not a pattern here; {use}")
            continue
        if not isinstance(pattern, Pattern) or type(pattern).__hash__ is None:
            kind = type(pattern).__name__
            faults.add(flag, value, f"{kind} must be a Pattern that is a @dataclass(frozen=True)")
            continue
        if decoder and (ahead := nearest_later_key(pattern)):
            faults.add(
                flag, value, f"{word!r} sees {ahead} ahead of a position; a decoder must not"
            )
        patterns.append(pattern)
    return tuple(patterns)
