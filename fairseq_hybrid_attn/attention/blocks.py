"""Several branches over sentences that are not short: queries in blocks, keys by who sees them.

To a block of neighbouring queries most keys are alike: keys on one *side*, far from the
block, are seen by all of its queries or by none, in each branch.  Only in a narrow *zone*
about the diagonal do queries of one block see different keys.  So the scores of a block are
computed once, with one softmax P; every side is multiplied with its values once, for all
branches that see it; and only the zone is masked branch by branch, with masks M_b::

    Z_b      = sum over b's sides of P + sum over the zone of P M_b
    output_b = (sum over b's sides of P V + (P M_b) V in the zone) / Z_b

That is the definition, with the normalisation of each branch put last, for about the arithmetic
of one attention.  The gradient is that of the softmax, written down: of what is n x m only P is
kept for it, or computed again where it is large.

A branch all of whose keys have next to no share in P would lose digits, and ``Z_b`` tells:
such a problem is handed over to :mod:`.short`, which gives each branch a softmax of its own.

Shape letters as in ``problem.py``, and

========  =========================================================
``B``     heads of sentences that are worked on together
``p``     queries of a panel, which are those of one or more blocks
``r``     queries of a block
``z``     keys of a block's zone
========  =========================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..patterns import Pattern
from .problem import AttentionProblem, AttentionResult
from .short import SMALLEST_SUM, short

#: From how many keys on this is faster than ``short``: of separate branches, and of mixed ones,
#: which ``short`` adds up before they meet the values.
SHORTEST, SHORTEST_MIXED = 96, 384

#: From how many keys on a block has how many queries: the fewer, the narrower its zone, and the
#: more calls.
ROWS = {768: 128, 192: 64, 0: 32}

#: Queries of a panel where none of them sees all keys: the fewer, the less is computed in vain.
PANEL = 128

#: How many scores are worked on together where there are more.
CHUNK = 2**21

#: How many scores are few enough to be kept for the gradient, rather than computed again.
SMALL = 2**22


def blocks(problem: AttentionProblem) -> AttentionResult:
    """Solve ``problem``, for which :func:`able` must hold."""
    dtype = problem.v.dtype
    # Half precision is for storage on a CPU; computed in single, it loses nothing.
    work = torch.promote_types(dtype, torch.float32)
    with torch.autocast(problem.q.device.type, enabled=False):
        outputs = solve(
            *(x.to(work) for x in (problem.q, problem.k, problem.v)),
            problem.key_padding,
            tuple(branch[0] for branch in problem.branches),
        )
        if outputs is None:
            return short(problem)
        if problem.mix is not None:
            outputs = (problem.mix.to(work) * outputs).sum(dim=0, keepdim=True)
    return AttentionResult(outputs=outputs.to(dtype))


def able(problem: AttentionProblem) -> bool:
    """Whether this path is right for ``problem``.

    Not with dropout: branches that share a side would share what is dropped in it, and each is
    to draw anew.
    """
    return (
        problem.dropout == 0
        and problem.bias is None
        and not problem.need_weights
        and problem.q.numel() > 0
        and all(len(set(branch)) == 1 for branch in problem.branches)
        and not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()
    )


def applies(problem: AttentionProblem) -> bool:
    """Whether this path is right for ``problem`` and faster than others."""
    shortest = SHORTEST if problem.mix is None else SHORTEST_MIXED
    return problem.k.size(2) >= shortest and problem.q.device.type == "cpu" and able(problem)


def solve(
    q: Tensor, k: Tensor, v: Tensor, padding: Tensor | None, patterns: tuple[Pattern, ...]
) -> Tensor | None:
    """The outputs of :class:`~.problem.AttentionResult`, one pattern for each branch.

    Args:
        q, k, v, padding: as in :class:`~.problem.AttentionProblem`.

    Returns:
        ``[l, b, h, n, d_k]``; None if a branch's share is too small to be told exactly.
    """
    if padding is not None and not padding.any():
        padding = None
    trained = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))
    with torch.no_grad():
        found = _forward(q, k, v, padding, patterns, keep=trained)
    if found is None:
        return None
    if not trained:
        return found[0]
    return _Blocks.apply(q, k, v, padding, patterns, *found)


class _Blocks(torch.autograd.Function):
    """Gives a result that has been computed its gradient."""

    @staticmethod
    def forward(ctx, q, k, v, padding, patterns, outputs, inverse, shares):
        ctx.save_for_backward(q, k, v, padding, outputs, inverse, *shares)
        ctx.patterns = patterns
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grads):
        q, k, v, padding, outputs, inverse, *shares = ctx.saved_tensors
        gradients = _backward(q, k, v, padding, ctx.patterns, outputs, inverse, shares, grads)
        return *gradients, None, None, None, None, None


def _forward(q, k, v, padding, patterns, *, keep) -> tuple[Tensor, Tensor, list[Tensor]] | None:
    """Outputs, 1 / Z as ``[b, h, l, n, 1]``, and with ``keep`` each panel's P if they are small."""
    (b, h, n, d), m, l = q.shape, k.size(2), len(patterns)  # noqa: E741
    # Heads side by side, as the layer wants them: joining them copies nothing.
    outputs = v.new_empty(l, b, n, h, d).permute(1, 3, 0, 2, 4)
    inverse = v.new_empty(b, h, l, n, 1)
    panels = plan(patterns, n, m, q.dtype, q.device)
    kept, keep = [], keep and b * h * n * m <= SMALL
    for at in _chunks(b, h, n, m):
        q_at, k_at, v_at = (_rows(x[at]) for x in (q, k, v))
        real = _real(padding, at, h, q)
        for panel in panels:
            shares = panel.shares(q_at, k_at, real)
            if keep:
                kept.append(shares)
            for block in panel.blocks:
                zone = block.masked(shares)
                gathered = torch.bmm(zone.flatten(1, 2), v_at[:, block.zone])
                gathered = gathered.view(*zone.shape[:3], d)
                total = zone.sum(dim=-1, keepdim=True)  # Z, [B, l, r, 1]
                for side in block.sides:
                    part = shares[:, block.places, side.columns]
                    product = torch.bmm(part, v_at[:, side.keys])
                    whole = part.sum(dim=-1, keepdim=True)
                    for branch in side.branches:
                        gathered[:, branch] += product
                        total[:, branch] += whole
                if total.min() < SMALLEST_SUM:
                    unseen = ~block.sees(real)
                    if not total.masked_fill(unseen, 1.0).min() >= SMALLEST_SUM:
                        return None
                    total.masked_fill_(unseen, torch.inf)  # so that 1 / Z is 0
                here = (*at, slice(None), block.rows)
                factor = total.reciprocal_().view(inverse[here].shape)
                torch.mul(gathered.view(outputs[here].shape), factor, out=outputs[here])
                inverse[here] = factor
    return outputs.permute(2, 0, 1, 3, 4), inverse, kept


