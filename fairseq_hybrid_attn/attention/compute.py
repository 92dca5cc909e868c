"""The choice between the two ways of computing a problem."""

from __future__ import annotations

from .autograd import watched
from .problem import AttentionProblem, AttentionResult
from .reference import reference
from .sdpa import able, sdpa
from .short import short

#: From this number of keys on, ``sdpa`` is as fast on a CPU, and keeps no weights; with dropout, it
#: would keep them.
LONG = 512


def compute(problem: AttentionProblem) -> AttentionResult:
    """Solve ``problem`` by the faster way that can.

    Compilers and exporters cannot trace ``short``, whose gradients are written by hand.
    """
    if watched():  # without a look at lengths, which a compiler would take for a condition
        return sdpa(problem) if able(problem) else reference(problem)
    long = problem.k.size(2) >= LONG and not problem.dropout
    if able(problem) and (problem.q.is_cuda or long):
        return sdpa(problem)
    return short(problem) if problem.q.numel() else reference(problem)
