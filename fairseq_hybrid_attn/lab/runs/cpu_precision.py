"""The precision in which this CPU trains faster, by a trial of a few steps."""

from __future__ import annotations

import threading
import time
from functools import cache

import torch
from torch import nn

from ...cross_entropy import SmoothedCrossEntropy, has_bfloat16

#: Criteria that take ``--cpu-bf16``.
CRITERIA = (
    "fused_label_smoothed_cross_entropy",
    "label_smoothed_cross_entropy_with_supervised_attention",
)

_ONE_TRIAL = threading.Lock()  # runs side by side ask at the same time


def cpu_precision() -> str:
    """Return bf16 if this CPU has its instructions and gains by them; else fp32."""
    with _ONE_TRIAL:
        return _tried()


@cache
def _tried() -> str:
    faster = has_bfloat16() and _seconds(bfloat16=True) < 0.9 * _seconds(bfloat16=False)
    return "bf16" if faster else "fp32"


def _seconds(bfloat16: bool) -> float:
    """Time the fastest of some steps of a feed-forward block and an output layer."""
    layers = nn.Sequential(
        nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 128), nn.Linear(128, 8000)
    )
    inputs, target = torch.randn(1024, 128), torch.randint(4, 8000, (1024,))
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            losses, _ = SmoothedCrossEntropy.apply(layers(inputs), target, 0.1, 1)
        losses.sum().backward()
        seconds.append(time.perf_counter() - started)
    return min(seconds)
