"""All branches in one call of PyTorch's attention (way ``sdpa``): on GPUs, and over long sentences.

The branches share keys and values, so their queries are one long list, l times n of them, each with
its own row of the mask.  PyTorch's kernels keep no matrix of weights (on CPUs, without dropout).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..devices import is_tracing
from .masks import make_masks
from .problem import AttentionProblem, AttentionResult

#: cuDNN's attention is left out: it is planned anew for each length, and sentences have many.
KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def sdpa(problem: AttentionProblem) -> AttentionResult:
    """Compute ``problem``, which needs no weights."""
    l, n, m = len(problem.branches), problem.q.size(2), problem.k.size(2)  # noqa: E741
    added, sees = make_masks(problem, problem.q.dtype)
    if added is not None and added.size(-1) > m:
        added = added[..., :m]
    if problem.bias is not None:
        added = _with_bias(added, problem.bias, l, n, problem.q.dtype)
    q = problem.q.unsqueeze(2).expand(-1, -1, l, -1, -1).flatten(2, 3)  # [b, h, l * n, d_k]
    with _kernels(q.device):
        outputs = F.scaled_dot_product_attention(
            q, problem.k, problem.v, attn_mask=added, dropout_p=problem.dropout, scale=1.0
        )
    if sees is not None:
        outputs = outputs * sees
    outputs = outputs.unflatten(2, (l, n)).permute(2, 0, 1, 3, 4)  # [l, b, h, n, d_k]
    if problem.mix is not None:
        outputs = (problem.mix * outputs).sum(dim=0, keepdim=True).to(outputs.dtype)
    return AttentionResult(outputs=outputs)


@contextmanager
def _without_cudnn() -> Iterator[None]:
    """As ``sdpa_kernel(KERNELS)``, in a twentieth of its time."""
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


def _kernels(device: torch.device) -> AbstractContextManager:
    if device.type != "cuda":
        return nullcontext()
    return sdpa_kernel(KERNELS) if is_tracing() else _without_cudnn()


def _with_bias(added: Tensor | None, bias: Tensor, l: int, n: int, dtype: torch.dtype) -> Tensor:  # noqa: E741
    """Add the bias of ``[b, h, n, m]`` to the masks of each branch, in the model's precision."""
    if dtype == torch.float16:  # whose range is small; a row of minus infinities would be NaN
        bias = bias.clamp(min=torch.finfo(dtype).min / 2)
    bias = bias.to(dtype).expand(-1, -1, n, -1)
    bias = bias.repeat(1, 1, l, 1)
    return bias if added is None else bias + added
