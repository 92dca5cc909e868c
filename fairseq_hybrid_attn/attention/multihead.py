"""The one attention module under all models of this package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from fairseq.modules import MultiheadAttention
from fairseq.modules.quant_noise import quant_noise
from torch import Tensor, nn

from .paths import compute
from .plan import AttentionPlan
from .problem import AttentionProblem


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
    """

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

    def forward(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        key_padding_mask: Tensor | None = None,
        incremental_state: dict | None = None,
        need_weights: bool = True,
        static_kv: bool = False,
        attn_mask: Tensor | None = None,
        before_softmax: bool = False,
        need_head_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend, with the signature that fairseq's layers call.

        Args:
            query: ``[n, b, d]``; ``key`` and ``value`` must be the same tensor.
            key_padding_mask: ``[b, n]``, non-zero = padding.
            incremental_state: holds the keys and values of earlier steps.
            need_weights: return the weights, averaged over the heads.
            need_head_weights: return the weights of each head.
            attn_mask: the causal mask of fairseq's decoder; not used, since the patterns
                of a decoder are causal themselves.

        Returns:
            output ``[n, b, d]`` and, if requested, weights ``[b, n, m]`` or
            ``[h, b, n, m]``.

        Raises:
            ValueError: if the call is not self-attention, or if it needs the weights of
                several branches (use ``record_attention``).
        """
        if static_kv or before_softmax or key is not query or value is not query:
            raise ValueError(
                "PatternedSelfAttention computes self-attention: query, key and value must "
                "be the same tensor, static_kv and before_softmax False"
            )
        need_weights = need_weights or need_head_weights
        if need_weights and len(self.branches) > 1:
            raise ValueError(
                f"{len(self.branches)} branches have no single set of attention weights; "
                "use record_attention() to get those of each"
            )
        record = self.attend(
            query,
            key_padding_mask,
            incremental_state,
            need_weights=need_weights or bool(self.listeners),
            need_branches=bool(self.listeners),
        )
        for listener in self.listeners:
            listener(record)
        if not need_weights:
            return record.output, None
        weights = record.weights[0].transpose(0, 1)  # [h, b, n, m]
        return record.output, weights if need_head_weights else weights.mean(dim=0)

    def attend(
        self,
        hidden: Tensor,
        key_padding: Tensor | None = None,
        incremental_state: dict | None = None,
        *,
        need_weights: bool = True,
        need_branches: bool = True,
    ) -> AttentionRecord:
        """Attend and return all intermediate results; arguments as for :meth:`forward`.

        With ``need_branches``, the record has branch outputs and gates.  Without,
        branches with known shares are added up before they are multiplied with the values, and
        their outputs are never computed.
        """
        n, b, d = hidden.shape
        unscaled = self.q_proj(hidden)
        queries = unscaled * self.scaling
        k, v = self._split_heads(self.k_proj(hidden)), self._split_heads(self.v_proj(hidden))
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
                branches=self.branches,
                key_padding=key_padding,
                bias=bias,
                dropout=self.dropout_module.p if active else 0.0,
                need_weights=need_weights,
                mix=mix,
            )
        )
        # [l or 1, b, h, n, d_k] -> [l or 1, n, b, h * d_k]
        branches = result.outputs.permute(0, 3, 1, 2, 4).reshape(-1, n, b, d)
        if mix is not None:
            return AttentionRecord(
                weights=result.weights, branches=None, gates=None, output=self.out_proj(branches[0])
            )
        fused, gates = self.fusion(branches, hidden, queries)
        return AttentionRecord(
            weights=result.weights, branches=branches, gates=gates, output=self.out_proj(fused)
        )

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
