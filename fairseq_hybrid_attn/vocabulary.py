"""The words of the papers, and of users, for patterns, fusions and layers: what flags take."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from .attention.fusion import Concat, Fusion, GatedSum, HiddenGate, Sum
from .errors import IF_REGISTERED, Faults, UserError
from .patterns import FUTURE, GLOBAL, PAST, Pattern, local, local_past

#: From a word to its pattern.  A word that ends in ``K`` names a family: the user writes a whole
#: number in place of K, and the function gets that number.
Vocabulary = Mapping[str, Pattern | Callable[[int], Pattern]]

HYSAN_ENCODER: Vocabulary = {"global": GLOBAL, "fw": PAST, "bw": FUTURE, "lK": local}
HYSAN_DECODER: Vocabulary = {"fw": PAST, "lK": local_past}


def mma_vocabulary(width: int) -> Vocabulary:
    """Return MMA's words; ``width`` is w of the local pattern (Eq. 9)."""
    return {"global": GLOBAL, "local": local(width), "forward": FUTURE, "backward": PAST}


def mma_causal_vocabulary(width: int) -> Vocabulary:
    """Return those of MMA's words that a language model can use, under its causal mask."""
    return {"backward": PAST, "local": local_past(width)}


_PATTERNS: dict[str, dict[str, Pattern | Callable[[int], Pattern]]] = {"encoder": {}, "decoder": {}}


def register_pattern(side: str, word: str, pattern: Pattern | Callable[[int], Pattern]) -> None:
    """Add a word to all flags that take patterns of encoders, or of decoders.

    Args:
        side: ``encoder`` or ``decoder``.  The patterns of a decoder must not see the future.
        word: as in :data:`Vocabulary`.
        pattern: a pattern; for a word that ends in ``K``, a function of the number in place of K,
            such as the pattern's class.  It may refuse a number by a ValueError.

    Raises:
        UserError: if the word cannot be used, or is used already.
    """
    if side not in _PATTERNS:
        raise UserError(f"register_pattern: {side!r} is not a side; use {' or '.join(_PATTERNS)}")
    if not re.fullmatch(r"(?!K$)[^\W\d]([\w-]*[^\W\dK])?K?", word):
        raise UserError(
            f"register_pattern: {word!r} is not a word; use letters, with K at the end for a number"
        )
    for taken in (HYSAN_ENCODER, HYSAN_DECODER, mma_vocabulary(1), _PATTERNS[side]):
        if word in taken:
            raise UserError(f"register_pattern: {word!r} is a word for patterns already")
    if not callable(pattern) if word.endswith("K") else not isinstance(pattern, Pattern):
        kind = "a function of a number" if word.endswith("K") else "a pattern"
        raise UserError(f"register_pattern: {word!r} must be {kind}, not {pattern!r}")
    _PATTERNS[side][word] = pattern


def vocabulary_for(side: str, own: Vocabulary) -> Vocabulary:
    """Return a paper's own words together with those that are registered for a side."""
    return {**own, **_PATTERNS[side]}


def parse_patterns(
    flag: str, value: str, vocabulary: Vocabulary, faults: Faults
) -> tuple[Pattern, ...]:
    """Read a comma list of words, for instance ``"global,fw,bw,l5"``.

    Args:
        flag: the flag that the list comes from, for messages.
        faults: receives a message for every wrong word.

    Returns:
        the patterns in the order written, without the wrong ones.
    """
    written = [word.strip() for word in value.split(",")] if value.strip() else []
    choices = ", ".join(vocabulary)
    if not written:
        faults.add(flag, repr(value), f"the list is empty; give at least one of {choices}")
    patterns = []
    for word in written:
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
            use = f"use {choices}{number_hint}{IF_REGISTERED}"
            faults.add(flag, value, f"{word!r} is not a pattern here; {use}")
            continue
        if not isinstance(pattern, Pattern) or type(pattern).__hash__ is None:
            kind = type(pattern).__name__
            faults.add(flag, value, f"{kind} must be a Pattern that is a @dataclass(frozen=True)")
            continue
        patterns.append(pattern)
    return tuple(patterns)


def parse_width(flag: str, value: int, faults: Faults) -> int:
    """Read the width of a local pattern; 1 in place of a wrong one."""
    if value < 1:
        faults.add(flag, value, "use 1 or more")
    return max(value, 1)


#: From a word to its fusion, built from (d, h, number of branches).
Fusions = Mapping[str, Callable[..., Fusion]]

HYSAN_FUSIONS: Fusions = {"gated-sum": GatedSum, "sum": Sum, "concat": Concat}
HYBRID_GATE_FUSIONS: Fusions = {"gate": HiddenGate, "concat": Concat}
_FUSIONS: dict[str, Callable[[int, int, int], Fusion]] = {}


def register_fusion(word: str, fusion: Callable[[int, int, int], Fusion]) -> None:
    """Add a word to all flags that choose a fusion; ``fusion`` is its class.

    Raises:
        UserError: if the word is used already.
    """
    if word in {"local", *HYSAN_FUSIONS, *HYBRID_GATE_FUSIONS, *_FUSIONS}:
        raise UserError(f"register_fusion: {word!r} is a word for a fusion already")
    _FUSIONS[word] = fusion


def fusions_for(own: Fusions) -> Fusions:
    """Return a paper's own fusions together with those that are registered."""
    return {**own, **_FUSIONS}


def parse_layers(flag: str, value: str, layers: int, faults: Faults) -> set[int]:
    """Read ``all``, or a comma list of layers and ranges from 1, such as ``1,2`` or ``1-3``.

    Args:
        flag: the flag that the list comes from, for messages.
        layers: the number of layers there are.
        faults: receives what is wrong.

    Returns:
        the chosen layers, counted from 0.
    """
    if value.strip() == "all":
        return set(range(layers))
    chosen: set[int] = set()
    for part in value.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if not match:
            faults.add(flag, repr(value), "use all, or a comma list such as 1,2 or 1-3")
            continue
        first, last = int(match[1]), int(match[2] or match[1])
        if not 1 <= first <= last <= layers:
            faults.add(
                flag,
                value,
                f"{part.strip()} is not within the layers 1 to {layers} (--encoder-layers)",
            )
            continue
        chosen.update(range(first - 1, last))
    return chosen
