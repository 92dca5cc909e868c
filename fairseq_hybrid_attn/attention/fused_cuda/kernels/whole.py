"""The kernels for short sentences: a program computes one head of one sentence, in one launch."""

import triton
import triton.language as tl

from .memory import (
    HEADER,
    INFINITY,
    NUMBERS,
    add_product,
    dropped,
    kept,
    load,
    real_keys,
    seen,
    store,
)


@triton.jit
def _softmax(scores, allowed):
    """Return the softmax over the allowed keys, zero in rows without any."""
    scores = tl.where(allowed, scores, -INFINITY)
    top = tl.max(scores, 1)
    weights = tl.exp(scores - tl.where(top == -INFINITY, 0.0, top)[:, None])
    total = tl.sum(weights, 1)
    return weights / tl.where(total > 0, total, 1.0)[:, None]


@triton.jit(do_not_specialize=("mix_l", "mix_b", "mix_h", "mix_n", *NUMBERS))
def whole_forward_kernel(
    Q, K, V, PADDING, BOUNDS, MIX, OUT,
    mix_l, mix_b, mix_h, mix_n, PADDED, BH, H, N, M, SEED, THRESHOLD, SCALE,
    L: tl.constexpr, DK: tl.constexpr, D: tl.constexpr, MIXED: tl.constexpr, DROPOUT: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Compute the outputs of all branches, or with ``MIXED`` their weighted sum."""
    bh = tl.program_id(0).to(tl.int64)
    b, h = bh // H, bh % H
    BOUNDS += h * (HEADER + 2 * L)
    MIX += b * mix_b + h * mix_h
    row, key = tl.arange(0, BLOCK_Q), tl.arange(0, BLOCK_K)
    q = load(Q, 0, 0, N, bh, BH, DK, D, BLOCK_Q)
    k = load(K, 0, 0, M, bh, BH, DK, D, BLOCK_K)
    v = load(V, 0, 0, M, bh, BH, DK, D, BLOCK_K)
    real = real_keys(PADDING + b * M, 0, M, PADDED, BLOCK_K)
    scores = tl.dot(q, tl.trans(k), input_precision="ieee")
    bits = kept(SEED, THRESHOLD, bh, row, key, L) if DROPOUT else row
    mixed = tl.zeros([BLOCK_Q, BLOCK_K], tl.float32)
    for branch in tl.range(0, L, num_stages=1):
        weights = _softmax(scores, seen(BOUNDS, branch, real, key, row + M - N))
        weights = dropped(weights, bits, branch, SCALE, DROPOUT)
        if MIXED:
            share = tl.load(MIX + branch * mix_l + row * mix_n, mask=row < N, other=0.0)
            mixed += share.to(tl.float32)[:, None] * weights
        else:
            out = tl.dot(weights.to(v.dtype), v, input_precision="ieee")
            store(OUT, out, branch, 0, N, bh, BH, DK, D, BLOCK_Q)
    if MIXED:
        out = tl.dot(mixed.to(v.dtype), v, input_precision="ieee")
        store(OUT, out, 0, 0, N, bh, BH, DK, D, BLOCK_Q)


@triton.jit(do_not_specialize=("mix_l", "mix_b", "mix_h", "mix_n", *NUMBERS))
def whole_backward_kernel(
    Q, K, V, PADDING, BOUNDS, MIX, UPSTREAM, DQ, DKEY, DVALUE, DMIX,
    mix_l, mix_b, mix_h, mix_n, PADDED, BH, H, N, M, SEED, THRESHOLD, SCALE,
    L: tl.constexpr, DK: tl.constexpr, D: tl.constexpr, MIXED: tl.constexpr, DROPOUT: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Compute all gradients; the weights are computed again, so nothing but q, k, v is kept."""
    bh = tl.program_id(0).to(tl.int64)
    b, h = bh // H, bh % H
    BOUNDS += h * (HEADER + 2 * L)
    MIX += b * mix_b + h * mix_h
    row, key = tl.arange(0, BLOCK_Q), tl.arange(0, BLOCK_K)
    q = load(Q, 0, 0, N, bh, BH, DK, D, BLOCK_Q)
    k = load(K, 0, 0, M, bh, BH, DK, D, BLOCK_K)
    v = load(V, 0, 0, M, bh, BH, DK, D, BLOCK_K)
    real = real_keys(PADDING + b * M, 0, M, PADDED, BLOCK_K)
    scores = tl.dot(q, tl.trans(k), input_precision="ieee")
    bits = kept(SEED, THRESHOLD, bh, row, key, L) if DROPOUT else row
    dscores = tl.zeros([BLOCK_Q, BLOCK_K], tl.float32)
    used = tl.zeros([BLOCK_Q, BLOCK_K], tl.float32)
    dv = tl.zeros([BLOCK_K, D], tl.float32)
    if MIXED:
        upstream = load(UPSTREAM, 0, 0, N, bh, BH, DK, D, BLOCK_Q)
        dused = tl.dot(upstream, tl.trans(v), input_precision="ieee")
    for branch in tl.range(0, L, num_stages=1):
        weights = _softmax(scores, seen(BOUNDS, branch, real, key, row + M - N))
        if not MIXED:
            upstream = load(UPSTREAM, branch, 0, N, bh, BH, DK, D, BLOCK_Q)
            dused = tl.dot(upstream, tl.trans(v), input_precision="ieee")
        dweights = dropped(dused, bits, branch, SCALE, DROPOUT)
        after = dropped(weights, bits, branch, SCALE, DROPOUT)
        delta = tl.sum(weights * dweights, 1)
        slopes = weights * (dweights - delta[:, None])
        if MIXED:
            share = tl.load(MIX + branch * mix_l + row * mix_n, mask=row < N, other=0.0)
            share = share.to(tl.float32)[:, None]
            place = DMIX + (branch * BH + bh) * N + row
            tl.store(place, delta.to(DMIX.dtype.element_ty), mask=row < N)
            used += share * after
            dscores += share * slopes
        else:
            dv = tl.dot(tl.trans(after.to(v.dtype)), upstream, dv, input_precision="ieee")
            dscores += slopes
    if MIXED:
        dv = tl.dot(tl.trans(used.to(v.dtype)), upstream, dv, input_precision="ieee")
    dq = add_product(dscores, k, tl.zeros([BLOCK_Q, D], tl.float32))
    dk = add_product(tl.trans(dscores), q, tl.zeros([BLOCK_K, D], tl.float32))
    store(DQ, dq, 0, 0, N, bh, BH, DK, D, BLOCK_Q)
    store(DKEY, dk, 0, 0, M, bh, BH, DK, D, BLOCK_K)
    store(DVALUE, dv, 0, 0, M, bh, BH, DK, D, BLOCK_K)
