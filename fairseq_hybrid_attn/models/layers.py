"""Read a choice of encoder layers, for the models that change only some of them."""

from __future__ import annotations

import re

from ..errors import Faults


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
