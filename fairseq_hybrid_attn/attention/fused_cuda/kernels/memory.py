"""What the kernels share: rows in memory, which keys a query sees, which weights are dropped."""

import triton
import triton.language as tl

from ..bounds import HEADER as _HEADER
from ..bounds import OPEN as _OPEN

HEADER = tl.constexpr(_HEADER)
OPEN = tl.constexpr(_OPEN)
INFINITY = tl.constexpr(float("inf"))

#: Arguments whose values must not make Triton compile a kernel again.
NUMBERS = ("PADDED", "BH", "H", "N", "M", "SEED", "THRESHOLD")


@triton.jit
def _rows_at(entry, start, rows, bh, BH, DK: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr):
    """Return offsets of rows start .. start + BLOCK of a head, and which are inside."""
    row = start + tl.arange(0, BLOCK)
    column = tl.arange(0, D)
    inside = (row < rows)[:, None] & (column < DK)[None, :]
    return ((entry * rows + row).to(tl.int64) * BH + bh)[:, None] * DK + column[None, :], inside


@triton.jit
def load(
    POINTER, entry, start, rows, bh, BH, DK: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr
):
    """Load rows of one head of ``[entries, rows, b * h, DK]`` as ``[BLOCK, D]``, zero outside."""
    offsets, inside = _rows_at(entry, start, rows, bh, BH, DK, D, BLOCK)
    return tl.load(POINTER + offsets, mask=inside, other=0.0)


@triton.jit
def store(
    POINTER, value, entry, start, rows, bh, BH,
    DK: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Store ``[BLOCK, D]`` where :func:`load` reads it, in the type of the memory."""
    offsets, inside = _rows_at(entry, start, rows, bh, BH, DK, D, BLOCK)
    tl.store(POINTER + offsets, value.to(POINTER.dtype.element_ty), mask=inside)


@triton.jit
def real_keys(PADDING, start, M, PADDED, BLOCK: tl.constexpr):
    """Return which keys of a block exist and are not padding, ``[BLOCK]``.

    ``PADDED`` is M, or 0 if there is no padding to read: another kernel would be compiled twice.
    """
    key = start + tl.arange(0, BLOCK)
    padding = tl.load(PADDING + key, mask=key < PADDED, other=0)
    return (key < M) & (padding == 0)


@triton.jit
def seen(BOUNDS, branch, real, key, query):
    """Return which keys of a block a branch sees, ``[queries, keys]``."""
    low = tl.load(BOUNDS + HEADER + 2 * branch)
    high = tl.load(BOUNDS + HEADER + 2 * branch + 1)
    offset = key[None, :] - query[:, None]
    return real[None, :] & (offset >= low) & (offset <= high)


@triton.jit
def kept(SEED, THRESHOLD, bh, row, key, L: tl.constexpr):
    """Return a number per weight, ``[rows, keys]``, whose bit l says if branch l keeps it.

    Four branches share a draw of Philox.  Its counter is the place of the weight, so the backward
    pass draws the same.
    """
    place = tl.zeros([row.shape[0], key.shape[0]], tl.int32)
    rows, keys = place + row[:, None], place + key[None, :]
    heads = place + bh.to(tl.int32)
    bits = place
    for group in tl.static_range((L + 3) // 4):
        drawn = tl.philox(SEED, rows, keys, heads, place + group)
        for i in tl.static_range(4):
            if 4 * group + i < L:
                keep = drawn[i].to(tl.int32, bitcast=True) >= THRESHOLD
                bits |= keep.to(tl.int32) << (4 * group + i)
    return bits


@triton.jit
def dropped(x, bits, branch, SCALE, DROPOUT: tl.constexpr):
    """Return ``x``, zero where the branch drops a weight and else times ``SCALE``."""
    if DROPOUT:
        x = tl.where((bits >> branch) & 1 != 0, x * SCALE, 0.0)
    return x


@triton.jit
def add_product(gradients, x, acc):
    """Return acc + gradients x, as precise as a product in single precision.

    Gradients of sharp distributions would lose too much if they were rounded to float16.
    """
    rounded = gradients.to(x.dtype)
    acc = tl.dot(rounded, x, acc, input_precision="ieee")
    if x.dtype == tl.float16:
        acc = tl.dot((gradients - rounded.to(tl.float32)).to(x.dtype), x, acc)
    return acc


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
def touches(BOUNDS, branch, first_query, last_query, start, BLOCK_K: tl.constexpr):
    """Whether a branch allows any offset between these queries and this block of keys."""
    low = tl.load(BOUNDS + HEADER + 2 * branch)
    high = tl.load(BOUNDS + HEADER + 2 * branch + 1)
    return (start + BLOCK_K - 1 - first_query >= low) & (start - last_query <= high)
