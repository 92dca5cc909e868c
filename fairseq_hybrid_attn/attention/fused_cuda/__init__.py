"""All branches in one pass on a GPU, by kernels in Triton.

``path.py`` is the path and says what it does and what was tried of it; ``kernels/``, loaded
on first use only, are the kernels.
"""

from .path import able, applies, fused_cuda

__all__ = ["able", "applies", "fused_cuda"]
