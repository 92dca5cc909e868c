"""What a user may have meant by a word that nothing knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean NAME?``, the nearest of what is known; "" if nothing is near."""
    near = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""
