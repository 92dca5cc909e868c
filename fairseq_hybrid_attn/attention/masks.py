"""Where the queries of several branches may attend, as tensors that are remembered."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

import torch
from torch import Tensor

from .autograd import is_tracing
from .problem import Branch

#: The most bytes that all remembered tensors have together.
MOST_BYTES = 2**26

_T = TypeVar("_T", bound=tuple)
_remembered: dict[tuple, tuple] = {}


def remembered(make: Callable[..., _T]) -> Callable[..., _T]:
    """Remember the tensors that a function makes of hashable arguments; the oldest go first."""

    @wraps(make)
    def get(*given):
        if is_tracing():
            return make(*given)
        key = (make, *given)
        if key not in _remembered:
            with torch.inference_mode(False):
                made = make(*given)
            if _bytes(made) > MOST_BYTES // 4:
                return made
            _remembered[key] = made
            while sum(map(_bytes, list(_remembered.values()))) > MOST_BYTES:
                _remembered.pop(next(iter(_remembered)), None)
            return made
        return _remembered[key]

    return get


def _bytes(tensors: tuple) -> int:
    return sum(x.untyped_storage().nbytes() for x in tensors if x is not None)


def allowed(branches: tuple[Branch, ...], n: int, m: int, device: torch.device) -> Tensor:
    """Return where each query may attend, bool ``[1 or h, l * n, m]``, True = may attend."""
    heads = max(map(len, branches))
    masks = [
        torch.stack([pattern.mask(n, m, device=device) for pattern in branch]).expand(heads, n, m)
        for branch in branches
    ]
    return torch.cat(masks, dim=1)
