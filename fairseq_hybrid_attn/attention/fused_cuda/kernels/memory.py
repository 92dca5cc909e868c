"""What the kernels share: loading and storing rows, and which keys a block of queries sees."""

import triton
import triton.language as tl

from ..bounds import HEADER as _HEADER
from ..bounds import OPEN as _OPEN

HEADER = tl.constexpr(_HEADER)
OPEN = tl.constexpr(_OPEN)
INFINITY = tl.constexpr(float("inf"))


@triton.jit
def rows_at(start, stride, rows, DK: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr):
    """Return offsets of rows start .. start + BLOCK of ``[rows, DK]``, and which are inside."""
    row = start + tl.arange(0, BLOCK)
    column = tl.arange(0, D)
    inside = (row < rows)[:, None] & (column < DK)[None, :]
    return row[:, None].to(tl.int64) * stride + column[None, :], inside


@triton.jit
def load(POINTER, start, stride, rows, DK: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr):
    """Load rows of a matrix ``[rows, DK]`` as ``[BLOCK, D]``, zero outside."""
    offsets, inside = rows_at(start, stride, rows, DK, D, BLOCK)
    return tl.load(POINTER + offsets, mask=inside, other=0.0)


@triton.jit
def store(
    POINTER, value, start, stride, rows, DK: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr
):
    """Store ``[BLOCK, D]`` where :func:`load` reads it, in the type of the memory."""
    offsets, inside = rows_at(start, stride, rows, DK, D, BLOCK)
    tl.store(POINTER + offsets, value.to(POINTER.dtype.element_ty), mask=inside)


@triton.jit
def real_keys(PADDING, start, stride, M, PADDED: tl.constexpr, BLOCK: tl.constexpr):
    """Return which keys of a block exist and are not padding, ``[BLOCK]``."""
    key = start + tl.arange(0, BLOCK)
    real = key < M
    if PADDED:
        real &= tl.load(PADDING + key.to(tl.int64) * stride, mask=real, other=1) == 0
    return real


@triton.jit
def end_of_left(position, first, keys, BLOCK_K: tl.constexpr):
    """Return how many key blocks are left of the zone of all queries from ``position`` on.

    The last offset of such a block, (end - 1) - position, is less than ``first``.
    """
    return tl.minimum(tl.maximum(position + first, 0) // BLOCK_K, keys)


@triton.jit
def start_of_right(position, last, keys, BLOCK_K: tl.constexpr):
    """Return the first key block that is right of the zone of all queries up to ``position``.

    Its first offset, start - position, is greater than ``last``.
    """
    return tl.minimum(tl.cdiv(tl.maximum(position + last + 1, 0), BLOCK_K), keys)


@triton.jit
def touches(low, high, first_query, last_query, start, BLOCK_K: tl.constexpr):
    """Whether a branch allows any offset between these queries and this block of keys."""
    return (start + BLOCK_K - 1 - first_query >= low) & (start - last_query <= high)
