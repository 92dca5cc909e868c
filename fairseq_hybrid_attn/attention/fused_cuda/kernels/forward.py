"""The kernel for branch outputs and the log-sum-exps of their rows."""

import triton
import triton.language as tl

from .memory import (
    HEADER,
    INFINITY,
    NUMBERS,
    OPEN,
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


@triton.jit
def _gather(scores, v, top, total, acc, bits, branch, SCALE, DROPOUT: tl.constexpr):
    """Add a block of keys to the running maximum, sum and values of a softmax.

    Forbidden scores are minus infinity, and so is the maximum of a row without other scores.
    """
    new_top = tl.maximum(top, tl.max(scores, 1))
    base = tl.where(new_top == -INFINITY, 0.0, new_top)
    weights = tl.exp(scores - base[:, None])
    shrink = tl.exp(top - base)
    total = total * shrink + tl.sum(weights, 1)
    used = dropped(weights, bits, branch, SCALE, DROPOUT)
    acc = tl.dot(used.to(v.dtype), v, acc * shrink[:, None], input_precision="ieee")
    return new_top, total, acc


@triton.jit(do_not_specialize=NUMBERS)
def forward_kernel(
    Q, K, V, PADDING, BOUNDS, OUT, REST, LSE,
    PADDED, BH, H, N, M, SEED, THRESHOLD, SCALE,
    L: tl.constexpr, DK: tl.constexpr, D: tl.constexpr, SHARED: tl.constexpr, DROPOUT: tl.constexpr,
    ROUNDED: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Compute outputs and log-sum-exps of all branches for a block of queries."""
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

    # Every branch starts from the sides that it sees.
    tops, totals, accs = (), (), ()
    for _ in tl.static_range(L):
        tops = tops + (tl.full([BLOCK_Q], -INFINITY, tl.float32),)
        totals = totals + (tl.zeros([BLOCK_Q], tl.float32),)
        accs = accs + (tl.zeros([BLOCK_Q, D], tl.float32),)
    if SHARED:
        for side in tl.static_range(2):
            top = tl.full([BLOCK_Q], -INFINITY, tl.float32)
            total = tl.zeros([BLOCK_Q], tl.float32)
            acc = tl.zeros([BLOCK_Q, D], tl.float32)
            if tl.load(BOUNDS + 2 + side) != 0:
                for block in range(right_start if side else 0, keys if side else left_end):
                    start = block * BLOCK_K
                    k = load(K, 0, start, M, bh, BH, DK, D, BLOCK_K)
                    real = real_keys(PADDING, start, M, PADDED, BLOCK_K)
                    scores = tl.dot(q, tl.trans(k), input_precision="ieee")
                    scores = tl.where(real[None, :], scores, -INFINITY)
                    v = load(V, 0, start, M, bh, BH, DK, D, BLOCK_K)
                    top, total, acc = _gather(scores, v, top, total, acc, row, 0, SCALE, False)
            new_tops, new_totals, new_accs = (), (), ()
            for branch in tl.static_range(L):
                bound = tl.load(BOUNDS + HEADER + 2 * branch + side)
                there = tl.where(bound >= OPEN if side else bound <= -OPEN, top, -INFINITY)
                new_top = tl.maximum(tops[branch], there)
                base = tl.where(new_top == -INFINITY, 0.0, new_top)
                old, new = tl.exp(tops[branch] - base), tl.exp(there - base)
                new_tops = new_tops + (new_top,)
                new_totals = new_totals + (totals[branch] * old + total * new,)
                new_accs = new_accs + (accs[branch] * old[:, None] + acc * new[:, None],)
            tops, totals, accs = new_tops, new_totals, new_accs

    # Triton 3.4 to 3.6 cannot compile this loop with loads ahead for capability 9.0.
    for block in tl.range(left_end, right_start, num_stages=1):
        start = block * BLOCK_K
        key = start + tl.arange(0, BLOCK_K)
        k = load(K, 0, start, M, bh, BH, DK, D, BLOCK_K)
        real = real_keys(PADDING, start, M, PADDED, BLOCK_K)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        v = load(V, 0, start, M, bh, BH, DK, D, BLOCK_K)
        bits = kept(SEED, THRESHOLD, bh, row, key, L) if DROPOUT else row
        new_tops, new_totals, new_accs = (), (), ()
        for branch in tl.static_range(L):
            top, total, acc = tops[branch], totals[branch], accs[branch]
            if L == 1 or touches(BOUNDS, branch, first_query, last_query, start, BLOCK_K):
                allowed = seen(BOUNDS, branch, real, key, row + M - N)
                masked = tl.where(allowed, scores, -INFINITY)
                top, total, acc = _gather(masked, v, top, total, acc, bits, branch, SCALE, DROPOUT)
            new_tops = new_tops + (top,)
            new_totals = new_totals + (total,)
            new_accs = new_accs + (acc,)
        tops, totals, accs = new_tops, new_totals, new_accs

    for branch in tl.static_range(L):
        some = totals[branch] > 0
        total = tl.where(some, totals[branch], 1.0)
        out = tl.where(some[:, None], accs[branch] / total[:, None], 0.0)
        # In the backward pass, a row that sees nothing has weights e^(s - infinity) = 0.
        lse = tl.where(some, tops[branch] + tl.log(total), INFINITY)
        store(OUT, out, branch, start_q, N, bh, BH, DK, D, BLOCK_Q)
        if ROUNDED:
            rest = out - out.to(OUT.dtype.element_ty).to(tl.float32)
            store(REST, rest, branch, start_q, N, bh, BH, DK, D, BLOCK_Q)
        tl.store(LSE + (branch * BH + bh) * N + row, lse, mask=row < N)
