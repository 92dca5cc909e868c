"""The Triton kernels of ``../launch.py``, which explains what sides and zone are.

A program computes one head of one sentence (``whole.py``), or a block of its queries or keys.
Positions count from the first key, so query i is at position i + M - N.  Arguments are in capitals.
Matrices lie in memory as projections make them, ``[n, b * h, DK]``, and those of several branches
or sides as ``[l, n, b * h, DK]``.  DK is padded with zeros to D, a power of two.

In each row, the numbers of the branches (log-sum-exp, delta) are followed by those of the sides:
``LSE`` and ``DELTA`` are ``[l + 2, b * h, n]``.
"""

from .forward import forward_kernel
from .gradients import key_gradient_kernel, query_gradient_kernel, rows_kernel
from .whole import whole_backward_kernel, whole_forward_kernel

__all__ = [
    "forward_kernel",
    "key_gradient_kernel",
    "query_gradient_kernel",
    "rows_kernel",
    "whole_backward_kernel",
    "whole_forward_kernel",
]
