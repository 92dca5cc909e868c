"""The one attention module under all models of this package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from fairseq.modules.quant_noise import quant_noise
from torch import Tensor, nn

from ..patterns import PAST, causal, nearest_later_key
from .fusion import just_its_weights, mixes_positions
from .paths import compute
from .plan import AttentionPlan
from .problem import AttentionProblem, Branch


@dataclass(frozen=True, kw_only=True)
class AttentionRecord:
    """The intermediate results of one call.  Shape letters as in ``problem.py``.

    Attributes:
        weights: attention weights before dropout, ``[l, b, h, n, m]``; None if not needed.
        branches: branch outputs before fusion, heads concatenated, ``[l, n, b, d]``, or None.
        gates: gate values in the shape that the fusion documents; None without gates.
        output: what the layer returned, ``[n, b, d]``.
    """

    weights: Tensor | None
    branches: Tensor | None
    gates: Tensor | None
    output: Tensor


class PatternedSelfAttention(MultiheadAttention):
    """Multi-head self-attention over the patterns of an :class:`AttentionPlan`.

    Parameters, their names and their initialisation are those of fairseq's
    ``MultiheadAttention``, plus those of the fusion and the bias, if any.  Without these, the
    weights of a stock Transformer load here, and vice versa.

    Args:
        embed_dim: d.
        num_heads: h, a divisor of d.
        dropout: of the attention weights, drawn for each branch separately.
        q_noise, qn_block_size: quantisation noise of the projections, as in fairseq.

    Raises:
        ValueError: if a branch has patterns for another number of heads.
    """

    #: Asked by the layers of ``torch.nn``.
    batch_first = False

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        plan: AttentionPlan,
        *,
        dropout: float = 0.0,
        q_noise: float = 0.0,
        qn_block_size: int = 8,
    ):
        super().__init__(
            embed_dim,
            num_heads,
            dropout=dropout,
            self_attention=True,
            q_noise=q_noise,
            qn_block_size=qn_block_size,
        )
        for branch in plan.branches:
            if len(branch) not in (1, num_heads):
                raise ValueError(f"a branch has {len(branch)} patterns, but {num_heads} heads")
        self.branches = plan.branches
        self.fusion = plan.fusion(embed_dim, num_heads, len(plan.branches))
        self.bias = plan.bias(embed_dim) if plan.bias is not None else None
        if self.fusion.width != embed_dim:
            projection = nn.Linear(self.fusion.width, embed_dim)
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)
            self.out_proj = quant_noise(projection, q_noise, qn_block_size)
        #: Called with each call's record; see :func:`~.recording.record_attention`.
        self.listeners: list[Callable[[AttentionRecord], None]] = []

    def __getstate__(self):
        # Listeners stay with the original; a copy has none.
        return {**self.__dict__, "listeners": []}

    def sees_future(self) -> str | None:
        """Say what lets a position see a later one without a causal mask; None: nothing does."""
        for number, branch in enumerate(self.branches, 1):
            for head, pattern in enumerate(branch, 1):
                if ahead := nearest_later_key(pattern):
                    where = f"branch {number}" + (f", head {head}" if len(branch) > 1 else "")
                    return f"{where}: {pattern} sees {ahead} ahead of a position"
        if mixes_positions(self.fusion, self.embed_dim):
            return f"its fusion, {type(self.fusion).__name__}, looks at other positions"
        return None if self.bias is None else "its bias is computed from the whole sentence"

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        incremental_state: dict | None = None,
        need_weights: bool = True,
        static_kv: bool = False,
        attn_mask: Tensor | None = None,
        before_softmax: bool = False,
        need_head_weights: bool = False,
        *,
        is_causal: bool = False,
        average_attn_weights: bool = True,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend, with the arguments that the layers of fairseq and of ``torch.nn`` pass.

        Args:
            query: ``[n, b, d]``; ``key`` and ``value`` must be the same tensor.
            key_padding_mask: ``[b, n]``, True or non-zero = padding; of floating point, 0 and -inf.
            incremental_state: holds the keys and values of earlier steps.
            need_weights: return the weights, averaged over the heads.
            need_head_weights: return the weights of each head, heads first (fairseq).
            average_attn_weights: if False, return those of each head, sentences first (torch).
            attn_mask: ``[n, n]``, the causal mask, or one that forbids nothing: bool (True =
                forbidden) or 0 and -inf.  It is looked at, which a GPU waits for, unless
                ``is_causal`` is set.
            is_causal: leave the keys after the query out of every pattern.

        Returns:
            output ``[n, b, d]`` and, if requested, weights before dropout: ``[b, n, m]``,
            ``[h, b, n, m]`` or ``[b, h, n, m]``; with several branches ``[l, ...]``.

        Raises:
            ValueError: for an argument that this module cannot honour.
        """
        if static_kv or before_softmax or key is not query or value is not query:
            raise ValueError(
                "PatternedSelfAttention computes self-attention: query, key and value must "
                "be the same tensor, static_kv and before_softmax False"
            )
        if query.dim() != 3 or query.size(2) != self.embed_dim:
            raise ValueError(
                f"query must have shape [n, b, {self.embed_dim}], not {list(query.shape)}"
            )
        n, b, _ = query.shape
        if attn_mask is not None and not is_causal:
            is_causal = _forbids_the_future(attn_mask, n)
        need_weights = need_weights or need_head_weights
        record = self.attend(
            query,
            None if key_padding_mask is None else _padding(key_padding_mask, b, n),
            incremental_state,
            need_weights=need_weights or bool(self.listeners),
            need_branches=bool(self.listeners),
            is_causal=is_causal,
        )
        for listener in self.listeners:
            listener(record)
        if not need_weights:
            return record.output, None
        weights = record.weights  # [l, b, h, n, m]
        if need_head_weights:
            weights = weights.transpose(1, 2)
        elif average_attn_weights:
            weights = weights.mean(dim=2)
        return record.output, weights if len(self.branches) > 1 else weights[0]

    def attend(
        self,
        hidden: Tensor,
        key_padding: Tensor | None = None,
        incremental_state: dict | None = None,
        *,
        need_weights: bool = True,
        need_branches: bool = True,
        is_causal: bool = False,
    ) -> AttentionRecord:
        """Attend and return all intermediate results; arguments as for :meth:`forward`.

        With ``need_branches``, the record has branch outputs and gates.  Without,
        branches with known shares are added up before they are multiplied with the values, and
        their outputs are never computed.
        """
        if is_causal and self.bias is not None:
            raise ValueError(
                "this attention's bias is computed from the whole sentence: no causal mask"
            )
        n, b, d = hidden.shape
        unscaled, keys, values = self._projected(hidden)
        queries = unscaled * self.scaling
        k, v = self._split_heads(keys), self._split_heads(values)
        if incremental_state is not None:
            k, v, key_padding = self._with_earlier_steps(k, v, key_padding, incremental_state)
        if key_padding is not None:
            key_padding = key_padding.bool()

        active = self.training or self.dropout_module.apply_during_inference
        bias = None
        if self.bias is not None:
            bias = self.bias(unscaled.transpose(0, 1), key_padding)
        mix = None if need_branches else self.fusion.mixture(hidden, queries)
        result = compute(
            AttentionProblem(
                q=self._split_heads(queries),
                k=k,
                v=v,
                branches=_without_future(self.branches) if is_causal else self.branches,
                key_padding=key_padding,
                bias=bias,
                dropout=self.dropout_module.p if active else 0.0,
                need_weights=need_weights,
                mix=mix,
            )
        )
        # [l or 1, b, h, n, d_k] -> [l or 1, n, b, h * d_k]
        branches = result.outputs.permute(0, 3, 1, 2, 4).reshape(-1, n, b, d)
        if mix is None:
            fused, gates = self.fusion(branches, hidden, queries)
        else:
            fused, gates, branches = branches[0], None, None
        output = self.out_proj(fused)
        return AttentionRecord(
            weights=result.weights, branches=branches, gates=gates, output=output
        )

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

    def _with_earlier_steps(self, k, v, key_padding, incremental_state):
        """Put the keys and values of earlier steps before the new ones, and save them all.

        The buffer is fairseq's own, batch first, so its beam search reorders it.
        """
        saved = self._get_input_buffer(incremental_state)
        if "prev_key" in saved:
            k = torch.cat([saved["prev_key"], k], dim=2)
            v = torch.cat([saved["prev_value"], v], dim=2)
        key_padding = self._append_prev_key_padding_mask(
            key_padding_mask=key_padding,
            prev_key_padding_mask=saved.get("prev_key_padding_mask"),
            batch_size=k.size(0),
            src_len=k.size(2),
            static_kv=False,
        )
        saved = {"prev_key": k, "prev_value": v, "prev_key_padding_mask": key_padding}
        self._set_input_buffer(incremental_state, saved)
        return k, v, key_padding


