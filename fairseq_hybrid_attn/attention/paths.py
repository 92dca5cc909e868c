"""The ways of computing an :class:`AttentionProblem`, and the choice between them.

A path is a function from a problem to its result.  To add a faster one, write it in a
file of its own, name it in ``PATHS`` and let ``choose`` say when it applies; models and
layers do not change.  ``tests/test_paths.py`` holds every path in ``PATHS`` against the
reference.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections import Counter
from collections.abc import Callable

import torch

from .problem import AttentionProblem, AttentionResult
from .reference import reference

Path = Callable[[AttentionProblem], AttentionResult]

PATHS: dict[str, Path] = {"reference": reference}

#: How often each path was taken in this process.
CALLS: Counter[str] = Counter()

#: Set this environment variable to have a command print, when it ends, which paths ran.
REPORT_VARIABLE = "FAIRSEQ_HYBRID_ATTN_REPORT"


def compute(problem: AttentionProblem) -> AttentionResult:
    """Compute ``problem`` by the path that suits it."""
    name = choose(problem)
    if not torch.compiler.is_compiling():
        CALLS[name] += 1
    return PATHS[name](problem)


def choose(problem: AttentionProblem) -> str:
    """Name the path for ``problem``; so far there is only one."""
    return "reference"


def _report() -> None:
    calls = ", ".join(f"{name} {count}" for name, count in sorted(CALLS.items())) or "none"
    print(f"fairseq_hybrid_attn: attention computed by path: {calls}", file=sys.stderr)


if os.environ.get(REPORT_VARIABLE):
    atexit.register(_report)
