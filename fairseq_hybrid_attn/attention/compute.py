"""The choice between the two ways of computing a problem."""

from __future__ import annotations

from .autograd import watched
from .problem import AttentionProblem, AttentionResult
from .reference import reference
from .sdpa import able, sdpa
from .short import short

#: From this number of keys on, ``sdpa`` is faster on a CPU as well.
LONG = 512


def compute(problem: AttentionProblem) -> AttentionResult:
    """Solve ``problem`` by the faster way that can.

    Compilers and exporters see no gradients that are written by hand, as ``short`` has them.
    """
    traced = watched()
    if able(problem) and (traced or problem.q.is_cuda or problem.k.size(2) >= LONG):
        return sdpa(problem)
    if traced or problem.q.numel() == 0:
        return reference(problem)
    return short(problem)
