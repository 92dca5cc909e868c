"""Flags that have no effect beside others.

Where the user types such a flag, it is refused.  Saved and inherited settings may hold it: a row of
a table changes one setting of many.
"""

from __future__ import annotations

from collections.abc import Mapping

#: From a flag to the one that it needs, and the value, or word of its list, that this must have;
#: "": any.
ONLY_WITH = {
    "gate-input": ("hybrid-fusion", "gate"),
    "gaussian-window": ("localness", "local-h"),
    "local-window": ("head-patterns", "local"),
    "new-weights": ("finetune-from-model", ""),
    "squeeze-ratio": ("branch-fusion", "gated-sum"),
}
#: From a flag to those that together leave nothing for it to do.
NOT_WITH: dict[str, list[tuple[str, ...]]] = {
    "encoder-learned-pos": [("relative-positions",)],
    "decoder-learned-pos": [("relative-positions",)],
    "relative-positions": [
        ("no-token-positional-embeddings",),
        ("no-encoder-positions", "no-decoder-positions"),
    ],
}


def no_effect(flag: str, flags: Mapping[str, object]) -> str | None:
    """Return why a flag has no effect beside ``flags``, as in "without --a b"; None: it has one."""
    other, needed = ONLY_WITH.get(flag, ("", ""))
    if other in flags:
        given = flags[other]
        words = [word.strip() for word in str(given).split(",")]
        if given is None if not needed else given is not None and needed not in words:
            return f"without --{other} {needed}".strip()
    for others in NOT_WITH.get(flag, []):
        if all(flags.get(name) for name in others):
            return f"beside --{' and --'.join(others)}"
    return None
