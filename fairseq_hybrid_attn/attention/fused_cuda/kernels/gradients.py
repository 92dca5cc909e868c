"""The kernels for gradients: first the rows, then queries, and keys with values."""

import triton
import triton.language as tl

from .memory import (
    HEADER,
    INFINITY,
    OPEN,
    end_of_left,
    load,
    real_keys,
    start_of_right,
    store,
    touches,
)


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
    """Compute what the backward pass needs of each row.

    For each branch: delta_l = sum of dO_l * O_l.  For each side, over the branches that see it:
    c = min lse_l, the sum of e^(c - lse_l) dO_l, and the same sum of delta_l.
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
        out = load(OUT + branch * out_l, start, out_n, N, DK, D, BLOCK_Q).to(tl.float32)
        if ROUNDED:
            out += load(REST + branch * out_l, start, out_n, N, DK, D, BLOCK_Q).to(tl.float32)
        upstream = load(UPSTREAM + branch * upstream_l, start, upstream_n, N, DK, D, BLOCK_Q)
        delta = tl.sum(out * upstream.to(tl.float32), 1)
        tl.store(DELTA + (branch * BH + bh) * N + row, delta, mask=inside)
        lse = tl.load(LSE + (branch * BH + bh) * N + row, mask=inside, other=INFINITY)
        if tl.load(BOUNDS + 2 * branch) <= -OPEN:
            smallest_left = tl.minimum(smallest_left, lse)
        if tl.load(BOUNDS + 2 * branch + 1) >= OPEN:
            smallest_right = tl.minimum(smallest_right, lse)
        lses = lses + (lse,)
        deltas = deltas + (delta,)

    # With a single branch, the sides are that branch, and nothing reads them.
    if L > 1:
        left = tl.zeros([BLOCK_Q, D], tl.float32)
        left_delta = tl.zeros([BLOCK_Q], tl.float32)
        right = tl.zeros([BLOCK_Q, D], tl.float32)
        right_delta = tl.zeros([BLOCK_Q], tl.float32)
        for branch in tl.static_range(L):
            upstream = load(
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
        store(SIDES, left, start, sides_n, N, DK, D, BLOCK_Q)
        store(SIDES + sides_l, right, start, sides_n, N, DK, D, BLOCK_Q)
        tl.store(LSE + (L * BH + bh) * N + row, smallest_left, mask=inside)
        tl.store(LSE + ((L + 1) * BH + bh) * N + row, smallest_right, mask=inside)
        tl.store(DELTA + (L * BH + bh) * N + row, left_delta, mask=inside)
        tl.store(DELTA + ((L + 1) * BH + bh) * N + row, right_delta, mask=inside)


@triton.jit
def _add_product(gradients, x, acc):
    """Return acc + gradients x, as precise as a product in single precision.

    Gradients of sharp distributions would lose too much if they were rounded to float16.
    """
    rounded = gradients.to(x.dtype)
    acc = tl.dot(rounded, x, acc, input_precision="ieee")
    if x.dtype == tl.float16:
        acc = tl.dot((gradients - rounded.to(tl.float32)).to(x.dtype), x, acc)
    return acc


@triton.jit
def _row_numbers(LSE, DELTA, entry, bh, BH, start, N, BLOCK_Q: tl.constexpr):
    """Load log-sum-exp and delta of a block of rows, of a branch or side; infinity for no row."""
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
    """Compute the gradient of a block of queries."""
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
    left_end = end_of_left(first_query, tl.load(BOUNDS), keys, BLOCK_K)
    right_start = start_of_right(last_query, tl.load(BOUNDS + 1), keys, BLOCK_K)
    q = load(Q, start_q, q_n, N, DK, D, BLOCK_Q)
    dq = tl.zeros([BLOCK_Q, D], tl.float32)

    for side in tl.static_range(2):
        if tl.load(BOUNDS + 2 + side) != 0:
            entry = L + side if L > 1 else 0
            begin = right_start if side else 0
            end = keys if side else left_end
            lse, delta = _row_numbers(LSE, DELTA, entry, bh, BH, start_q, N, BLOCK_Q)
            pointer = SIDES + side * sides_l if L > 1 else SIDES
            upstream = load(pointer, start_q, sides_n, N, DK, D, BLOCK_Q)
            for block in range(begin, end):
                start = block * BLOCK_K
                k = load(K, start, k_m, M, DK, D, BLOCK_K)
                v = load(V, start, v_m, M, DK, D, BLOCK_K)
                real = real_keys(PADDING, start, padding_m, M, PADDED, BLOCK_K)
                scores = tl.dot(q, tl.trans(k), input_precision="ieee")
                weights = tl.exp(tl.where(real[None, :], scores - lse[:, None], -INFINITY))
                dweights = tl.dot(upstream, tl.trans(v), input_precision="ieee")
                dscores = weights * (dweights - delta[:, None])
                dq = _add_product(dscores, k, dq)

    for block in range(left_end, right_start):
        start = block * BLOCK_K
        k = load(K, start, k_m, M, DK, D, BLOCK_K)
        v = load(V, start, v_m, M, DK, D, BLOCK_K)
        real = real_keys(PADDING, start, padding_m, M, PADDED, BLOCK_K)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        offset = (start + tl.arange(0, BLOCK_K))[None, :] - query[:, None]
        dscores = tl.zeros([BLOCK_Q, BLOCK_K], tl.float32)
        for branch in tl.static_range(L):
            low = tl.load(BOUNDS + HEADER + 2 * branch)
            high = tl.load(BOUNDS + HEADER + 2 * branch + 1)
            if touches(low, high, first_query, last_query, start, BLOCK_K):
                lse, delta = _row_numbers(LSE, DELTA, branch, bh, BH, start_q, N, BLOCK_Q)
                upstream = load(
                    UPSTREAM + branch * upstream_l, start_q, upstream_n, N, DK, D, BLOCK_Q
                )
                allowed = real[None, :] & (offset >= low) & (offset <= high)
                weights = tl.exp(tl.where(allowed, scores - lse[:, None], -INFINITY))
                dweights = tl.dot(upstream, tl.trans(v), input_precision="ieee")
                dscores += weights * (dweights - delta[:, None])
        dq = _add_product(dscores, k, dq)

    store(DQ, dq, start_q, dq_n, N, DK, D, BLOCK_Q)


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
    """Compute the gradients of a block of keys and of its values."""
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

    k = load(K, start, k_m, M, DK, D, BLOCK_K)
    v = load(V, start, v_m, M, DK, D, BLOCK_K)
    real = real_keys(PADDING, start, padding_m, M, PADDED, BLOCK_K)
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
                q = load(Q, start_q, q_n, N, DK, D, BLOCK_Q)
                upstream = load(pointer, start_q, sides_n, N, DK, D, BLOCK_Q)
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
        q = load(Q, start_q, q_n, N, DK, D, BLOCK_Q)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        first_query = start_q + M - N
        last_query = tl.minimum(start_q + BLOCK_Q, N) - 1 + M - N
        offset = key[None, :] - (first_query + tl.arange(0, BLOCK_Q))[:, None]
        dscores = tl.zeros([BLOCK_Q, BLOCK_K], tl.float32)
        for branch in tl.static_range(L):
            low = tl.load(BOUNDS + HEADER + 2 * branch)
            high = tl.load(BOUNDS + HEADER + 2 * branch + 1)
            if touches(low, high, first_query, last_query, start, BLOCK_K):
                lse, delta = _row_numbers(LSE, DELTA, branch, bh, BH, start_q, N, BLOCK_Q)
                upstream = load(
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

    store(DKEY, dk, start, dk_m, M, DK, D, BLOCK_K)
    store(DVALUE, dv, start, dv_m, M, DK, D, BLOCK_K)
