"""How the path :mod:`.blocks` cuts an attention: panels, blocks of queries, their zones and sides.

Shape letters as in ``blocks.py``.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from ..patterns import Pattern

#: Queries per block, by the minimum number of keys.  Fewer queries mean a narrower zone, but more
#: calls.
ROWS = {768: 128, 192: 64, 0: 32}

#: Queries per panel if none of them sees all keys: smaller panels waste less computation.
PANEL = 128


class Side(NamedTuple):
    """Neighbouring keys that all queries of a block see in some branches, and none in others.

    Attributes:
        keys, columns: the keys, counted from the first key, and from the panel's first.
        branches: the branches that see them.
    """

    keys: slice
    columns: slice
    branches: tuple[int, ...]


class Block(NamedTuple):
    """Neighbouring queries.

    Attributes:
        rows, places: the queries, counted from the first query, and from the panel's first.
        zone, columns: keys that only some of the queries see, counted from the first key, and
            from the panel's first.
        sides: other keys that any branch sees.
        nobody: columns of keys that no branch sees.
        mask: M_b, 0 and 1, ``[l, r, z]``.
        unseen: added to the scores of the zone: 0, or almost minus infinity where no branch
            looks, ``[r, z]``; None = every place is seen.
    """

    rows: slice
    places: slice
    zone: slice
    columns: slice
    sides: tuple[Side, ...]
    nobody: tuple[slice, ...]
    mask: Tensor
    unseen: Tensor | None

    def masked(self, shares: Tensor) -> Tensor:
        """Return P M_b in the zone, ``[B, l, r, z]``, from the panel's P."""
        return shares[:, None, self.places, self.columns] * self.mask

    def sees(self, real: Tensor | None) -> Tensor:
        """Return which queries see any key, ``[B or 1, l, r, 1]``.

        Args:
            real: 1 for a token and 0 for padding, ``[B, 1, m]``; None = no padding.
        """
        if real is None:
            real = self.mask.new_ones(1, 1, max(s.stop for s in (self.zone, *self._side_keys)))
        seen = torch.einsum("lrz,Bz->Blr", self.mask, real[:, 0, self.zone]).unsqueeze(-1)
        for side in self.sides:
            its = real[:, :, side.keys].sum(dim=-1, keepdim=True)  # [B, 1, 1]
            for branch in side.branches:
                seen[:, branch] += its
        return seen > 0

    @property
    def _side_keys(self) -> list[slice]:
        return [side.keys for side in self.sides]


class Panel(NamedTuple):
    """Blocks whose scores are computed together.

    Attributes:
        rows: its queries.
        keys: from the first to the last key that any branch sees from these queries.
        blocks: its parts.
    """

    rows: slice
    keys: slice
    blocks: tuple[Block, ...]

    def shares(self, q: Tensor, k: Tensor, real: Tensor | None) -> Tensor:
        """Return P, ``[B, p, keys]``, from q and k ``[B, n or m, d_k]``; ``real`` as above."""
        scores = torch.bmm(q[:, self.rows], k[:, self.keys].mT)
        for block in self.blocks:
            if block.unseen is not None:
                scores[:, block.places, block.columns] += block.unseen
            for columns in block.nobody:
                scores[:, block.places, columns] = _lowest(scores.dtype)
        shares = torch.softmax(scores, dim=-1)
        return shares if real is None else shares.mul_(real[:, :, self.keys])


def _lowest(dtype: torch.dtype) -> float:
    """Half of the lowest number, since a score is added to it."""
    return torch.finfo(dtype).min / 2


@lru_cache(maxsize=32)
@torch.inference_mode(False)
def layout(
    patterns: tuple[Pattern, ...], n: int, m: int, dtype: torch.dtype, device: torch.device
) -> tuple[Panel, ...]:
    """Cut n queries into panels, these into blocks, and the m keys of each into zone and sides."""
    allowed = torch.stack([pattern.mask(n, m) for pattern in patterns])  # [l, n, m]
    ends = allowed[:, :, [0, -1]].any(dim=0)  # [n, 2]
    whole = ends[:PANEL].any(dim=0).all() and ends[-PANEL:].any(dim=0).all()
    size = next(size for fewest, size in ROWS.items() if m >= fewest)
    return tuple(
        _panel(rows, size, allowed, dtype, device) for rows in _cut(0, n, n if whole else PANEL)
    )


def _cut(start: int, end: int, size: int) -> list[slice]:
    """Cut into pieces of about ``size``."""
    count = max(1, round((end - start) / size))
    edges = [start + step * (end - start) // count for step in range(count + 1)]
    return [slice(*edge) for edge in pairwise(edges)]


def _panel(
    rows: slice, size: int, allowed: Tensor, dtype: torch.dtype, device: torch.device
) -> Panel:
    """``allowed``: ``[l, n, m]``, True = may attend."""
    seen = allowed[:, rows].any(dim=1).any(dim=0).nonzero().flatten().tolist() or [0]
    keys = slice(seen[0], seen[-1] + 1)
    blocks = [
        _block(part, rows.start, keys.start, allowed[:, part, keys], dtype, device)
        for part in _cut(rows.start, rows.stop, size)
    ]
    return Panel(rows, keys, tuple(blocks))


def _block(
    rows: slice,
    row: int,
    key: int,
    allowed: Tensor,
    dtype: torch.dtype,
    device: torch.device,
) -> Block:
    """Make a block; ``row``, ``key``: the panel's first; ``allowed``: ``[l, r, columns]``."""
    everywhere, somewhere = allowed.all(dim=1), allowed.any(dim=1)  # [l, columns]
    mixed = (everywhere != somewhere).any(dim=0).nonzero().flatten().tolist() or [0]
    zone = slice(mixed[0], mixed[-1] + 1)
    sides, nobody = [], []
    for columns in _alike(everywhere, 0, zone.start) + _alike(
        everywhere, zone.stop, everywhere.size(1)
    ):
        branches = tuple(everywhere[:, columns.start].nonzero().flatten().tolist())
        if branches:
            sides.append(Side(_moved(columns, key), columns, branches))
        else:
            nobody.append(columns)
    mask = allowed[:, :, zone]
    unseen = torch.zeros(mask.shape[1:], dtype=dtype)
    unseen.masked_fill_(~mask.any(dim=0), _lowest(dtype))
    return Block(
        rows=rows,
        places=_moved(rows, -row),
        zone=_moved(zone, key),
        columns=zone,
        sides=tuple(sides),
        nobody=tuple(nobody),
        mask=mask.to(device, dtype),
        unseen=unseen.to(device) if unseen.any() else None,
    )


def _alike(seen: Tensor, start: int, end: int) -> list[slice]:
    """Cut columns into runs that the same branches see; ``seen``: ``[l, columns]``."""
    if start == end:
        return []
    changes = (seen[:, start + 1 : end] != seen[:, start : end - 1]).any(dim=0)
    edges = [start, *(changes.nonzero().flatten() + start + 1).tolist(), end]
    return [slice(*edge) for edge in pairwise(edges)]


def _moved(positions: slice, by: int) -> slice:
    return slice(positions.start + by, positions.stop + by)
