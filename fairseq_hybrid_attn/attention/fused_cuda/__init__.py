"""All branches in one pass on a GPU, by kernels in Triton (path ``fused-cuda``).

``launch.py`` describes the path and what was tested of it.  ``bounds.py`` turns patterns into
numbers for the kernels, ``philox.py`` draws their random numbers, and ``self_test.py`` says
whether they work on a GPU.  ``kernels/`` is imported on first use only.
"""

import torch

from ..problem import AttentionProblem
from .launch import Variant, fused_cuda, supports
from .self_test import works

__all__ = ["able", "applies", "fused_cuda"]


def able(problem: AttentionProblem) -> bool:
    """Whether the kernels can solve ``problem`` on its device."""
    return (
        problem.q.is_cuda
        and supports(problem)
        # A graph would repeat the seed, and so the dropout, of its capture.
        and not (problem.dropout and torch.cuda.is_current_stream_capturing())
        and works(problem.q.device, Variant.of(problem))
    )


#: Used wherever it works: on a GPU, every other path launches more kernels.  Not measured.
applies = able
