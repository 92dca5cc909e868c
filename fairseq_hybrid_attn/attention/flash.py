"""PyTorch's private CPU attention kernel, which also returns the log-sum-exp of each row.

``scaled_dot_product_attention`` does not return the log-sum-exp, so :mod:`.regions` needs the
kernel behind it.  Only this file calls it.  A private kernel may change with any version.  It is
therefore used only after :func:`available` has compared it with plain arithmetic in this process.

Shape letters as in ``problem.py``; n and m are those of the call.
"""

from __future__ import annotations

import functools
import logging

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

#: Set to False to avoid the private kernel, as if its self-test had failed.
ENABLED = True


def forward(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return softmax(q k^T + bias) v, and the log-sum-exps of the softmax.

    Args:
        q: ``[b, h, n, d_k]``, scaled.
        k, v: ``[b, h, m, d_k]``.
        causal: query i sees keys j <= i only; n = m.
        bias: broadcastable to ``[b, h, n, m]``; minus infinity = may not attend.

    Returns:
        outputs ``[b, h, n, d_k]`` and log-sum-exps ``[b, h, n]``.  For a row that may not
        attend to any key, the output is 0 and the *log-sum-exp is 0 as well*: the caller must
        know these rows.
    """
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, 0.0, causal, attn_mask=bias, scale=1.0
    )


def backward(
    grad: Tensor,
    output: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lse: Tensor,
    *,
    causal: bool = False,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of q, k and v.

    Args:
        grad: gradient of the outputs, ``[b, h, n, d_k]``.
        output: from :func:`forward`; from :func:`stand_in` if the log-sum-exps were used too.
        lse: log-sum-exps from :func:`forward`.
    """
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad, q, k, v, output, lse, 0.0, causal, attn_mask=bias, scale=1.0
    )


def stand_in(grad: Tensor, delta: Tensor) -> Tensor:
    """Return what to pass to :func:`backward` as the output if the log-sum-exp was used too.

    The gradient of a score is p_ij (grad_i . v_j - delta_i).  The kernel assumes that delta_i is
    grad_i . output_i, which is correct if only the output was used.  For any other delta, it gets
    another output: the multiple of grad_i whose product with grad_i is delta_i.  The terms of
    that product have the same sign, so rounding loses nothing.

    Args:
        grad: gradient of the outputs, ``[b, h, n, d_k]``; *is changed* by up to 1e-12 of delta in
            rows smaller than that.  If branches cancel, grad may vanish but delta may not, and no
            multiple of 0 is delta.
        delta: ``[b, h, n]``.
    """
    smallest = 1e-15  # single precision still holds its square to full precision
    size = torch.linalg.vector_norm(grad, dim=-1)  # [b, h, n]
    speck = (delta.abs() * 1e-12).clamp_min_(smallest)
    faint = size < speck
    if faint.any():
        # Where delta is 0, nothing has to be added, and the multiple is 0.
        speck = speck.masked_fill_(~faint | (delta == 0), 0)
        grad[..., 0] += speck
        size = torch.linalg.vector_norm(grad, dim=-1).clamp_min_(smallest)
    return grad * (delta / size / size).unsqueeze(-1)


def available(tensor: Tensor) -> bool:
    """Whether the kernel may be used for tensors like this one."""
    return (
        ENABLED
        and tensor.device.type == "cpu"
        and tensor.dtype in (torch.float32, torch.float64)
        and _passes_its_test(tensor.dtype)
    )


@functools.cache
def _passes_its_test(dtype: torch.dtype) -> bool:
    """Compare the kernel with plain arithmetic, once per process."""
    try:
        fault = _fault(dtype)
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:
        fault = f"{type(error).__name__}: {error}"
    if fault:
        logger.warning(
            "PyTorch %s's attention kernel for the CPU is not as expected (%s); attention to "
            "long sentences is computed without it, which is slower",
            torch.__version__,
            fault,
        )
    return not fault


def _fault(dtype: torch.dtype) -> str | None:
    """Return what is wrong with the kernel, or None.

    The test has two blocks of keys (512 each as of PyTorch 2.13); padding fills a whole block on
    either side.
    """
    generator = torch.Generator().manual_seed(0)
    n = 530
    bias = torch.zeros(2, 1, 1, n, dtype=dtype)
    bias[0, ..., :515] = -torch.inf
    bias[1, ..., 500:] = -torch.inf
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        # In the memory layout of a projection: positions first, heads side by side.
        q, k, v, grad = (
            torch.randn(n, 2, 8, generator=generator, dtype=torch.float64)
            .to(dtype)
            .view(n, 2, 2, 4)
            .permute(1, 2, 0, 3)
            for _ in range(4)
        )
        used = torch.randn(2, 2, n, generator=generator, dtype=torch.float64).to(dtype)
        for causal in (False, True):
            output, lse = forward(q, k, v, causal=causal, bias=bias)
            scores = q.double() @ k.double().mT + bias.double()
            if causal:
                scores = scores.masked_fill(torch.ones(n, n).triu_(1).bool(), -torch.inf)
            seen = (scores != -torch.inf).any(-1)
            weights = scores.softmax(-1).masked_fill(~seen.unsqueeze(-1), 0)
            gathered = weights @ v.double()
            delta = (grad.double() * gathered).sum(-1) - used
            slopes = weights * (grad.double() @ v.double().mT - delta.unsqueeze(-1))
            slopes = slopes.masked_fill(~seen.unsqueeze(-1), 0)
            wanted = (
                gathered,
                scores.logsumexp(-1).masked_fill(~seen, 0),
                slopes @ k.double(),
                slopes.mT @ q.double(),
                weights.mT @ grad.double(),
            )
            given = backward(
                grad, stand_in(grad, delta.to(dtype)), q, k, v, lse, causal=causal, bias=bias
            )
            for name, got, want in zip(
                ("output", "log-sum-exp", "gradient of q", "gradient of k", "gradient of v"),
                (output, lse, *given),
                wanted,
                strict=True,
            ):
                bound = 2e-5 if dtype == torch.float32 else 1e-10
                error = (got.double() - want).abs().max() / want.abs().max().clamp_min(1)
                if not error <= bound:  # also catches NaN
                    return f"{name}{' under a causal mask' if causal else ''} is off by {error:.1e}"
    return None
