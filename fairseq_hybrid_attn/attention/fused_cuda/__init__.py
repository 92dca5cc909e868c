"""All branches in one pass on a GPU, by kernels in Triton (path ``fused-cuda``).

``launch.py`` describes the path and what was tested of it.  ``bounds.py`` turns patterns into
numbers for the kernels.  ``kernels/`` is imported on first use only.
"""

from .launch import able, applies, fused_cuda

__all__ = ["able", "applies", "fused_cuda"]
