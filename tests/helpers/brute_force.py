"""Patterns, written again as conditions on i and j."""

from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, local, local_past

#: Each pattern, and the condition under which i attends to j.
KINDS = {
    "global": (GLOBAL, lambda i, j: True),
    "past": (PAST, lambda i, j: j <= i),
    "future": (FUTURE, lambda i, j: j >= i),
    **{f"local{k}": (local(k), lambda i, j, k=k: abs(i - j) <= k) for k in range(1, 12)},
    **{f"local_past{k}": (local_past(k), lambda i, j, k=k: i - k <= j <= i) for k in range(1, 12)},
}