def _backward(q, k, v, padding, patterns, outputs, inverse, kept, grads):
    """The gradients of q, k and v.

    With g_b the gradient of output b over Z_b, and delta_b = g_b . output_b, a score has the
    gradient sum_b M_b P (g_b . v_j - delta_b), in which branches that see a side add up first.
    """
    (b, h, n, _), m = q.shape, k.size(2)
    of_q, of_k, of_v = (
        torch.zeros_like(x, memory_format=torch.contiguous_format) for x in (q, k, v)
    )
    grads, outputs = (x.permute(1, 2, 0, 3, 4) for x in (grads, outputs))
    kept = iter(kept)
    for at in _chunks(b, h, n, m):
        q_at, k_at, v_at, of_q_at, of_k_at, of_v_at = (
            _rows(x[at]) for x in (q, k, v, of_q, of_k, of_v)
        )
        real = _real(padding, at, h, q)
        for panel in plan(patterns, n, m, q.dtype, q.device):
            shares = next(kept, None)
            if shares is None:
                shares = panel.shares(q_at, k_at, real)
            of_scores = torch.empty_like(shares)
            for block in panel.blocks:
                here = (*at, slice(None), block.rows)
                g = grads[here].mul(inverse[here])
                delta = torch.linalg.vecdot(g, outputs[here]).unsqueeze(-1)
                g, delta = g.flatten(0, 1), delta.flatten(0, 1)  # [B, l, r, d_k or 1]
                for side in block.sides:
                    branches = side.branches
                    side_g = _sum([g[:, branch] for branch in branches])
                    side_delta = _sum([delta[:, branch] for branch in branches])
                    part = shares[:, block.places, side.columns]
                    slopes = torch.bmm(side_g, v_at[:, side.keys].mT).sub_(side_delta)
                    torch.mul(slopes, part, out=of_scores[:, block.places, side.columns])
                    of_v_at[:, side.keys] += torch.bmm(part.mT, side_g)
                zone, g = block.masked(shares), g.flatten(1, 2)
                slopes = torch.bmm(g, v_at[:, block.zone].mT).view(zone.shape)
                slopes = slopes.sub_(delta).mul_(zone)
                torch.sum(slopes, dim=1, out=of_scores[:, block.places, block.columns])
                of_v_at[:, block.zone] += torch.bmm(zone.flatten(1, 2).mT, g)
                for columns in block.nobody:
                    of_scores[:, block.places, columns] = 0
            torch.bmm(of_scores, k_at[:, panel.keys], out=of_q_at[:, panel.rows])
            of_k_at[:, panel.keys] += torch.bmm(of_scores.mT, q_at[:, panel.rows])
    return of_q, of_k, of_v


