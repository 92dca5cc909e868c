"""The kernels for gradients: first the rows, then queries, and keys with values."""

import triton
import triton.language as tl

from .memory import (
    HEADER,
    INFINITY,
    NUMBERS,
    OPEN,
    add_product,
    dropped,
    end_of_left,
    kept,
    load,
    real_keys,
    seen,
    start_of_right,
    store,
    touches,
)


@triton.jit(do_not_specialize=("BH", "H", "N"))
def rows_kernel(
    OUT, REST, UPSTREAM, BOUNDS, LSE, DELTA, SIDES,
    BH, H, N,
    L: tl.constexpr, DK: tl.constexpr, D: tl.constexpr, SHARED: tl.constexpr, ROUNDED: tl.constexpr,
    BLOCK_Q: tl.constexpr,
):  # fmt: skip
    """Compute what the backward pass needs of each row.

    For each branch: delta_l = sum of dO_l * O_l.  For each side, over the branches that see it:
    c = min lse_l, the sum of e^(c - lse_l) dO_l, and the same sum of delta_l.
    """
    blocks = tl.cdiv(N, BLOCK_Q)
    start = (tl.program_id(0) % blocks) * BLOCK_Q
    bh = (tl.program_id(0) // blocks).to(tl.int64)
    BOUNDS += bh % H * (HEADER + 2 * L) + HEADER
    row = start + tl.arange(0, BLOCK_Q)
    inside = row < N

    smallest_left = tl.full([BLOCK_Q], INFINITY, tl.float32)
    smallest_right = tl.full([BLOCK_Q], INFINITY, tl.float32)
    lses, deltas = (), ()
    for branch in tl.static_range(L):
        out = load(OUT, branch, start, N, bh, BH, DK, D, BLOCK_Q).to(tl.float32)
        if ROUNDED:
            out += load(REST, branch, start, N, bh, BH, DK, D, BLOCK_Q).to(tl.float32)
        upstream = load(UPSTREAM, branch, start, N, bh, BH, DK, D, BLOCK_Q)
        delta = tl.sum(out * upstream.to(tl.float32), 1)
        tl.store(DELTA + (branch * BH + bh) * N + row, delta, mask=inside)
        lse = tl.load(LSE + (branch * BH + bh) * N + row, mask=inside, other=INFINITY)
        if tl.load(BOUNDS + 2 * branch) <= -OPEN:
            smallest_left = tl.minimum(smallest_left, lse)
        if tl.load(BOUNDS + 2 * branch + 1) >= OPEN:
            smallest_right = tl.minimum(smallest_right, lse)
        lses = lses + (lse,)
        deltas = deltas + (delta,)

    if SHARED:
        left = tl.zeros([BLOCK_Q, D], tl.float32)
        left_delta = tl.zeros([BLOCK_Q], tl.float32)
        right = tl.zeros([BLOCK_Q, D], tl.float32)
        right_delta = tl.zeros([BLOCK_Q], tl.float32)
        for branch in tl.static_range(L):
            upstream = load(UPSTREAM, branch, start, N, bh, BH, DK, D, BLOCK_Q).to(tl.float32)
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
        store(SIDES, left, 0, start, N, bh, BH, DK, D, BLOCK_Q)
        store(SIDES, right, 1, start, N, bh, BH, DK, D, BLOCK_Q)
        tl.store(LSE + (L * BH + bh) * N + row, smallest_left, mask=inside)
        tl.store(LSE + ((L + 1) * BH + bh) * N + row, smallest_right, mask=inside)
        tl.store(DELTA + (L * BH + bh) * N + row, left_delta, mask=inside)
        tl.store(DELTA + ((L + 1) * BH + bh) * N + row, right_delta, mask=inside)


@triton.jit
def _row_numbers(LSE, DELTA, entry, bh, BH, row, N):
    """Load log-sum-exp and delta of a block of rows, of a branch or side; infinity for no row."""
    at = (entry * BH + bh) * N + row
    lse = tl.load(LSE + at, mask=row < N, other=INFINITY)
    return lse, tl.load(DELTA + at, mask=row < N, other=0.0)


@triton.jit(do_not_specialize=NUMBERS)
def query_gradient_kernel(
    Q, K, V, PADDING, BOUNDS, UPSTREAM, SIDES, LSE, DELTA, DQ,
    PADDED, BH, H, N, M, SEED, THRESHOLD, SCALE,
    L: tl.constexpr, DK: tl.constexpr, D: tl.constexpr, SHARED: tl.constexpr, DROPOUT: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Compute the gradient of a block of queries."""
    blocks = tl.cdiv(N, BLOCK_Q)
    start_q = (tl.program_id(0) % blocks) * BLOCK_Q
    bh = (tl.program_id(0) // blocks).to(tl.int64)
    PADDING += bh // H * M
    BOUNDS += bh % H * (HEADER + 2 * L)

    row = start_q + tl.arange(0, BLOCK_Q)
    first_query = start_q + M - N
    last_query = tl.minimum(start_q + BLOCK_Q, N) - 1 + M - N
    keys = tl.cdiv(M, BLOCK_K)
    left_end = end_of_left(first_query, tl.load(BOUNDS), keys, BLOCK_K)
    right_start = start_of_right(last_query, tl.load(BOUNDS + 1), keys, BLOCK_K)
    q = load(Q, 0, start_q, N, bh, BH, DK, D, BLOCK_Q)
    dq = tl.zeros([BLOCK_Q, D], tl.float32)

    if SHARED:
        for side in tl.static_range(2):
            if tl.load(BOUNDS + 2 + side) != 0:
                lse, delta = _row_numbers(LSE, DELTA, L + side, bh, BH, row, N)
                upstream = load(SIDES, side, start_q, N, bh, BH, DK, D, BLOCK_Q)
                for block in range(right_start if side else 0, keys if side else left_end):
                    start = block * BLOCK_K
                    k = load(K, 0, start, M, bh, BH, DK, D, BLOCK_K)
                    v = load(V, 0, start, M, bh, BH, DK, D, BLOCK_K)
                    real = real_keys(PADDING, start, M, PADDED, BLOCK_K)
                    scores = tl.dot(q, tl.trans(k), input_precision="ieee")
                    weights = tl.exp(tl.where(real[None, :], scores - lse[:, None], -INFINITY))
                    dweights = tl.dot(upstream, tl.trans(v), input_precision="ieee")
                    dscores = weights * (dweights - delta[:, None])
                    dq = add_product(dscores, k, dq)

    for block in tl.range(left_end, right_start, num_stages=1):  # see forward.py
        start = block * BLOCK_K
        key = start + tl.arange(0, BLOCK_K)
        k = load(K, 0, start, M, bh, BH, DK, D, BLOCK_K)
        v = load(V, 0, start, M, bh, BH, DK, D, BLOCK_K)
        real = real_keys(PADDING, start, M, PADDED, BLOCK_K)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        bits = kept(SEED, THRESHOLD, bh, row, key, L) if DROPOUT else row
        dscores = tl.zeros([BLOCK_Q, BLOCK_K], tl.float32)
        for branch in tl.range(0, L, num_stages=1):
            if L == 1 or touches(BOUNDS, branch, first_query, last_query, start, BLOCK_K):
                lse, delta = _row_numbers(LSE, DELTA, branch, bh, BH, row, N)
                upstream = load(UPSTREAM, branch, start_q, N, bh, BH, DK, D, BLOCK_Q)
                allowed = seen(BOUNDS, branch, real, key, row + M - N)
                weights = tl.exp(tl.where(allowed, scores - lse[:, None], -INFINITY))
                dweights = tl.dot(upstream, tl.trans(v), input_precision="ieee")
                dweights = dropped(dweights, bits, branch, SCALE, DROPOUT)
                dscores += weights * (dweights - delta[:, None])
        dq = add_product(dscores, k, dq)

    store(DQ, dq, 0, start_q, N, bh, BH, DK, D, BLOCK_Q)


@triton.jit(do_not_specialize=NUMBERS)
def key_gradient_kernel(
    Q, K, V, PADDING, BOUNDS, UPSTREAM, SIDES, LSE, DELTA, DKEY, DVALUE,
    PADDED, BH, H, N, M, SEED, THRESHOLD, SCALE,
    L: tl.constexpr, DK: tl.constexpr, D: tl.constexpr, SHARED: tl.constexpr, DROPOUT: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of a block of keys and of its values."""
    blocks = tl.cdiv(M, BLOCK_K)
    start = (tl.program_id(0) % blocks) * BLOCK_K
    bh = (tl.program_id(0) // blocks).to(tl.int64)
    PADDING += bh // H * M
    BOUNDS += bh % H * (HEADER + 2 * L)

    k = load(K, 0, start, M, bh, BH, DK, D, BLOCK_K)
    v = load(V, 0, start, M, bh, BH, DK, D, BLOCK_K)
    real = real_keys(PADDING, start, M, PADDED, BLOCK_K)
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

    if SHARED:
        for side in tl.static_range(2):
            if tl.load(BOUNDS + 2 + side) != 0:
                for block in range(0 if side else left_start, right_end if side else queries):
                    start_q = block * BLOCK_Q
                    row = start_q + tl.arange(0, BLOCK_Q)
                    q = load(Q, 0, start_q, N, bh, BH, DK, D, BLOCK_Q)
                    upstream = load(SIDES, side, start_q, N, bh, BH, DK, D, BLOCK_Q)
                    lse, delta = _row_numbers(LSE, DELTA, L + side, bh, BH, row, N)
                    scores = tl.dot(q, tl.trans(k), input_precision="ieee")
                    weights = tl.exp(tl.where(real[None, :], scores - lse[:, None], -INFINITY))
                    dv = tl.dot(tl.trans(weights.to(v.dtype)), upstream, dv, input_precision="ieee")
                    dweights = tl.dot(upstream, tl.trans(v), input_precision="ieee")
                    dscores = weights * (dweights - delta[:, None])
                    dk = add_product(tl.trans(dscores), q, dk)

    for block in tl.range(right_end, left_start, num_stages=1):  # see forward.py
        start_q = block * BLOCK_Q
        row = start_q + tl.arange(0, BLOCK_Q)
        q = load(Q, 0, start_q, N, bh, BH, DK, D, BLOCK_Q)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        bits = kept(SEED, THRESHOLD, bh, row, key, L) if DROPOUT else row
        first_query = start_q + M - N
        last_query = tl.minimum(start_q + BLOCK_Q, N) - 1 + M - N
        dscores = tl.zeros([BLOCK_Q, BLOCK_K], tl.float32)
        for branch in tl.range(0, L, num_stages=1):
            if L == 1 or touches(BOUNDS, branch, first_query, last_query, start, BLOCK_K):
                lse, delta = _row_numbers(LSE, DELTA, branch, bh, BH, row, N)
                upstream = load(UPSTREAM, branch, start_q, N, bh, BH, DK, D, BLOCK_Q)
                allowed = seen(BOUNDS, branch, real, key, row + M - N)
                weights = tl.exp(tl.where(allowed, scores - lse[:, None], -INFINITY))
                used = dropped(weights, bits, branch, SCALE, DROPOUT)
                dv = tl.dot(tl.trans(used.to(v.dtype)), upstream, dv, input_precision="ieee")
                dweights = tl.dot(upstream, tl.trans(v), input_precision="ieee")
                dweights = dropped(dweights, bits, branch, SCALE, DROPOUT)
                dscores += weights * (dweights - delta[:, None])
        dk = add_product(tl.trans(dscores), q, dk)

    store(DKEY, dk, 0, start, M, bh, BH, DK, D, BLOCK_K)
    store(DVALUE, dv, 0, start, M, bh, BH, DK, D, BLOCK_K)
