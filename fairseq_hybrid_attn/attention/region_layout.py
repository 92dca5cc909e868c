"""How the path :mod:`.regions` cuts the score matrix into regions, and what each of them computes.

Shape letters as in ``problem.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.linalg import vecdot

from ..patterns import FUTURE, GLOBAL, PAST, Band, Pattern, sees_itself
from . import flash
from .banded import Blocks

#: The kernel reads keys in whole blocks of 512, so a causal mask saves nothing with 512 keys or
#: fewer.  Sentences shorter than UNDIVIDED are therefore cut into rectangles, and squares of about
#: STEP along the diagonal.
STEP = 256
UNDIVIDED = 3072


def known(pattern: Pattern) -> bool:
    """Whether ``pattern`` is a union of these regions."""
    if pattern in (GLOBAL, PAST, FUTURE):
        return True
    limited = isinstance(pattern, Band) and None not in (pattern.behind, pattern.ahead)
    return limited and sees_itself(pattern)


@dataclass(frozen=True)
class Layout:
    """What to compute.

    Attributes:
        layers: regions; those of one layer have no query in common.
        members: the indices of the layers that make up each branch.
    """

    layers: tuple[Layer, ...]
    members: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, branches: tuple[Band, ...], n: int) -> Layout:
        """Lay out sentences of n positions."""
        past, ahead = _halves(n)
        whole, future = past + ahead, [(Own(0, n, 0, n),), *ahead]
        # If no other branch needs a part of a region, the region is one call.
        if PAST not in branches and FUTURE not in branches:
            whole = [(Rectangle(0, n, 0, n),)]
        if PAST not in branches and GLOBAL not in branches:
            future = [(Ahead(0, n, 0, n),)]
        if FUTURE not in branches and GLOBAL not in branches:
            past = [(Past(0, n, 0, n),)]
        wanted = []
        for branch in branches:
            if branch == GLOBAL:
                wanted.append(whole)
            elif branch == PAST:
                wanted.append(past)
            elif branch == FUTURE:
                wanted.append(future)
            else:
                wanted.append([(Near(0, n, 0, n, Blocks.of(branch, n)),)])
        layers = tuple(dict.fromkeys(layer for its in wanted for layer in its))
        return cls(layers, tuple(tuple(layers.index(layer) for layer in its) for its in wanted))


def _halves(n: int) -> tuple[list[Layer], list[Layer]]:
    """Return the layers of the keys up to the query, and those of the keys after it."""
    steps = 1 if n >= UNDIVIDED else max(1, round(n / STEP))
    edges = [step * n // steps for step in range(steps + 1)]
    squares = list(pairwise(edges))
    past = [tuple(Past(start, end, start, end) for start, end in squares)]
    ahead = [tuple(Ahead(start, end - 1, start + 1, end) for start, end in squares)]
    if steps > 1:
        past.append(tuple(Rectangle(start, end, 0, start) for start, end in squares[1:]))
        ahead.append(tuple(Rectangle(start, end, end, n) for start, end in squares[:-1]))
    return past, ahead


@dataclass(frozen=True)
class Region:
    """A part of the score matrix, computed by one call.

    Attributes:
        row, row_end: its queries.
        column, column_end: the keys that the call is given.
    """

    row: int
    row_end: int
    column: int
    column_end: int

    @property
    def queries(self) -> slice:
        return slice(self.row, self.row_end)

    @property
    def keys(self) -> slice:
        return slice(self.column, self.column_end)

    def cut(self, q: Tensor, k: Tensor, v: Tensor, padding: Tensor | None):
        """q, k, v and padding of its rows and columns."""
        return (
            q[:, :, self.queries],
            k[:, :, self.keys],
            v[:, :, self.keys],
            None if padding is None else padding[:, self.keys],
        )

    def forward(self, q, k, v, padding) -> tuple[Tensor, Tensor]:
        """Return outputs ``[b, h, rows, d_k]`` and log-sum-exps ``[b, h, rows]`` of a :meth:`cut`.

        The log-sum-exp of a row that sees no key is undefined; see :meth:`seen`.
        """
        return flash.forward(q, k, v, causal=self.causal, bias=_bias(padding, q))

    def backward(self, grad, delta, output, lse, q, k, v, padding):
        """Return the gradients of q, k and v, which come from :meth:`cut`.

        Args:
            grad: ``[b, h, rows, d_k]``.
            delta: ``[b, h, rows]``.
            output: a tensor whose product with grad is delta.
            lse: from :meth:`forward`.
        """
        return flash.backward(
            grad, output, q, k, v, lse, causal=self.causal, bias=_bias(padding, q)
        )

    def seen(self, real: Tensor) -> Tensor:
        """Return which rows see any key, ``[b, rows or 1]``; ``real``: ``[b, columns]``."""
        raise TypeError(f"{type(self).__name__} does not define seen()")


#: Regions without a query in common.
Layer = tuple[Region, ...]


class Rectangle(Region):
    """All its queries see all its keys."""

    causal = False

    def seen(self, real):
        return real.any(1, keepdim=True)


class Past(Region):
    """A square on the diagonal; queries see the keys up to their own."""

    causal = True

    def seen(self, real):
        return real.cumsum(1) > 0


class Ahead(Region):
    """A square on the diagonal; queries see the keys from their own on.

    If the square lies one key further to the right, they see the keys after their own.  Reversed,
    it is a :class:`Past`.
    """

    causal = True

    def cut(self, q, k, v, padding):
        q, k, v, padding = super().cut(q, k, v, padding)
        return (
            *(x.flip(2) for x in (q, k, v)),
            None if padding is None else padding.flip(1),
        )

    def forward(self, q, k, v, padding):
        return tuple(x.flip(2) for x in super().forward(q, k, v, padding))

    def backward(self, grad, delta, output, lse, q, k, v, padding):
        grad, output, lse = grad.flip(2), output.flip(2), lse.flip(2)
        parts = super().backward(grad, delta, output, lse, q, k, v, padding)
        return tuple(part.flip(2) for part in parts)

    def seen(self, real):
        return real.flip(1).cumsum(1).flip(1) > 0


class Own(Region):
    """The diagonal."""

    def forward(self, q, k, v, padding):
        return v, vecdot(q, k)

    def backward(self, grad, delta, output, lse, q, k, v, padding):
        slope = (vecdot(grad, v) - delta).unsqueeze(-1)
        return slope * k, slope * q, grad

    def seen(self, real):
        return real


@dataclass(frozen=True)
class Near(Region):
    """A band, the only region of its branch.  Its log-sum-exps are in blocks, ``[s, h, B]``."""

    blocks: Blocks

    def forward(self, q, k, v, padding):
        bias = self.blocks.bias(len(q), padding, like=q)
        output, lse = flash.forward(*self._in_blocks(q, k, v), bias=bias)
        return self.blocks.positions(output), lse

    def backward(self, grad, delta, output, lse, q, k, v, padding):
        bias = self.blocks.bias(len(q), padding, like=q)
        grad, output = self.blocks.queries(grad), self.blocks.queries(output)
        of_q, of_k, of_v = flash.backward(grad, output, *self._in_blocks(q, k, v), lse, bias=bias)
        return self.blocks.positions(of_q), self.blocks.gather(of_k), self.blocks.gather(of_v)

    def _in_blocks(self, q, k, v):
        return self.blocks.queries(q), self.blocks.keys(k), self.blocks.keys(v)


def _bias(padding: Tensor | None, like: Tensor) -> Tensor | None:
    """Turn padding ``[b, m]`` into numbers to add to the scores, ``[b, 1, 1, m]``."""
    if padding is None:
        return None
    bias = like.new_zeros(padding.shape).masked_fill_(padding, -torch.inf)
    return bias[:, None, None]
