"""The attention module with the interface of fairseq's layers."""

from __future__ import annotations

from typing import Any

from fairseq.incremental_decoding_utils import FairseqIncrementalState
from fairseq.modules import FairseqDropout, MultiheadAttention
from fairseq.modules.quant_noise import quant_noise
from torch import Tensor

from ..attention import AttentionPlan, PatternedAttention
from ..attention.multihead import KeyValueCache


class PatternedSelfAttention(FairseqIncrementalState, PatternedAttention):
    """:class:`PatternedAttention` in the place of fairseq's ``MultiheadAttention``.

    Parameters, their names and their initialisation are the same, plus those of the fusion and the
    bias, if any.  Without these, the weights of a stock Transformer load here, and vice versa.

    Args:
        embed_dim, num_heads, plan, dropout: as in :class:`PatternedAttention`.
        q_noise, qn_block_size: quantisation noise of the projections, as in fairseq.
    """

    get_incremental_state: Any  # of fairseq
    set_incremental_state: Any
    #: Before fairseq 0.9, the projections were one.
    upgrade_state_dict_named = MultiheadAttention.upgrade_state_dict_named

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
        super().__init__(embed_dim, num_heads, plan, dropout=dropout)
        for layer in (self.k_proj, self.v_proj, self.q_proj, self.out_proj):
            quant_noise(layer, q_noise, qn_block_size)

    def forward(  # type: ignore[override]
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
    ) -> tuple[Tensor, Tensor | None]:
        """Attend, with the arguments that fairseq's layers pass.

        Args:
            query, key, value: the same tensor, ``[n, b, d]``.
            key_padding_mask, attn_mask: as for :class:`PatternedAttention`.
            incremental_state: holds the keys and values of earlier steps.
            need_weights: return the weights, averaged over the heads.
            need_head_weights: return the weights of each head, heads first.

        Returns:
            output ``[n, b, d]`` and, if requested, weights before dropout, ``[b, n, m]`` or
            ``[h, b, n, m]``; with several branches ``[l, ...]``.

        Raises:
            ValueError: for an argument that this module cannot honour.
        """
        if static_kv or before_softmax:
            raise ValueError("PatternedSelfAttention has no static_kv and no before_softmax")
        need_weights = need_weights or need_head_weights
        cache = None if incremental_state is None else self._cache(incremental_state)
        record = self._attended(
            query, key, value, key_padding_mask, need_weights, attn_mask, cache=cache
        )
        if cache is not None and incremental_state is not None:
            names = ("prev_key", "prev_value", "prev_key_padding_mask")
            kept = (cache.keys, cache.values, cache.padding)
            self._set_input_buffer(incremental_state, dict(zip(names, kept, strict=True)))
        weights = record.weights  # [l, b, h, n, m]
        if not need_weights or weights is None:
            return record.output, None
        weights = weights.transpose(1, 2) if need_head_weights else weights.mean(dim=2)
        return record.output, weights if len(self.branches) > 1 else weights[0]

    def _dropout_rate(self) -> float:
        active = self.training or self.dropout_module.apply_during_inference
        return self.dropout if active else 0.0

    @property
    def dropout(self) -> float:
        """The rate of ``dropout_module``, which fairseq's code reads and sets."""
        return self.dropout_module.p

    @dropout.setter
    def dropout(self, rate: float) -> None:
        if not hasattr(self, "dropout_module"):
            # The name that --retain-dropout-modules knows.
            self.dropout_module = FairseqDropout(rate, module_name="MultiheadAttention")
        self.dropout_module.p = rate

    def _cache(self, incremental_state: dict) -> KeyValueCache:
        saved = self._get_input_buffer(incremental_state)
        padding = saved.get("prev_key_padding_mask")
        return KeyValueCache(
            saved.get("prev_key"),
            saved.get("prev_value"),
            None if padding is None else padding.bool(),
        )

    # fairseq's decoder layers read and write this buffer, and its beam search reorders it.

    def _get_input_buffer(self, incremental_state: dict | None) -> dict[str, Tensor | None]:
        return self.get_incremental_state(incremental_state, "attn_state") or {}

    def _set_input_buffer(self, incremental_state: dict, buffer: dict[str, Tensor | None]) -> None:
        self.set_incremental_state(incremental_state, "attn_state", buffer)

    def reorder_incremental_state(self, incremental_state: dict, new_order: Tensor) -> dict:
        """Keep the hypotheses ``new_order``, indices of the batch."""
        saved = self._get_input_buffer(incremental_state)
        if saved:
            reordered = {
                name: None if x is None else x.index_select(0, new_order)
                for name, x in saved.items()
            }
            self._set_input_buffer(incremental_state, reordered)
        return incremental_state
