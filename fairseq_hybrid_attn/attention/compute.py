"""The choice between the two ways of computing a problem."""

from __future__ import annotations

import torch

from .autograd import is_cpu, is_tracing
from .cpu import on_cpu
from .problem import AttentionProblem, AttentionResult
from .reference import reference
from .sdpa import sdpa, supports

#: From this number of keys on, ``sdpa`` is as fast on a CPU, and keeps no weights; with dropout, it
#: would keep them.
LONG = 512


def compute(problem: AttentionProblem) -> AttentionResult:
    """Solve ``problem`` by the faster way that can."""
    if is_tracing() or not is_cpu(problem.q.device):
        return sdpa(problem) if supports(problem) else reference(problem)
    keys, rate = problem.k.size(2), problem.dropout
    if problem.bias is None and takes_sdpa(problem.q.device, keys, rate) and supports(problem):
        return sdpa(problem)
    return on_cpu(problem) if problem.q.numel() else reference(problem)


def takes_sdpa(device: torch.device, keys: int, dropout: float) -> bool:
    """Whether ``sdpa`` is the faster way, outside of a compiler."""
    return not is_cpu(device) or (keys >= LONG and not dropout)
