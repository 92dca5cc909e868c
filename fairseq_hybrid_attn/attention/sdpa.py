"""All branches in one call of PyTorch's attention (way ``sdpa``): on GPUs, and over long sentences.

The branches share keys and values, so their queries are one long list, l times n of them, each with
its own row of the mask.  PyTorch's kernels keep no matrix of weights (on CPUs, without dropout).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..patterns import GLOBAL, Pattern
from .autograd import is_tracing
from .masks import allowed, remembered
from .problem import AttentionProblem, AttentionResult, Branch, Masks

#: cuDNN's attention is left out: it is planned anew for each length, and sentences have many.
KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]

#: Rows of a mask begin at multiples of this many numbers; else PyTorch copies it at each call.
ALIGNMENT = 16


def sdpa(problem: AttentionProblem) -> AttentionResult:
    """Compute ``problem``, which needs no weights."""
    l, n, m = len(problem.branches), problem.q.size(2), problem.k.size(2)  # noqa: E741
    _, added, sees = problem.masks or make_masks(
        problem.branches, n, m, problem.key_padding, problem.q.dtype, problem.q.device
    )
    if added is not None and added.size(-1) > m:
        added = added[..., :m]
    if problem.bias is not None:
        added = _with_bias(added, problem.bias, l, n, problem.q.dtype)
    q = problem.q.unsqueeze(2).expand(-1, -1, l, -1, -1).flatten(2, 3)  # [b, h, l * n, d_k]
    outputs = F.scaled_dot_product_attention(
        q, problem.k, problem.v, attn_mask=added, dropout_p=problem.dropout, scale=1.0
    )
    if sees is not None:
        outputs = outputs * sees
    outputs = outputs.unflatten(2, (l, n)).permute(2, 0, 1, 3, 4)  # [l, b, h, n, d_k]
    if problem.mix is not None:
        outputs = (problem.mix * outputs).sum(dim=0, keepdim=True).to(outputs.dtype)
    return AttentionResult(outputs=outputs)


def kernels_for(device: torch.device) -> AbstractContextManager:
    """Choose among PyTorch's kernels, for a whole forward pass."""
    return sdpa_kernel(KERNELS) if device.type == "cuda" else nullcontext()


def supports(problem: AttentionProblem) -> bool:
    """Whether this way can compute ``problem``."""
    return not problem.need_weights and (is_tracing() or problem.q.numel() > 0)


def make_masks(
    branches: tuple[Branch, ...],
    n: int,
    m: int,
    padding: Tensor | None,
    dtype: torch.dtype,
    device: torch.device,
) -> Masks:
    """Make the masks of ``branches``, the queries being the last n of m positions.

    Nothing is read from ``device``, which would make a GPU's host wait.
    """
    if padding is None:
        return Masks(None, *_unpadded(branches, n, m, dtype, device))
    real = ~padding[:, None, None]  # [b, 1, 1, m]
    if not _global(branches):
        real = real & _allowed(branches, n, m, device)[0]
    return Masks(padding, *_added(real, dtype))


@remembered
def _unpadded(branches, n, m, dtype, device) -> tuple[Tensor | None, Tensor | None]:
    if _global(branches):
        return None, None
    added, sees = _added(_allowed(branches, n, m, device)[0], dtype)
    all_see = not is_tracing() and all(_sees_itself(x) for branch in branches for x in branch)
    return added, None if all_see else sees


@remembered
def _allowed(branches, n, m, device) -> tuple[Tensor]:
    """``[1, 1 or h, l * n, m]``."""
    return (allowed(branches, n, m, device).unsqueeze(0),)


def _global(branches: tuple[Branch, ...]) -> bool:
    return all(pattern == GLOBAL for branch in branches for pattern in branch)


@lru_cache(maxsize=256)
def _sees_itself(pattern: Pattern) -> bool:
    return bool(pattern.mask(1, 1, device=torch.device("cpu")))


def _added(allowed: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return ``added`` and ``sees`` of :class:`Masks`."""
    sees = allowed.any(dim=-1, keepdim=True)
    m = allowed.size(-1)
    # Always more than m: were it sometimes equal, a compiler would make two cases of it.
    columns = m if is_tracing() else (m // ALIGNMENT + 1) * ALIGNMENT
    added = torch.zeros(*allowed.shape[:-1], columns, dtype=dtype, device=allowed.device)
    (added if is_tracing() else added[..., :m]).masked_fill_(~allowed & sees, -torch.inf)
    return added, sees


def _with_bias(added: Tensor | None, bias: Tensor, l: int, n: int, dtype: torch.dtype) -> Tensor:  # noqa: E741
    """Add the bias of ``[b, h, n, m]`` to the masks of each branch, in the model's precision."""
    if dtype == torch.float16:  # whose range is small; a row of minus infinities would be NaN
        bias = bias.clamp(min=torch.finfo(dtype).min / 2)
    bias = bias.to(dtype).expand(-1, -1, n, -1)
    bias = bias.repeat(1, 1, l, 1)
    return bias if added is None else bias + added
