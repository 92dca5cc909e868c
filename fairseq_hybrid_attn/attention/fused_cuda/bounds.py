"""Patterns as numbers that a kernel can read."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from ...patterns import Band
from ..problem import Branch

#: Stands for no bound: longer than any sentence, but small enough to add positions to it in 32
#: bits.
OPEN = 2**29

#: The length of a head's header in the table of bounds, before the numbers of its branches.
HEADER = 4


@lru_cache(maxsize=256)
def bounds_table(
    branches: tuple[Branch, ...], heads: int, device: torch.device, shared: bool
) -> Tensor:
    """Return the patterns of all heads as a table ``[h, HEADER + 2 l]`` of 32-bit integers.

    Each head has the first and last offset of its zone, then whether any branch sees keys left of
    it, and right of it; then the first and last offset that each branch allows, ``-OPEN`` and
    ``OPEN`` if there is no bound.  Unless keys beside the zone are ``shared`` by branches, all that
    any branch sees is the zone.
    """
    rows = []
    for head in range(heads):
        pairs = [interval(branch[head % len(branch)]) for branch in branches]
        # Each bound divides the offsets into those before it and the others.
        cuts = [low for low, _ in pairs if low > -OPEN]
        cuts += [high + 1 for _, high in pairs if high < OPEN]
        # Without any bound everything is left of the zone, which is empty.
        first, last = (min(cuts), max(cuts) - 1) if cuts else (OPEN, OPEN - 1)
        left = any(low == -OPEN for low, _ in pairs)
        right = any(high == OPEN for _, high in pairs)
        if not shared:
            first, last = min(low for low, _ in pairs), max(high for _, high in pairs)
            left = right = False
        rows.append([first, last, int(left), int(right), *(x for pair in pairs for x in pair)])
    with torch.inference_mode(False):  # it is cached, and training may need it later
        return torch.tensor(rows, dtype=torch.int32, device=device)


def interval(pattern: Band) -> tuple[int, int]:
    """Return the first and last offset j - i that ``pattern`` allows."""
    low = -OPEN if pattern.behind is None else min(max(-pattern.behind, -OPEN), OPEN)
    high = OPEN if pattern.ahead is None else min(max(pattern.ahead, -OPEN), OPEN)
    return low, high
