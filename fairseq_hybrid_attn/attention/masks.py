"""Where the queries of several branches may attend, as tensors that are remembered."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from ..devices import is_cpu, is_tracing
from ..patterns import GLOBAL, Pattern
from .problem import AttentionProblem, Branch

#: The most bytes that all remembered tensors have together.
MOST_BYTES = 2**26

#: Rows of a mask begin at multiples of this many numbers; else PyTorch copies it at each call.
ALIGNMENT = 16

_T = TypeVar("_T", bound=tuple)
_remembered: dict[tuple, tuple] = {}


def remembered(make: Callable[..., _T]) -> Callable[..., _T]:
    """Remember the tensors that a function makes of hashable arguments; the oldest go first."""

    @wraps(make)
    def get(*given):
        if is_tracing():
            return make(*given)
        key = (make, *given)
        made = _remembered.get(key)
        if made is None:
            with torch.inference_mode(False):
                made = make(*given)
            if _bytes(made) > MOST_BYTES // 4:
                return made
            _remembered[key] = made
            while sum(map(_bytes, list(_remembered.values()))) > MOST_BYTES:
                _remembered.pop([*_remembered][0], None)
        return made

    return get


def _bytes(tensors: tuple) -> int:
    return sum(x.untyped_storage().nbytes() for x in tensors if x is not None)


class Masks(NamedTuple):
    """What forbids keys, in patterns and padding together.

    Attributes:
        added: added to the scores, 0 or minus infinity, ``[1 or b, 1 or h, 1 or l * n, m ..]``; the
            first m columns count.  None = nothing is forbidden.  A query without any key has
            a row of zeros, since a row of minus infinities may become NaN.
        sees: False for queries without any key, ``[1 or b, 1 or h, 1 or l * n, 1]``; None = every
            query sees a key.
    """

    added: Tensor | None
    sees: Tensor | None


def make_masks(problem: AttentionProblem, dtype: torch.dtype) -> Masks:
    """Make the masks of a problem, in the type of its scores.

    The layers of a forward pass have the same padding, so they share what is made of it.
    Nothing is read from a GPU, whose host would wait.
    """
    branches, padding, device = problem.branches, problem.key_padding, problem.q.device
    n, m = problem.q.size(2), problem.k.size(2)
    if padding is None:
        return _unpadded(branches, n, m, dtype, device)
    captured = device.type == "cuda" and torch.cuda.is_current_stream_capturing()
    if is_tracing() or captured or (padding.is_inference() and not is_cpu(device)):
        return _padded(branches, n, m, padding, dtype)
    global _last
    last = _last
    with torch.inference_mode(False):
        if last is None or not last.is_of(padding):
            last = _last = _Made(padding)
        key = (branches, n, m, dtype)
        if key not in last.masks:
            last.masks[key] = _padded(branches, n, m, padding, dtype)
        return last.masks[key]


class _Made:
    """The masks made of a padding: on a CPU known by its content, else as the very tensor."""

    def __init__(self, padding: Tensor):
        self.content = padding.clone() if is_cpu(padding.device) else None
        self.tensor = weakref.ref(padding)
        self.version = None if self.content is not None else padding._version
        self.masks: dict[tuple, Masks] = {}

    def is_of(self, padding: Tensor) -> bool:
        if is_cpu(padding.device):
            return self.content is not None and self.content.equal(padding)
        return self.tensor() is padding and self.version == padding._version


_last: _Made | None = None


def _padded(branches, n, m, padding, dtype) -> Masks:
    real = ~padding[:, None, None]  # [b, 1, 1, m]
    if not _global(branches):
        real = real & _patterns(branches, n, m, padding.device)[0]
    return _as_masks(real, dtype)


@remembered
def _unpadded(branches, n, m, dtype, device) -> Masks:
    if _global(branches):
        return Masks(None, None)
    added, sees = _as_masks(_patterns(branches, n, m, device)[0], dtype)
    all_see = not is_tracing() and all(_sees_itself(x) for branch in branches for x in branch)
    return Masks(added, None if all_see else sees)


@remembered
def _patterns(branches, n, m, device) -> tuple[Tensor]:
    """Where each query may attend, bool ``[1, 1 or h, l * n, m]``."""
    heads = max(map(len, branches))
    masks = [
        torch.stack([pattern.mask(n, m, device=device) for pattern in branch]).expand(heads, n, m)
        for branch in branches
    ]
    return (torch.cat(masks, dim=1).unsqueeze(0),)


def _global(branches: tuple[Branch, ...]) -> bool:
    return all(pattern == GLOBAL for branch in branches for pattern in branch)


@lru_cache(maxsize=256)
def _sees_itself(pattern: Pattern) -> bool:
    return bool(pattern.mask(1, 1, device=torch.device("cpu")))


def _as_masks(allowed: Tensor, dtype: torch.dtype) -> Masks:
    sees = allowed.any(dim=-1, keepdim=True)
    m = allowed.size(-1)
    # Always more than m: were it sometimes equal, a compiler would make two cases of it.
    columns = m if is_tracing() else (m // ALIGNMENT + 1) * ALIGNMENT
    added = torch.zeros(*allowed.shape[:-1], columns, dtype=dtype, device=allowed.device)
    (added if is_tracing() else added[..., :m]).masked_fill_(~allowed & sees, -torch.inf)
    return Masks(added, sees)
