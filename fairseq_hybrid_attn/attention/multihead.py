"""The one attention module under all models of this package: a plain ``nn.Module``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..devices import is_tracing
from ..patterns import PAST, causal, nearest_later_key
from .compute import compute
from .fusion import just_its_weights
from .plan import AttentionPlan
from .positions import ALIBI, RELATIVE_POSITIONS, ROTARY, alibi, rotated
from .problem import AttentionProblem, Branch

#: Nothing is left of a weight after this is added to its score; fairseq's layers write it for
#: minus infinity in half precision.
LOW = -1e4


@dataclass(frozen=True, kw_only=True)
class AttentionRecord:
    """The intermediate results of one call, time first.  Shape letters as in ``problem.py``.

    Attributes:
        weights: attention weights before dropout, ``[l, b, h, n, m]``; None if not needed.
        branches: branch outputs before fusion, heads concatenated, ``[l, n, b, d]``, or None.
        gates: gate values in the shape that the fusion documents; None without gates.
        output: the layer's output, ``[n, b, d]``.
    """

    weights: Tensor | None
    branches: Tensor | None
    gates: Tensor | None
    output: Tensor


@dataclass
class KeyValueCache:
    """The keys and values of earlier positions, for decoding step by step.

    Attributes:
        keys, values: ``[b, h, m, d_k]``; None before the first step.
        padding: ``[b, m]``, True = padding; None = no padding.
    """

    keys: Tensor | None = None
    values: Tensor | None = None
    padding: Tensor | None = None

    def extend(self, keys: Tensor, values: Tensor, padding: Tensor | None) -> None:
        """Add new positions after the earlier ones."""
        earlier = 0
        if self.keys is not None:
            earlier = self.keys.size(2)
            keys = torch.cat([self.keys, keys], dim=2)
            values = torch.cat([self.values, values], dim=2)  # type: ignore[list-item]
        if padding is not None or self.padding is not None:
            shape = (keys.size(0), keys.size(2))
            joined = torch.zeros(shape, dtype=torch.bool, device=keys.device)
            if self.padding is not None:
                joined[:, :earlier] = self.padding
            if padding is not None:
                joined[:, earlier:] = padding
            padding = joined
        self.keys, self.values, self.padding = keys, values, padding


class _NoFastPath:
    """What the encoder layers of ``torch.nn`` find in place of a joint projection.

    They would compute attention themselves, without patterns.  An object with
    ``__torch_function__`` makes them call the module, however the layers were put together.
    """

    requires_grad = True

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        raise TypeError("a patterned attention has no joint projection")


class PatternedAttention(nn.Module):
    """Multi-head self-attention over the patterns of an :class:`AttentionPlan`.

    Takes the place of ``nn.MultiheadAttention`` in self-attention, also as ``self_attn`` of the
    layers of ``torch.nn``.  Queries, keys and values have a projection each, ``q_proj``,
    ``k_proj`` and ``v_proj``.

    Args:
        embed_dim: d.
        num_heads: h, a divisor of d.
        plan: patterns, fusion, bias and relative positions.
        dropout: of the attention weights, drawn for each branch separately.
        batch_first: inputs and outputs are ``[b, n, d]``, not ``[n, b, d]``.

    Raises:
        ValueError: if the heads do not divide the width, a branch has patterns for another
            number of heads, or there are no such relative positions (rotary ones need an even d_k).
    """

    q_proj: nn.Linear
    k_proj: nn.Linear
    v_proj: nn.Linear
    out_proj: nn.Linear

    #: Asked by the encoder layers of ``torch.nn``.
    in_proj_weight = in_proj_bias = _NoFastPath()
    _qkv_same_embed_dim = False

    #: Solves a problem.
    compute = staticmethod(compute)

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        plan: AttentionPlan,
        *,
        dropout: float = 0.0,
        batch_first: bool = False,
    ):
        super().__init__()
        if num_heads < 1 or embed_dim % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {embed_dim}")
        for branch in plan.branches:
            if len(branch) not in (1, num_heads):
                raise ValueError(f"a branch has {len(branch)} patterns, but {num_heads} heads")
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        self.relative_positions = plan.relative_positions
        if self.relative_positions not in (None, *RELATIVE_POSITIONS):
            raise ValueError(f"relative_positions {self.relative_positions!r}: use rotary or alibi")
        if self.relative_positions == ROTARY and self.head_dim % 2:
            raise ValueError(f"rotary positions turn pairs, but a head is {self.head_dim} wide")
        self.scaling = self.head_dim**-0.5
        self.dropout, self.batch_first = dropout, batch_first
        # In the order in which fairseq's MultiheadAttention makes and initialises them: a seed
        # gives the same numbers.
        for name in ("k_proj", "v_proj", "q_proj", "out_proj"):
            setattr(self, name, nn.Linear(embed_dim, embed_dim))
        for layer in (self.k_proj, self.v_proj, self.q_proj):
            nn.init.xavier_uniform_(layer.weight, gain=2**-0.5)
        nn.init.xavier_uniform_(self.out_proj.weight)
        nn.init.zeros_(self.out_proj.bias)

        self.branches = plan.branches
        self.fusion = plan.fusion(embed_dim, num_heads, len(plan.branches))
        self.bias = plan.bias(embed_dim) if plan.bias is not None else None
        if self.fusion.width != embed_dim:
            self.out_proj = nn.Linear(self.fusion.width, embed_dim)
            nn.init.xavier_uniform_(self.out_proj.weight)
            nn.init.zeros_(self.out_proj.bias)
        self._listeners: list[Callable[[AttentionRecord], None]] = []

    def __getstate__(self):
        # Listeners stay with the original; a copy has none.
        return {**self.__dict__, "_listeners": []}

    @contextmanager
    def recorded_by(self, listener: Callable[[AttentionRecord], None]) -> Iterator[None]:
        """Pass the record of each call to ``listener`` while the block runs."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def sees_future(self) -> str | None:
        """Say what lets a position see a later one without a causal mask; None: nothing does."""
        for number, branch in enumerate(self.branches, 1):
            for head, pattern in enumerate(branch, 1):
                if ahead := nearest_later_key(pattern):
                    where = f"branch {number}" + (f", head {head}" if len(branch) > 1 else "")
                    return f"{where}: {pattern} sees {ahead} ahead of a position"
        if self.fusion.mixes_positions:
            return f"its fusion, {type(self.fusion).__name__}, looks at other positions"
        return None if self.bias is None else "its bias is computed from the whole sentence"

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend, with the arguments of ``nn.MultiheadAttention``.

        Args:
            query: ``[n, b, d]``, or ``[b, n, d]`` with ``batch_first``.
            key, value: the same tensor, or None.
            key_padding_mask: ``[b, n]``, True = padding; of floating point, 0 and -inf.
            need_weights: return the weights.
            attn_mask: ``[n, n]``, the causal mask, or one that forbids nothing: bool (True =
                forbidden) or 0 and -inf.  It is looked at, which a GPU waits for, unless
                ``is_causal`` is set.
            average_attn_weights: return the mean over the heads, not the weights of each.
            is_causal: leave the keys after the query out of every pattern.

        Returns:
            output in the layout of ``query`` and, if requested, weights before dropout,
            ``[b, n, m]`` or ``[b, h, n, m]``; with several branches ``[l, ...]``.

        Raises:
            ValueError: for an argument that this module cannot honour.
        """
        record = self._attended(
            query, key, value, key_padding_mask, need_weights, attn_mask, is_causal
        )
        output = record.output.transpose(0, 1) if self.batch_first else record.output
        if not need_weights or record.weights is None:
            return output, None
        weights = record.weights.mean(dim=2) if average_attn_weights else record.weights
        return output, weights if len(self.branches) > 1 else weights[0]

    def _attended(
        self,
        query,
        key,
        value,
        key_padding_mask,
        need_weights,
        attn_mask,
        is_causal=False,
        cache=None,
    ) -> AttentionRecord:
        """Check what :meth:`forward` is given, attend, and tell the listeners."""
        if not all(other is query or other is None for other in (key, value)):
            raise ValueError(
                f"{type(self).__name__} computes self-attention: query, key and value must be the "
                "same tensor"
            )
        if query.is_nested:
            raise ValueError("query is nested: give TransformerEncoder enable_nested_tensor=False")
        if query.dim() != 3 or query.size(2) != self.embed_dim:
            layout = "b, n" if self.batch_first else "n, b"
            raise ValueError(
                f"query must have shape [{layout}, {self.embed_dim}], not {list(query.shape)}"
            )
        hidden = query.transpose(0, 1) if self.batch_first else query
        if attn_mask is not None and not is_causal:
            is_causal = _forbids_the_future(attn_mask, len(hidden))
        record = self.attend(
            hidden,
            key_padding_mask,
            cache,
            need_weights=need_weights or bool(self._listeners),
            need_branches=bool(self._listeners),
            is_causal=is_causal,
        )
        for listener in self._listeners:
            listener(record)
        return record

    def attend(
        self,
        hidden: Tensor,
        key_padding: Tensor | None = None,
        cache: KeyValueCache | None = None,
        *,
        need_weights: bool = True,
        need_branches: bool = True,
        is_causal: bool = False,
    ) -> AttentionRecord:
        """Attend and return all intermediate results.

        With ``need_branches``, the record has branch outputs and gates.  Without,
        branches with known shares are added up before they are multiplied with the values, and
        their outputs are never computed.

        Args:
            hidden: ``[n, b, d]``, whatever ``batch_first`` says.
            key_padding: ``[b, n]``, True = padding.
            cache: the earlier positions; the new ones are added to it.
            is_causal: as for :meth:`forward`.
        """
        if is_causal and self.bias is not None:
            raise ValueError(
                "this attention's bias is computed from the whole sentence: no causal mask"
            )
        n, b, d = hidden.shape
        unscaled, keys, values = self._projected(hidden)
        queries = unscaled * self.scaling
        q, k, v = map(self._split_heads, (queries, keys, values))
        if self.relative_positions == ROTARY:
            first = 0 if cache is None or cache.keys is None else cache.keys.size(2)
            q, k = rotated(q, first), rotated(k, first)
        key_padding = _padding(key_padding, b, n)
        if cache is not None:
            cache.extend(k, v, key_padding)
            k, v, key_padding = cache.keys, cache.values, cache.padding  # type: ignore[assignment]
        bias = None
        if self.bias is not None:
            bias = self.bias(unscaled.transpose(0, 1), key_padding)
        if self.relative_positions == ALIBI:
            distances = alibi(self.num_heads, n, k.size(2), q.dtype, q.device)
            bias = distances if bias is None else bias + distances
        mix = None if need_branches else self.fusion.mixture(hidden, queries)
        result = self.compute(
            AttentionProblem(
                q=q,
                k=k,
                v=v,
                branches=_causal(self.branches) if is_causal else self.branches,
                key_padding=key_padding,
                bias=bias,
                dropout=self._dropout_rate(),
                need_weights=need_weights,
                mix=mix,
            )
        )
        # [l or 1, b, h, n, d_k] -> [l or 1, n, b, h * d_k]
        branches = result.outputs.permute(0, 3, 1, 2, 4).reshape(len(result.outputs), n, b, d)
        if mix is None:
            fused, gates = self.fusion(branches, hidden, queries)
        else:
            fused, gates, branches = branches[0], None, None  # type: ignore[assignment]
        output = self.out_proj(fused)
        return AttentionRecord(
            weights=result.weights, branches=branches, gates=gates, output=output
        )

    def _dropout_rate(self) -> float:
        return self.dropout if self.training else 0.0

    def _projected(self, hidden: Tensor) -> Sequence[Tensor]:
        """Return queries, not scaled yet, keys and values, ``[n, b, d]``.

        In training they are one product, whose gradient takes 7 operations less; a CPU is as fast
        either way, a GPU launches fewer kernels.
        """
        layers = (self.q_proj, self.k_proj, self.v_proj)
        plain = all(just_its_weights(layer) and layer.bias is not None for layer in layers)
        if not (plain and torch.is_grad_enabled()):
            return [layer(hidden) for layer in layers]
        weight = torch.cat([layer.weight for layer in layers])
        bias = torch.cat([layer.bias for layer in layers])
        return F.linear(hidden, weight, bias).chunk(3, dim=-1)

    def _split_heads(self, x: Tensor) -> Tensor:
        """``[n, b, d]`` -> ``[b, h, n, d_k]``."""
        n, b, _ = x.shape
        return x.view(n, b, self.num_heads, self.head_dim).permute(1, 2, 0, 3)


def _causal(branches: tuple[Branch, ...]) -> tuple[Branch, ...]:
    return tuple(tuple(map(causal, branch)) for branch in branches)


def _padding(mask: Tensor | None, b: int, n: int) -> Tensor | None:
    """Return a padding mask as bool, ``[b, n]``.

    Raises:
        ValueError: for another shape or type, or numbers that torch would add to the scores.
    """
    if mask is None:
        return mask
    if mask.shape != (b, n):
        raise ValueError(
            f"key_padding_mask must have shape [b, n] = {[b, n]}, not {list(mask.shape)}"
        )
    if mask.dtype == torch.bool:
        return mask
    if not mask.is_floating_point():
        raise ValueError(
            f"key_padding_mask is of {mask.dtype}: give bool, True = padding; of a mask where 1 is "
            "a word, as transformers' attention_mask, give mask == 0"
        )
    forbidden = mask <= LOW
    if not is_tracing() and not (forbidden | (mask == 0)).all():  # a compiler cannot look
        raise ValueError("key_padding_mask of floating point may hold 0 and -inf only")
    return forbidden


def _forbids_the_future(mask: Tensor, n: int) -> bool:
    """Return True for the causal mask, and False for one that forbids nothing.

    Raises:
        ValueError: for any other mask.
    """
    forbidden = mask if mask.dtype == torch.bool else mask <= LOW
    if mask.shape == (n, n) and (
        mask.dtype == torch.bool
        or (mask.is_floating_point() and bool(((mask == 0) | forbidden).all()))
    ):
        if not forbidden.any():
            return False
        if forbidden.equal(~PAST.mask(n, n, device=mask.device)):
            return True
    raise ValueError(
        f"attn_mask {list(mask.shape)} is not the causal mask of {n} positions; which keys a "
        "position sees is said by the plan's patterns, which keys are padding by key_padding_mask"
    )
