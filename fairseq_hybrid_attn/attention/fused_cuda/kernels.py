"""The kernels of ``path.py``, which explains what sides and zone are, in Triton.

A program does a block of queries (or of keys) of one head of one sentence.  Positions count
from the first key, so query i stands at position i + M - N.  Pointers are in capitals.  Letters
of strides: ``l`` branch or side, ``b`` sentence, ``h`` head, ``n`` and ``m`` position; the last
dimension, of width DK, has stride 1 and is filled up with zeros to D, a power of two.

Per row, the branches' numbers (log-sum-exp, delta) are followed by those of the sides: ``LSE``
and ``DELTA`` are ``[l + 2, b * h, n]``.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .bounds import HEADER as _HEADER
from .bounds import OPEN as _OPEN

HEADER = tl.constexpr(_HEADER)
OPEN = tl.constexpr(_OPEN)
INFINITY = tl.constexpr(float("inf"))


@triton.jit
def _rows(start, stride, rows, DK: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr):
    """Offsets of rows start .. start + BLOCK of a matrix ``[rows, DK]``, and what is inside."""
    row = start + tl.arange(0, BLOCK)
    column = tl.arange(0, D)
    inside = (row < rows)[:, None] & (column < DK)[None, :]
    return row[:, None].to(tl.int64) * stride + column[None, :], inside


@triton.jit
def _load(POINTER, start, stride, rows, DK: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr):
    offsets, inside = _rows(start, stride, rows, DK, D, BLOCK)
    return tl.load(POINTER + offsets, mask=inside, other=0.0)


@triton.jit
def _store(
    POINTER, value, start, stride, rows, DK: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr
):
    offsets, inside = _rows(start, stride, rows, DK, D, BLOCK)
    tl.store(POINTER + offsets, value.to(POINTER.dtype.element_ty), mask=inside)


@triton.jit
def _real_keys(PADDING, start, stride, M, PADDED: tl.constexpr, BLOCK: tl.constexpr):
    """Which of a block's keys there are, and are no padding, ``[BLOCK]``."""
    key = start + tl.arange(0, BLOCK)
    real = key < M
    if PADDED:
        real &= tl.load(PADDING + key.to(tl.int64) * stride, mask=real, other=1) == 0
    return real


