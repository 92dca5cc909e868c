"""The kernel for branch outputs and the log-sum-exps of their rows."""

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
def _gather(scores, v, top, total, acc):
    """Add a block of keys to the running maximum, sum and values of a softmax.

    Forbidden scores are minus infinity, and so is the maximum of a row without other scores.
    """
    new_top = tl.maximum(top, tl.max(scores, 1))
    base = tl.where(new_top == -INFINITY, 0.0, new_top)
    weights = tl.exp(scores - base[:, None])
    shrink = tl.exp(top - base)
    total = total * shrink + tl.sum(weights, 1)
    acc = tl.dot(weights.to(v.dtype), v, acc * shrink[:, None], input_precision="ieee")
    return new_top, total, acc


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
    """Compute outputs and log-sum-exps of all branches for a block of queries."""
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
    left_end = end_of_left(first_query, tl.load(BOUNDS), keys, BLOCK_K)
    right_start = start_of_right(last_query, tl.load(BOUNDS + 1), keys, BLOCK_K)
    q = load(Q, start_q, q_n, N, DK, D, BLOCK_Q)

    left_top = tl.full([BLOCK_Q], -INFINITY, tl.float32)
    left_total = tl.zeros([BLOCK_Q], tl.float32)
    left_acc = tl.zeros([BLOCK_Q, D], tl.float32)
    if tl.load(BOUNDS + 2) != 0:
        for block in range(0, left_end):
            start = block * BLOCK_K
            k = load(K, start, k_m, M, DK, D, BLOCK_K)
            real = real_keys(PADDING, start, padding_m, M, PADDED, BLOCK_K)
            scores = tl.dot(q, tl.trans(k), input_precision="ieee")
            scores = tl.where(real[None, :], scores, -INFINITY)
            v = load(V, start, v_m, M, DK, D, BLOCK_K)
            left_top, left_total, left_acc = _gather(scores, v, left_top, left_total, left_acc)

    right_top = tl.full([BLOCK_Q], -INFINITY, tl.float32)
    right_total = tl.zeros([BLOCK_Q], tl.float32)
    right_acc = tl.zeros([BLOCK_Q, D], tl.float32)
    if tl.load(BOUNDS + 3) != 0:
        for block in range(right_start, keys):
            start = block * BLOCK_K
            k = load(K, start, k_m, M, DK, D, BLOCK_K)
            real = real_keys(PADDING, start, padding_m, M, PADDED, BLOCK_K)
            scores = tl.dot(q, tl.trans(k), input_precision="ieee")
            scores = tl.where(real[None, :], scores, -INFINITY)
            v = load(V, start, v_m, M, DK, D, BLOCK_K)
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
        k = load(K, start, k_m, M, DK, D, BLOCK_K)
        real = real_keys(PADDING, start, padding_m, M, PADDED, BLOCK_K)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        v = load(V, start, v_m, M, DK, D, BLOCK_K)
        offset = (start + tl.arange(0, BLOCK_K))[None, :] - query[:, None]
        new_tops, new_totals, new_accs = (), (), ()
        for branch in tl.static_range(L):
            low = tl.load(BOUNDS + HEADER + 2 * branch)
            high = tl.load(BOUNDS + HEADER + 2 * branch + 1)
            top, total, acc = tops[branch], totals[branch], accs[branch]
            if touches(low, high, first_query, last_query, start, BLOCK_K):
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
        # In the backward pass, a row that sees nothing has weights e^(s - infinity) = 0.
        lse = tl.where(some, tops[branch] + tl.log(total), INFINITY)
        store(OUT + branch * out_l, out, start_q, out_n, N, DK, D, BLOCK_Q)
        if ROUNDED:
            rest = out - out.to(OUT.dtype.element_ty).to(tl.float32)
            store(REST + branch * out_l, rest, start_q, out_n, N, DK, D, BLOCK_Q)
        tl.store(LSE + (branch * BH + bh) * N + row, lse, mask=row < N)
