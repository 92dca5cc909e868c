"""Whether the kernels work on the GPU at hand: compiled, run and compared, before they are used."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from ...patterns import FUTURE, GLOBAL, PAST, local
from ..problem import AttentionProblem
from ..reference import allowed_keys, masked_softmax, scaled_scores
from .launch import Variant, solve
from .philox import DropoutDraw, kept

logger = logging.getLogger(__name__)

#: The largest error that passes, as a share of the largest number of each result.
TOLERANCE = {torch.float32: 2e-5, torch.float16: 5e-3, torch.bfloat16: 3e-2}

#: Older GPUs have no matrix units for bfloat16, and the kernels would not fit into registers.
CAPABILITY = (8, 0)


@cache
def works(device: torch.device, variant: Variant) -> bool:
    """Compile, run and compare with the definition, once for each kernel on each GPU."""
    if find_spec("triton") is None:
        return False
    try:
        capability = torch.cuda.get_device_capability(device)
        fault = "it needs compute capability 8.0" if capability < CAPABILITY else None
        fault = fault or find_fault(device, variant)
    except Exception as error:  # a compiler and a driver may raise anything
        fault = f"{type(error).__name__}: {error}"
    if fault:
        logger.warning("the fused kernel is not used on %s for %s: %s", device, variant, fault)
    return not fault


def find_fault(device: torch.device, variant: Variant) -> str | None:
    """Return what is wrong with outputs and gradients, or None."""
    for name, error in errors(device, variant).items():
        if not error <= TOLERANCE[variant.dtype]:  # also catches NaN
            return f"{name} of the self-test is off by {error:.1e} of the largest"
    return None


@torch.inference_mode(False)
@torch.enable_grad()
def errors(device: torch.device, variant: Variant) -> dict[str, float]:
    """Return the largest error of outputs and gradients, as a share of the largest number.

    Branches, heads and padding differ.
    """
    generator = torch.Generator().manual_seed(0)
    some = (GLOBAL, PAST, FUTURE, local(5), local(1))
    n, m, d_k = variant.n, variant.m, variant.d_k
    shapes = {"q": (2, 2, n, d_k), "k": (2, 2, m, d_k), "v": (2, 2, m, d_k)}
    if variant.mixed:
        shapes["mix"] = (variant.branches, 2, 1, n, 1)
    given = {
        name: torch.randn(shape, generator=generator).to(device, variant.dtype)
        for name, shape in shapes.items()
    }
    given["q"] /= d_k**0.5
    upstream = torch.randn(variant.branches, 2, 2, n, d_k, generator=generator)
    upstream = upstream[: 1 if variant.mixed else None].to(device, variant.dtype)
    padding = torch.zeros(2, m, dtype=torch.bool, device=device)
    padding[0, : m // 2] = True
    problem = AttentionProblem(
        **given,
        branches=tuple((some[i % 5], some[(i + 1) % 5]) for i in range(variant.branches)),
        key_padding=padding,
    )
    dropout = (
        DropoutDraw(seed=2**32 + 7, threshold=-(2**30), scale=4 / 3) if variant.dropout else None
    )
    results = []
    with torch.autocast(device.type, enabled=False):
        for compute, dtype in ((_definition, torch.float64), (solve, variant.dtype)):
            leaves = {name: x.to(dtype).requires_grad_() for name, x in given.items()}
            outputs = compute(replace(problem, **leaves), dropout)
            gradients = torch.autograd.grad(outputs, list(leaves.values()), upstream.to(dtype))
            with torch.no_grad():  # another kernel in half precision
                untrained = compute(replace(problem, **leaves), dropout)
            results.append([outputs, untrained, *gradients])
    names = ("output", "output without gradient", *(f"gradient of {name}" for name in given))
    return {
        name: ((got - want).abs().max() / want.abs().max()).item()
        for name, want, got in zip(names, *results, strict=True)
    }


def _definition(problem: AttentionProblem, dropout: DropoutDraw | None) -> Tensor:
    """As ``reference.py``, with a given dropout."""
    allowed = torch.stack([allowed_keys(branch, problem) for branch in problem.branches])
    weights = masked_softmax(scaled_scores(problem), allowed)
    if dropout:
        weights = weights * kept(dropout, weights.shape, weights.device) * dropout.scale
    outputs = weights @ problem.v
    return outputs if problem.mix is None else (problem.mix * outputs).sum(0, keepdim=True)