@triton.jit
def _left_end(position, first, keys, BLOCK_K: tl.constexpr):
    """How many key blocks lie left of the zone of all queries from ``position`` on.

    The last offset of such a block, (end - 1) - position, is less than ``first``.
    """
    return tl.minimum(tl.maximum(position + first, 0) // BLOCK_K, keys)


@triton.jit
def _right_start(position, last, keys, BLOCK_K: tl.constexpr):
    """The first key block that lies right of the zone of all queries up to ``position``.

    Its first offset, start - position, is greater than ``last``.
    """
    return tl.minimum(tl.cdiv(tl.maximum(position + last + 1, 0), BLOCK_K), keys)


@triton.jit
def _touches(low, high, first_query, last_query, start, BLOCK_K: tl.constexpr):
    """Whether a branch allows any offset between those queries and that block of keys."""
    return (start + BLOCK_K - 1 - first_query >= low) & (start - last_query <= high)


@triton.jit
def _gather(scores, v, top, total, acc):
    """Add a block of keys to the running maximum, sum and values of a softmax.

    Forbidden scores are minus infinity, and so is the maximum of a row without any other.
    """
    new_top = tl.maximum(top, tl.max(scores, 1))
    base = tl.where(new_top == -INFINITY, 0.0, new_top)
    weights = tl.exp(scores - base[:, None])
    shrink = tl.exp(top - base)
    total = total * shrink + tl.sum(weights, 1)
    acc = tl.dot(weights.to(v.dtype), v, acc * shrink[:, None], input_precision="ieee")
    return new_top, total, acc


@triton.jit
def _add_product(gradients, x, acc):
    """acc + gradients x, not worse than if ``gradients`` were multiplied in single precision.

    Rounded to float16 they would be, of sharp distributions.
    """
    rounded = gradients.to(x.dtype)
    acc = tl.dot(rounded, x, acc, input_precision="ieee")
    if x.dtype == tl.float16:
        acc = tl.dot((gradients - rounded.to(tl.float32)).to(x.dtype), x, acc)
    return acc


@triton.jit
def forward_kernel(
    Q,
    K,
    V,
    PADDING,
    BOUNDS,
    OUT,
    REST,
    LSE,
    q_b,
    q_h,
    q_n,
    k_b,
    k_h,
    k_m,
    v_b,
    v_h,
    v_m,
    padding_b,
    padding_m,
    out_l,
    out_b,
    out_h,
    out_n,
    bounds_h,
    BH,
    H,
    N,
    M,
    L: tl.constexpr,
    DK: tl.constexpr,
    D: tl.constexpr,
    PADDED: tl.constexpr,
    ROUNDED: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Outputs and log-sum-exps of all branches for a block of queries."""
    blocks = tl.cdiv(N, BLOCK_Q)
    start_q = (tl.program_id(0) % blocks) * BLOCK_Q
    bh = (tl.program_id(0) // blocks).to(tl.int64)
    b, h = bh // H, bh % H
    Q += b * q_b + h * q_h
    K += b * k_b + h * k_h
    V += b * v_b + h * v_h
    OUT += b * out_b + h * out_h
    REST += b * out_b + h * out_h
    PADDING += b * padding_b
    BOUNDS += h * bounds_h

    first_query = start_q + M - N
    last_query = tl.minimum(start_q + BLOCK_Q, N) - 1 + M - N
    query = first_query + tl.arange(0, BLOCK_Q)
    keys = tl.cdiv(M, BLOCK_K)
    left_end = _left_end(first_query, tl.load(BOUNDS), keys, BLOCK_K)
    right_start = _right_start(last_query, tl.load(BOUNDS + 1), keys, BLOCK_K)
    q = _load(Q, start_q, q_n, N, DK, D, BLOCK_Q)

    left_top = tl.full([BLOCK_Q], -INFINITY, tl.float32)
    left_total = tl.zeros([BLOCK_Q], tl.float32)
    left_acc = tl.zeros([BLOCK_Q, D], tl.float32)
    if tl.load(BOUNDS + 2) != 0:
        for block in range(0, left_end):
            start = block * BLOCK_K
            k = _load(K, start, k_m, M, DK, D, BLOCK_K)
            real = _real_keys(PADDING, start, padding_m, M, PADDED, BLOCK_K)
            scores = tl.dot(q, tl.trans(k), input_precision="ieee")
            scores = tl.where(real[None, :], scores, -INFINITY)
            v = _load(V, start, v_m, M, DK, D, BLOCK_K)
            left_top, left_total, left_acc = _gather(scores, v, left_top, left_total, left_acc)

    right_top = tl.full([BLOCK_Q], -INFINITY, tl.float32)
    right_total = tl.zeros([BLOCK_Q], tl.float32)
    right_acc = tl.zeros([BLOCK_Q, D], tl.float32)
    if tl.load(BOUNDS + 3) != 0:
        for block in range(right_start, keys):
            start = block * BLOCK_K
            k = _load(K, start, k_m, M, DK, D, BLOCK_K)
            real = _real_keys(PADDING, start, padding_m, M, PADDED, BLOCK_K)
            scores = tl.dot(q, tl.trans(k), input_precision="ieee")
            scores = tl.where(real[None, :], scores, -INFINITY)
            v = _load(V, start, v_m, M, DK, D, BLOCK_K)
            right_top, right_total, right_acc = _gather(
                scores, v, right_top, right_total, right_acc
            )

    # Every branch starts from the sides that it sees.
    tops, totals, accs = (), (), ()
    for branch in tl.static_range(L):
        low = tl.load(BOUNDS + HEADER + 2 * branch)
        high = tl.load(BOUNDS + HEADER + 2 * branch + 1)
        seen_left = tl.where(low <= -OPEN, left_top, -INFINITY)
        seen_right = tl.where(high >= OPEN, right_top, -INFINITY)
        top = tl.maximum(seen_left, seen_right)
        base = tl.where(top == -INFINITY, 0.0, top)
        of_left, of_right = tl.exp(seen_left - base), tl.exp(seen_right - base)
        tops = tops + (top,)
        totals = totals + (left_total * of_left + right_total * of_right,)
        accs = accs + (left_acc * of_left[:, None] + right_acc * of_right[:, None],)

    for block in range(left_end, right_start):
        start = block * BLOCK_K
        k = _load(K, start, k_m, M, DK, D, BLOCK_K)
        real = _real_keys(PADDING, start, padding_m, M, PADDED, BLOCK_K)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        v = _load(V, start, v_m, M, DK, D, BLOCK_K)
        offset = (start + tl.arange(0, BLOCK_K))[None, :] - query[:, None]
        new_tops, new_totals, new_accs = (), (), ()
        for branch in tl.static_range(L):
            low = tl.load(BOUNDS + HEADER + 2 * branch)
            high = tl.load(BOUNDS + HEADER + 2 * branch + 1)
            top, total, acc = tops[branch], totals[branch], accs[branch]
            if _touches(low, high, first_query, last_query, start, BLOCK_K):
                allowed = real[None, :] & (offset >= low) & (offset <= high)
                seen = tl.where(allowed, scores, -INFINITY)
                top, total, acc = _gather(seen, v, top, total, acc)
            new_tops = new_tops + (top,)
            new_totals = new_totals + (total,)
            new_accs = new_accs + (acc,)
        tops, totals, accs = new_tops, new_totals, new_accs

    row = start_q + tl.arange(0, BLOCK_Q)
    for branch in tl.static_range(L):
        some = totals[branch] > 0
        total = tl.where(some, totals[branch], 1.0)
        out = tl.where(some[:, None], accs[branch] / total[:, None], 0.0)
        # A row that sees nothing has weights e^(s - infinity) = 0 in the backward pass.
        lse = tl.where(some, tops[branch] + tl.log(total), INFINITY)
        _store(OUT + branch * out_l, out, start_q, out_n, N, DK, D, BLOCK_Q)
        if ROUNDED:
            rest = out - out.to(OUT.dtype.element_ty).to(tl.float32)
            _store(REST + branch * out_l, rest, start_q, out_n, N, DK, D, BLOCK_Q)
        tl.store(LSE + (branch * BH + bh) * N + row, lse, mask=row < N)


@triton.jit
def rows_kernel(
    OUT,
    REST,
    UPSTREAM,
    BOUNDS,
    LSE,
    DELTA,
    SIDES,
    out_l,
    out_b,
    out_h,
    out_n,
    upstream_l,
    upstream_b,
    upstream_h,
    upstream_n,
    sides_l,
    sides_b,
    sides_h,
    sides_n,
    bounds_h,
    BH,
    H,
    N,
    L: tl.constexpr,
    DK: tl.constexpr,
    D: tl.constexpr,
    ROUNDED: tl.constexpr,
    BLOCK_Q: tl.constexpr,
):
    """What the backward pass needs of each row beforehand.

    delta_l = sum of dO_l * O_l of each branch; and of each side, over the branches that see it,
    c = min lse_l, sum of e^(c - lse_l) dO_l, and the same of delta_l.
    """
    blocks = tl.cdiv(N, BLOCK_Q)
    start = (tl.program_id(0) % blocks) * BLOCK_Q
    bh = (tl.program_id(0) // blocks).to(tl.int64)
    b, h = bh // H, bh % H
    OUT += b * out_b + h * out_h
    REST += b * out_b + h * out_h
    UPSTREAM += b * upstream_b + h * upstream_h
    SIDES += b * sides_b + h * sides_h
    BOUNDS += h * bounds_h + HEADER
    row = start + tl.arange(0, BLOCK_Q)
    inside = row < N

    smallest_left = tl.full([BLOCK_Q], INFINITY, tl.float32)
    smallest_right = tl.full([BLOCK_Q], INFINITY, tl.float32)
    lses, deltas = (), ()
    for branch in tl.static_range(L):
        out = _load(OUT + branch * out_l, start, out_n, N, DK, D, BLOCK_Q).to(tl.float32)
        if ROUNDED:
            out += _load(REST + branch * out_l, start, out_n, N, DK, D, BLOCK_Q).to(tl.float32)
        upstream = _load(UPSTREAM + branch * upstream_l, start, upstream_n, N, DK, D, BLOCK_Q)
        delta = tl.sum(out * upstream.to(tl.float32), 1)
        tl.store(DELTA + (branch * BH + bh) * N + row, delta, mask=inside)
        lse = tl.load(LSE + (branch * BH + bh) * N + row, mask=inside, other=INFINITY)
        if tl.load(BOUNDS + 2 * branch) <= -OPEN:
            smallest_left = tl.minimum(smallest_left, lse)
        if tl.load(BOUNDS + 2 * branch + 1) >= OPEN:
            smallest_right = tl.minimum(smallest_right, lse)
        lses = lses + (lse,)
        deltas = deltas + (delta,)

    # With a single branch the sides are that branch, and nobody asks for them.
    if L > 1:
        left = tl.zeros([BLOCK_Q, D], tl.float32)
        left_delta = tl.zeros([BLOCK_Q], tl.float32)
        right = tl.zeros([BLOCK_Q, D], tl.float32)
        right_delta = tl.zeros([BLOCK_Q], tl.float32)
        for branch in tl.static_range(L):
            upstream = _load(
                UPSTREAM + branch * upstream_l, start, upstream_n, N, DK, D, BLOCK_Q
            ).to(tl.float32)
            some = lses[branch] < INFINITY
            lse = tl.where(some, lses[branch], 0.0)
            if tl.load(BOUNDS + 2 * branch) <= -OPEN:
                share = tl.where(some, tl.exp(smallest_left - lse), 0.0)
                left += share[:, None] * upstream
                left_delta += share * deltas[branch]
            if tl.load(BOUNDS + 2 * branch + 1) >= OPEN:
                share = tl.where(some, tl.exp(smallest_right - lse), 0.0)
                right += share[:, None] * upstream
                right_delta += share * deltas[branch]
        _store(SIDES, left, start, sides_n, N, DK, D, BLOCK_Q)
        _store(SIDES + sides_l, right, start, sides_n, N, DK, D, BLOCK_Q)
        tl.store(LSE + (L * BH + bh) * N + row, smallest_left, mask=inside)
        tl.store(LSE + ((L + 1) * BH + bh) * N + row, smallest_right, mask=inside)
        tl.store(DELTA + (L * BH + bh) * N + row, left_delta, mask=inside)
        tl.store(DELTA + ((L + 1) * BH + bh) * N + row, right_delta, mask=inside)


@triton.jit
def _row_numbers(LSE, DELTA, entry, bh, BH, start, N, BLOCK_Q: tl.constexpr):
    """Log-sum-exp and delta of a block of rows, of a branch or side; no row, no weight."""
    row = start + tl.arange(0, BLOCK_Q)
    at = (entry * BH + bh) * N + row
    lse = tl.load(LSE + at, mask=row < N, other=INFINITY)
    return lse, tl.load(DELTA + at, mask=row < N, other=0.0)


@triton.jit
def query_gradient_kernel(
    Q,
    K,
    V,
    PADDING,
    BOUNDS,
    UPSTREAM,
    SIDES,
    LSE,
    DELTA,
    DQ,
    q_b,
    q_h,
    q_n,
    k_b,
    k_h,
    k_m,
    v_b,
    v_h,
    v_m,
    padding_b,
    padding_m,
    upstream_l,
    upstream_b,
    upstream_h,
    upstream_n,
    sides_l,
    sides_b,
    sides_h,
    sides_n,
    bounds_h,
    dq_b,
    dq_h,
    dq_n,
    BH,
    H,
    N,
    M,
    L: tl.constexpr,
    DK: tl.constexpr,
    D: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Gradient of a block of queries."""
    blocks = tl.cdiv(N, BLOCK_Q)
    start_q = (tl.program_id(0) % blocks) * BLOCK_Q
    bh = (tl.program_id(0) // blocks).to(tl.int64)
    b, h = bh // H, bh % H
    Q += b * q_b + h * q_h
    K += b * k_b + h * k_h
    V += b * v_b + h * v_h
    PADDING += b * padding_b
    BOUNDS += h * bounds_h
    UPSTREAM += b * upstream_b + h * upstream_h
    SIDES += b * sides_b + h * sides_h
    DQ += b * dq_b + h * dq_h

    first_query = start_q + M - N
    last_query = tl.minimum(start_q + BLOCK_Q, N) - 1 + M - N
    query = first_query + tl.arange(0, BLOCK_Q)
    keys = tl.cdiv(M, BLOCK_K)
    left_end = _left_end(first_query, tl.load(BOUNDS), keys, BLOCK_K)
    right_start = _right_start(last_query, tl.load(BOUNDS + 1), keys, BLOCK_K)
    q = _load(Q, start_q, q_n, N, DK, D, BLOCK_Q)
    dq = tl.zeros([BLOCK_Q, D], tl.float32)

    for side in tl.static_range(2):
        if tl.load(BOUNDS + 2 + side) != 0:
            entry = L + side if L > 1 else 0
            begin = right_start if side else 0
            end = keys if side else left_end
            lse, delta = _row_numbers(LSE, DELTA, entry, bh, BH, start_q, N, BLOCK_Q)
            pointer = SIDES + side * sides_l if L > 1 else SIDES
            upstream = _load(pointer, start_q, sides_n, N, DK, D, BLOCK_Q)
            for block in range(begin, end):
                start = block * BLOCK_K
                k = _load(K, start, k_m, M, DK, D, BLOCK_K)
                v = _load(V, start, v_m, M, DK, D, BLOCK_K)
                real = _real_keys(PADDING, start, padding_m, M, PADDED, BLOCK_K)
                scores = tl.dot(q, tl.trans(k), input_precision="ieee")
                weights = tl.exp(tl.where(real[None, :], scores - lse[:, None], -INFINITY))
                dweights = tl.dot(upstream, tl.trans(v), input_precision="ieee")
                dscores = weights * (dweights - delta[:, None])
                dq = _add_product(dscores, k, dq)

    for block in range(left_end, right_start):
        start = block * BLOCK_K
        k = _load(K, start, k_m, M, DK, D, BLOCK_K)
        v = _load(V, start, v_m, M, DK, D, BLOCK_K)
        real = _real_keys(PADDING, start, padding_m, M, PADDED, BLOCK_K)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        offset = (start + tl.arange(0, BLOCK_K))[None, :] - query[:, None]
        dscores = tl.zeros([BLOCK_Q, BLOCK_K], tl.float32)
        for branch in tl.static_range(L):
            low = tl.load(BOUNDS + HEADER + 2 * branch)
            high = tl.load(BOUNDS + HEADER + 2 * branch + 1)
            if _touches(low, high, first_query, last_query, start, BLOCK_K):
                lse, delta = _row_numbers(LSE, DELTA, branch, bh, BH, start_q, N, BLOCK_Q)
                upstream = _load(
                    UPSTREAM + branch * upstream_l, start_q, upstream_n, N, DK, D, BLOCK_Q
                )
                allowed = real[None, :] & (offset >= low) & (offset <= high)
                weights = tl.exp(tl.where(allowed, scores - lse[:, None], -INFINITY))
                dweights = tl.dot(upstream, tl.trans(v), input_precision="ieee")
                dscores += weights * (dweights - delta[:, None])
        dq = _add_product(dscores, k, dq)

    _store(DQ, dq, start_q, dq_n, N, DK, D, BLOCK_Q)


@triton.jit
def key_gradient_kernel(
    Q,
    K,
    V,
    PADDING,
    BOUNDS,
    UPSTREAM,
    SIDES,
    LSE,
    DELTA,
    DKEY,
    DVALUE,
    q_b,
    q_h,
    q_n,
    k_b,
    k_h,
    k_m,
    v_b,
    v_h,
    v_m,
    padding_b,
    padding_m,
    upstream_l,
    upstream_b,
    upstream_h,
    upstream_n,
    sides_l,
    sides_b,
    sides_h,
    sides_n,
    bounds_h,
    dk_b,
    dk_h,
    dk_m,
    dv_b,
    dv_h,
    dv_m,
    BH,
    H,
    N,
    M,
    L: tl.constexpr,
    DK: tl.constexpr,
    D: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Gradients of a block of keys and of its values."""
    blocks = tl.cdiv(M, BLOCK_K)
    start = (tl.program_id(0) % blocks) * BLOCK_K
    bh = (tl.program_id(0) // blocks).to(tl.int64)
    b, h = bh // H, bh % H
    Q += b * q_b + h * q_h
    K += b * k_b + h * k_h
    V += b * v_b + h * v_h
    PADDING += b * padding_b
    BOUNDS += h * bounds_h
    UPSTREAM += b * upstream_b + h * upstream_h
    SIDES += b * sides_b + h * sides_h
    DKEY += b * dk_b + h * dk_h
    DVALUE += b * dv_b + h * dv_h

    k = _load(K, start, k_m, M, DK, D, BLOCK_K)
    v = _load(V, start, v_m, M, DK, D, BLOCK_K)
    real = _real_keys(PADDING, start, padding_m, M, PADDED, BLOCK_K)
    key = start + tl.arange(0, BLOCK_K)
    dk = tl.zeros([BLOCK_K, D], tl.float32)
    dv = tl.zeros([BLOCK_K, D], tl.float32)

    # The keys are right of the zone for the first queries, and left of it for the last.
    # Query i of a block stands at i + M - N; right: start - position > last; left:
    # start + BLOCK_K - 1 - position < first.
    queries = tl.cdiv(N, BLOCK_Q)
    first, last = tl.load(BOUNDS), tl.load(BOUNDS + 1)
    right_end = tl.minimum(tl.maximum(start - last - (M - N), 0) // BLOCK_Q, queries)
    left_start = tl.minimum(
        tl.cdiv(tl.maximum(start + BLOCK_K - first - (M - N), 0), BLOCK_Q), queries
    )

    for side in tl.static_range(2):
        if tl.load(BOUNDS + 2 + side) != 0:
            entry = L + side if L > 1 else 0
            begin = 0 if side else left_start
            end = right_end if side else queries
            pointer = SIDES + side * sides_l if L > 1 else SIDES
            for block in range(begin, end):
                start_q = block * BLOCK_Q
                q = _load(Q, start_q, q_n, N, DK, D, BLOCK_Q)
                upstream = _load(pointer, start_q, sides_n, N, DK, D, BLOCK_Q)
                lse, delta = _row_numbers(LSE, DELTA, entry, bh, BH, start_q, N, BLOCK_Q)
                scores = tl.dot(q, tl.trans(k), input_precision="ieee")
                weights = tl.exp(tl.where(real[None, :], scores - lse[:, None], -INFINITY))
                dv = tl.dot(
                    tl.trans(weights.to(upstream.dtype)), upstream, dv, input_precision="ieee"
                )
                dweights = tl.dot(upstream, tl.trans(v), input_precision="ieee")
                dscores = weights * (dweights - delta[:, None])
                dk = _add_product(tl.trans(dscores), q, dk)

    for block in range(right_end, left_start):
        start_q = block * BLOCK_Q
        q = _load(Q, start_q, q_n, N, DK, D, BLOCK_Q)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        first_query = start_q + M - N
        last_query = tl.minimum(start_q + BLOCK_Q, N) - 1 + M - N
        offset = key[None, :] - (first_query + tl.arange(0, BLOCK_Q))[:, None]
        dscores = tl.zeros([BLOCK_Q, BLOCK_K], tl.float32)
        for branch in tl.static_range(L):
            low = tl.load(BOUNDS + HEADER + 2 * branch)
            high = tl.load(BOUNDS + HEADER + 2 * branch + 1)
            if _touches(low, high, first_query, last_query, start, BLOCK_K):
                lse, delta = _row_numbers(LSE, DELTA, branch, bh, BH, start_q, N, BLOCK_Q)
                upstream = _load(
                    UPSTREAM + branch * upstream_l, start_q, upstream_n, N, DK, D, BLOCK_Q
                )
                allowed = real[None, :] & (offset >= low) & (offset <= high)
                weights = tl.exp(tl.where(allowed, scores - lse[:, None], -INFINITY))
                dv = tl.dot(
                    tl.trans(weights.to(upstream.dtype)), upstream, dv, input_precision="ieee"
                )
                dweights = tl.dot(upstream, tl.trans(v), input_precision="ieee")
                dscores += weights * (dweights - delta[:, None])
        dk = _add_product(tl.trans(dscores), q, dk)

    _store(DKEY, dk, start, dk_m, M, DK, D, BLOCK_K)
    _store(DVALUE, dv, start, dv_m, M, DK, D, BLOCK_K)
