"""Flags that count only where another flag has a certain value.

Where the user types one beside another value, it is refused.  Saved and inherited settings may hold
such flags: a row of a table changes one setting of many.
"""

from __future__ import annotations

from collections.abc import Mapping

#: From a flag to the other one, and the value, or word of its list, that this must have.
ONLY_WITH = {
    "gate-input": ("hybrid-fusion", "gate"),
    "gaussian-window": ("localness", "local-h"),
    "local-window": ("head-patterns", "local"),
    "squeeze-ratio": ("branch-fusion", "gated-sum"),
}


def missing_for(flag: str, flags: Mapping[str, object]) -> str | None:
    """Return what a flag would need to have an effect beside ``flags``; None: it has one."""
    other, needed = ONLY_WITH.get(flag, ("", ""))
    given = flags.get(other)
    if given is None or needed in (word.strip() for word in str(given).split(",")):
        return None
    return f"--{other} {needed}"
