"""The kernels of ``../path.py``, which explains what sides and zone are, in Triton.

A program does a block of queries (or of keys) of one head of one sentence.  Positions count
from the first key, so query i stands at position i + M - N.  Pointers are in capitals.  Letters
of strides: ``l`` branch or side, ``b`` sentence, ``h`` head, ``n`` and ``m`` position; the last
dimension, of width DK, has stride 1 and is filled up with zeros to D, a power of two.

Per row, the branches' numbers (log-sum-exp, delta) are followed by those of the sides: ``LSE``
and ``DELTA`` are ``[l + 2, b * h, n]``.
"""

from .forward import forward_kernel
from .gradients import key_gradient_kernel, query_gradient_kernel, rows_kernel

__all__ = ["forward_kernel", "key_gradient_kernel", "query_gradient_kernel", "rows_kernel"]
