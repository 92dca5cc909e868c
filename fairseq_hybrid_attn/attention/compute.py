"""The choice between the two ways of computing a problem."""

from __future__ import annotations

import torch

from ..devices import is_cpu, is_tracing
from .problem import AttentionProblem, AttentionResult
from .reference import reference
from .sdpa import sdpa

#: From this number of keys on, ``sdpa`` is as fast on a CPU, and keeps no weights; with dropout, it
#: would keep them.  In half precision it is slower.
LONG, LONG_IN_HALF = 128, 512


def compute(problem: AttentionProblem) -> AttentionResult:
    """Solve ``problem`` by the faster way that can.

    ===========================================  ==========  =====================
    problem                                      on a CPU    on a GPU, or traced
    ===========================================  ==========  =====================
    weights are wanted, or there are no queries  definition  definition
    dropout of weights, or a bias                definition  sdpa
    fewer than ``LONG`` keys                     definition  sdpa
    others                                       sdpa        sdpa
    ===========================================  ==========  =====================
    """
    tracing, q = is_tracing(), problem.q
    if problem.need_weights or not (tracing or q.numel()):
        return reference(problem)
    if tracing or not is_cpu(q.device):
        return sdpa(problem)
    half = q.dtype in (torch.float16, torch.bfloat16)
    long = problem.k.size(2) >= (LONG_IN_HALF if half else LONG)
    plain = problem.bias is None and not problem.dropout
    return sdpa(problem) if long and plain else reference(problem)