@lru_cache(maxsize=256)
def _without_future(branches: tuple[Branch, ...]) -> tuple[Branch, ...]:
    return tuple(tuple(map(causal, branch)) for branch in branches)


def _padding(mask: Tensor, b: int, n: int) -> Tensor:
    """Return a padding mask whose non-zero elements are padding, ``[b, n]``.

    Raises:
        ValueError: for another shape, or numbers that torch would add to the scores.
    """
    if mask.shape != (b, n):
        raise ValueError(
            f"key_padding_mask must have shape [b, n] = {[b, n]}, not {list(mask.shape)}"
        )
    if not mask.is_floating_point():
        return mask
    if not (mask.isneginf() | (mask == 0)).all():
        raise ValueError("key_padding_mask of floating point may hold 0 and -inf only")
    return mask.isneginf()


def _forbids_the_future(mask: Tensor, n: int) -> bool:
    """Return True for the causal mask, and False for one that forbids nothing.

    Raises:
        ValueError: for any other mask.
    """
    # Nothing is left of a weight after -1e4, which fairseq's layers write in half precision.
    forbidden = mask if mask.dtype == torch.bool else mask <= -1e4
    if mask.shape == (n, n) and (mask.dtype == torch.bool or bool(((mask == 0) | forbidden).all())):
        if not forbidden.any():
            return False
        if forbidden.equal(~PAST.mask(n, n, device=mask.device)):
            return True
    raise ValueError(
        f"attn_mask {list(mask.shape)} is not the causal mask of {n} positions; which keys a "
        "position sees is said by the plan's patterns, which keys are padding by key_padding_mask"
    )
