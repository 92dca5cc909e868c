"""All branches in one call of PyTorch's attention (way ``sdpa``): on GPUs, and over long sentences.

The branches share keys and values, so their queries are one long list, l times n of them, each with
its own row of the mask.  PyTorch's kernels keep no matrix of weights (on CPUs, without dropout).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from .autograd import watched
from .problem import AttentionProblem, AttentionResult, Branch

#: cuDNN's attention is left out: it is planned anew for each length, and sentences have many.
KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]

#: Rows of a mask begin at multiples of this many numbers; else PyTorch copies it at each call.
ALIGNMENT = 16

#: The largest mask that is cached, in elements; 128 of them are 64 MB in half precision.
LARGEST_CACHED_MASK = 2**18

#: The masks of this forward pass with padding, and large ones without; see :func:`shared_masks`.
_SHARED: ContextVar[dict] = ContextVar("shared masks")


def sdpa(problem: AttentionProblem) -> AttentionResult:
    """Compute ``problem``, which has no bias and needs no weights."""
    l, n = len(problem.branches), problem.q.size(2)  # noqa: E741
    mask, sees = _mask(problem)
    q = problem.q.unsqueeze(2).expand(-1, -1, l, -1, -1).flatten(2, 3)  # [b, h, l * n, d_k]
    with sdpa_kernel(KERNELS) if q.is_cuda else nullcontext():
        outputs = F.scaled_dot_product_attention(
            q, problem.k, problem.v, attn_mask=mask, dropout_p=problem.dropout, scale=1.0
        )
    if sees is not None:
        outputs = outputs * sees
    outputs = outputs.unflatten(2, (l, n)).permute(2, 0, 1, 3, 4)  # [l, b, h, n, d_k]
    if problem.mix is not None:
        outputs = (problem.mix * outputs).sum(dim=0, keepdim=True).to(outputs.dtype)
    return AttentionResult(outputs=outputs)


def able(problem: AttentionProblem) -> bool:
    """Whether this way can compute ``problem``."""
    if problem.bias is not None or problem.need_weights:
        return False
    return watched() or problem.q.numel() > 0


@contextmanager
def shared_masks() -> Iterator[None]:
    """Make a large mask, or that of a padding, once for all layers that get the same padding."""
    token = _SHARED.set({})
    try:
        yield
    finally:
        _SHARED.reset(token)


def _mask(problem: AttentionProblem) -> tuple[Tensor | None, Tensor | None]:
    """Return what is added to the scores, and 0 for queries without keys, else 1.

    Returns:
        ``[1 or b, 1 or h, l * n, m]``, None = nothing is forbidden; ``[1 or b, 1 or h, l * n, 1]``,
        None = every query sees a key.
    """
    n, m, padding = problem.q.size(2), problem.k.size(2), problem.key_padding
    patterns = (problem.branches, n, m, problem.q.device)
    if watched() or type(problem.q) is not Tensor:  # plain operations; nothing to keep
        allowed = _allowed.__wrapped__(*patterns)
        if padding is not None:
            allowed = allowed & ~padding[:, None, None]
        return _added(allowed, problem.q.dtype)
    heads, l = max(map(len, problem.branches)), len(problem.branches)  # noqa: E741
    small = heads * l * n * m <= LARGEST_CACHED_MASK
    if padding is None:
        if small:
            return _unpadded(*patterns, problem.q.dtype)
        inferred, version = False, 0
    else:
        inferred = torch.is_inference_mode_enabled() or padding.is_inference()  # no gradients later
        version = 0 if inferred else padding._version
    shared = {} if inferred else _SHARED.get({})
    key = (id(padding), version, *patterns, problem.q.dtype)
    if key not in shared:
        if padding is None:
            added = _unpadded.__wrapped__(*patterns, problem.q.dtype)
        else:
            allowed = (_allowed if small else _allowed.__wrapped__)(*patterns)
            added = _added(allowed & ~padding[:, None, None], problem.q.dtype)
        shared[key] = padding, added  # the tensor stays, so that no other gets its id
    return shared[key][1]


@lru_cache(maxsize=128)
@torch.inference_mode(False)
def _unpadded(
    branches: tuple[Branch, ...], n: int, m: int, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor | None, Tensor | None]:
    """:func:`_mask` without padding."""
    allowed = _allowed.__wrapped__(branches, n, m, device)
    if allowed.all():
        return None, None
    added, sees = _added(allowed, dtype)
    return added, sees if (~allowed).all(dim=-1).any() else None


@lru_cache(maxsize=128)
@torch.inference_mode(False)
def _allowed(branches: tuple[Branch, ...], n: int, m: int, device: torch.device) -> Tensor:
    """Return where each query of each branch may attend, bool ``[1, 1 or h, l * n, m]``."""
    heads = max(map(len, branches))
    masks = [
        torch.stack([pattern.mask(n, m, device=device) for pattern in branch]).expand(heads, n, m)
        for branch in branches
    ]
    return torch.cat(masks, dim=1).unsqueeze(0)


def _added(allowed: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return minus infinity for forbidden keys, and whether a query sees any key.

    A query without keys gets a row of zeros, since a row of minus infinities may become NaN.
    """
    sees = allowed.any(dim=-1, keepdim=True)
    m = allowed.size(-1)
    aligned = m if watched() else -(-m // ALIGNMENT) * ALIGNMENT
    added = torch.zeros(*allowed.shape[:-1], aligned, dtype=dtype, device=allowed.device)[..., :m]
    return added.masked_fill_(~allowed & sees, -torch.inf), sees
