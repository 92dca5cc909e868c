"""The Triton kernels of ``../launch.py``, which explains what sides and zone are.

A program computes a block of queries (or of keys) of one head of one sentence.  Positions count
from the first key, so query i is at position i + M - N.  Pointers are in capitals.  Letters of
strides: ``l`` branch or side, ``b`` sentence, ``h`` head, ``n`` and ``m`` position.  The last
dimension, of width DK, has stride 1 and is padded with zeros to D, a power of two.

In each row, the numbers of the branches (log-sum-exp, delta) are followed by those of the sides:
``LSE`` and ``DELTA`` are ``[l + 2, b * h, n]``.
"""

from .forward import forward_kernel
from .gradients import key_gradient_kernel, query_gradient_kernel, rows_kernel

__all__ = ["forward_kernel", "key_gradient_kernel", "query_gradient_kernel", "rows_kernel"]
