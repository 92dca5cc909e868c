"""The ways of computing an :class:`AttentionProblem`, and the choice between them.

A path is a function from a problem to its result, in a file of its own, beside a function
that says for which problems it is the right one.  To add one, name both in ``PATHS``; models
and layers do not change.  ``tests/test_paths.py`` holds every path in ``PATHS`` against the
reference.
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

from . import blocks, fused_cuda, grouped, regions, short, step
from .autograd import watched
from .problem import AttentionProblem, AttentionResult
from .reference import reference

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Path:
    """
    Attributes:
        compute: solves a problem.
        applies: whether it is right and pays for a problem.
        able: whether it is right for a problem, if perhaps slower than another.
    """

    compute: Callable[[AttentionProblem], AttentionResult]
    applies: Callable[[AttentionProblem], bool]
    able: Callable[[AttentionProblem], bool]


#: In the order in which they are asked; the first that applies is taken.
PATHS: dict[str, Path] = {
    "step": Path(step.step, step.applies, step.able),
    "fused-cuda": Path(fused_cuda.fused_cuda, fused_cuda.applies, fused_cuda.able),
    "grouped": Path(grouped.grouped, grouped.applies, grouped.able),
    "regions": Path(regions.regions, regions.applies, regions.able),
    "blocks": Path(blocks.blocks, blocks.applies, blocks.able),
    "short": Path(short.short, short.applies, short.able),
    "reference": Path(reference, lambda problem: True, lambda problem: True),
}

#: How often each path was taken in this process.
CALLS: Counter[str] = Counter()

#: Set this environment variable to have a command print, when it ends, which paths ran.
REPORT_VARIABLE = "FAIRSEQ_HYBRID_ATTN_REPORT"

#: Set this environment variable to the name of a path to have it taken wherever it is able,
#: faster or not.
PATH_VARIABLE = "FAIRSEQ_HYBRID_ATTN_PATH"


def compute(problem: AttentionProblem) -> AttentionResult:
    """Compute ``problem`` by the path that suits it."""
    name = choose(problem)
    if not torch.compiler.is_compiling():
        if not CALLS[name]:
            logger.info("attention is computed by path %s", name)
        CALLS[name] += 1
    return PATHS[name].compute(problem)


def choose(problem: AttentionProblem) -> str:
    """Name the path for ``problem``: the one the user forces, or the first that applies.

    Compilers and exporters get the definition, and no choice that would hold for the length
    at hand only.
    """
    if watched():
        return "reference"
    forced = os.environ.get(PATH_VARIABLE)
    if forced:
        if forced not in PATHS:
            raise ValueError(f"{PATH_VARIABLE}={forced} is no path; use {', '.join(PATHS)}")
        if PATHS[forced].able(problem):
            return forced
    return next(name for name, path in PATHS.items() if path.applies(problem))


def _report() -> None:
    calls = ", ".join(f"{name} {count}" for name, count in sorted(CALLS.items())) or "none"
    print(f"fairseq_hybrid_attn: attention computed by path: {calls}", file=sys.stderr)


if os.environ.get(REPORT_VARIABLE):
    atexit.register(_report)