def _sum(tensors: list[Tensor]) -> Tensor:
    total = tensors[0]
    for tensor in tensors[1:]:
        total = total + tensor
    return total


def _rows(x: Tensor) -> Tensor:
    """``[sentences, heads, n, d_k]`` -> ``[B, n, d_k]``; a view where there can be one."""
    return x.flatten(0, 1)


def _real(padding: Tensor | None, at: tuple[slice, slice], heads: int, like: Tensor):
    """1 for a token and 0 for padding, ``[B, 1, m]``; None without padding."""
    if padding is None:
        return None
    real = (~padding[at[0]]).to(like.dtype).unsqueeze(1)
    return real.repeat_interleave(len(range(*at[1].indices(heads))), dim=0)


def _chunks(b: int, h: int, n: int, m: int) -> Iterator[tuple[slice, slice]]:
    """Which sentences and heads to work on together."""
    fitting = max(1, CHUNK // (n * m))
    heads, sentences = min(h, fitting), max(1, fitting // h)
    for first in range(0, b, sentences):
        for head in range(0, h, heads):
            yield slice(first, first + sentences), slice(head, head + heads)


class Side(NamedTuple):
    """Neighbouring keys that some branches see from all queries of a block, others from none.

    Attributes:
        keys, columns: which keys, counted from the first key, and from the panel's first.
        branches: who sees them.
    """

    keys: slice
    columns: slice
    branches: tuple[int, ...]


class Block(NamedTuple):
    """Neighbouring queries.

    Attributes:
        rows, places: which queries, counted from the first query, and from the panel's first.
        zone, columns: keys that not all queries see alike, counted from the first key, and
            from the panel's first.
        sides: other keys that any branch sees.
        nobody: columns of other keys still.
        mask: M_b, 0 and 1, ``[l, r, z]``.
        unseen: added to the scores of the zone: 0, or next to minus infinity where no branch
            looks, ``[r, z]``; None = there is no such place.
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
        """P M_b in the zone, ``[B, l, r, z]``.

        Args:
            shares: the panel's P.
        """
        return shares[:, None, self.places, self.columns] * self.mask

    def sees(self, real: Tensor | None) -> Tensor:
        """Which queries see any key, ``[B or 1, l, r, 1]``.

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
        keys: the keys that any branch sees from here, with those in between.
        blocks: its parts.
    """

    rows: slice
    keys: slice
    blocks: tuple[Block, ...]

    def shares(self, q: Tensor, k: Tensor, real: Tensor | None) -> Tensor:
        """P, ``[B, p, keys]``.

        Args:
            q, k: ``[B, n or m, d_k]``.
            real: as for :meth:`Block.sees`.
        """
        scores = torch.bmm(q[:, self.rows], k[:, self.keys].mT)
        for block in self.blocks:
            if block.unseen is not None:
                scores[:, block.places, block.columns] += block.unseen
            for columns in block.nobody:
                scores[:, block.places, columns] = _lowest(scores.dtype)
        shares = torch.softmax(scores, dim=-1)
        return shares if real is None else shares.mul_(real[:, :, self.keys])


def _lowest(dtype: torch.dtype) -> float:
    """Half of the lowest number, since a score is still to be added."""
    return torch.finfo(dtype).min / 2


@lru_cache(maxsize=64)
@torch.inference_mode(False)
def plan(
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
    """Pieces of about that size."""
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
    """
    Args:
        row, key: the panel's first.
        allowed: ``[l, r, columns]``, True = may attend.
    """
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
    """Runs of columns from start to end that the same branches see; ``seen``: ``[l, columns]``."""
    if start == end:
        return []
    changes = (seen[:, start + 1 : end] != seen[:, start : end - 1]).any(dim=0)
    edges = [start, *(changes.nonzero().flatten() + start + 1).tolist(), end]
    return [slice(*edge) for edge in pairwise(edges)]


def _moved(positions: slice, by: int) -> slice:
    return slice(positions.start + by, positions.stop + by)
