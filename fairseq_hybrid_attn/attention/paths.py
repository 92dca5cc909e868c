"""The ways of computing an :class:`AttentionProblem`, and the choice between them.

A path is a function from a problem to its result.  Its file also has functions that tell which
problems it can solve, and for which it is the fastest.  To add a path, name them in ``PATHS``;
models and layers do not change.  The tests compare every path in ``PATHS`` with the reference.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import torch

from . import fused_cuda, regions, short, step
from .autograd import watched
from .problem import AttentionProblem, AttentionResult
from .reference import reference

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Path:
    """
    Attributes:
        compute: solves a problem.
        applies: whether the path can solve a problem and is the fastest.
        able: whether the path can solve a problem at all.
    """

    compute: Callable[[AttentionProblem], AttentionResult]
    applies: Callable[[AttentionProblem], bool]
    able: Callable[[AttentionProblem], bool]


#: In the order of preference; the first path that applies is taken.
PATHS: dict[str, Path] = {
    "step": Path(step.step, step.applies, step.able),
    "fused-cuda": Path(fused_cuda.fused_cuda, fused_cuda.applies, fused_cuda.able),
    "regions": Path(regions.regions, regions.applies, regions.able),
    "short": Path(short.short, short.applies, short.able),
    "reference": Path(reference, lambda problem: True, lambda problem: True),
}

#: How often this process took each path.
CALLS: Counter[str] = Counter()

#: Set this environment variable to make a command print, when it ends, which paths ran.
REPORT_VARIABLE = "FAIRSEQ_HYBRID_ATTN_REPORT"

#: Set this environment variable to the name of a path to force it wherever it is able.
PATH_VARIABLE = "FAIRSEQ_HYBRID_ATTN_PATH"


def compute(problem: AttentionProblem) -> AttentionResult:
    """Solve ``problem`` by the path that :func:`choose` names."""
    name = choose(problem)
    if not torch.compiler.is_compiling():
        if not CALLS[name]:
            logger.info("attention is computed by path %s", name)
        CALLS[name] += 1
    return PATHS[name].compute(problem)


def choose(problem: AttentionProblem) -> str:
    """Return the name of a path: the one the user forces, or the first that applies.

    Compilers and exporters get the definition, since another choice could be wrong for other
    lengths.
    """
    if watched():
        return "reference"
    forced = os.environ.get(PATH_VARIABLE)
    if forced:
        if forced not in PATHS:
            raise ValueError(f"{PATH_VARIABLE}={forced} is not a path; use {', '.join(PATHS)}")
        if PATHS[forced].able(problem):
            return forced
    return next(name for name, path in PATHS.items() if path.applies(problem))


def _report() -> None:
    calls = ", ".join(f"{name} {count}" for name, count in sorted(CALLS.items())) or "none"
    print(f"fairseq_hybrid_attn: attention computed by path: {calls}", file=sys.stderr)


if os.environ.get(REPORT_VARIABLE):
    atexit.register(_report)
