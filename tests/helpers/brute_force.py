"""Attention by double loops over positions, in plain Python floats.

The package is not used: what a pattern means is spelled out again as a condition on i and j.
"""

from __future__ import annotations

import math

from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, local, local_past

#: Each pattern, and the condition under which i attends to j.
KINDS = {
    "global": (GLOBAL, lambda i, j: True),
    "past": (PAST, lambda i, j: j <= i),
    "future": (FUTURE, lambda i, j: j >= i),
    **{f"local{k}": (local(k), lambda i, j, k=k: abs(i - j) <= k) for k in range(1, 12)},
    **{f"local_past{k}": (local_past(k), lambda i, j, k=k: i - k <= j <= i) for k in range(1, 12)},
}


def attention_head(q, k, v, bias, condition, real):
    """One head of one sentence: outputs (a vector for each i) and weights (a row for each i).

    ``q``, ``k`` and ``v`` are lists of vectors, q scaled already; ``bias`` is a list for each i;
    ``real`` says of each position whether it is a token and not padding.
    """
    outputs, weights = [], []
    for i in range(len(q)):
        scores = {
            j: sum(a * b for a, b in zip(q[i], k[j], strict=True)) + bias[i][j]
            for j in range(len(k))
            if real[j] and condition(i, j)
        }
        top = max(scores.values(), default=0.0)
        total = sum(math.exp(score - top) for score in scores.values())
        row = [math.exp(scores[j] - top) / total if j in scores else 0.0 for j in range(len(k))]
        weights.append(row)
        outputs.append([sum(row[j] * v[j][c] for j in range(len(k))) for c in range(len(v[0]))])
    return outputs, weights
