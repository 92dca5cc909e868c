"""Attention patterns in models of Hugging Face's transformers, on the weights that they have.

  class MMA(Patterned, MarianMTModel, encoder=AttentionPlan.of_heads((GLOBAL, PAST), 8)): ...
  model = MMA.from_pretrained("Helsinki-NLP/opus-mt-de-en")

``generate``, ``Trainer`` and ``save_pretrained`` work as before.  What was saved is loaded by the
same class.  The stock class refuses to compute it; but with another ``attn_implementation`` named,
it computes without the patterns, and cannot know.  Tested with Marian and BERT, whose attention
many models have (BART, M2M100; RoBERTa, ELECTRA).
"""

import copy

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel, initialization
from transformers.masking_utils import bidirectional_mask_function, causal_mask_function

from fairseq_hybrid_attn.attention import AttentionPlan
from fairseq_hybrid_attn.attention.compute import compute
from fairseq_hybrid_attn.attention.fusion import GatedSum, Sum
from fairseq_hybrid_attn.attention.problem import AttentionProblem
from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.patterns import PAST, nearest_later_key

STOCK = {"encoder": AttentionPlan(), "decoder": AttentionPlan(branches=((PAST,),))}
#: What changes the attention of some models, and is not computed here.
REFUSED = ("position_bias", "softcap", "sliding_window", "s_aux", "cu_seq_lens_q", "is_causal")


class GatesFromFirst(GatedSum):
    """HySAN's gated sum (Eq. 13, 14), shifted so that it begins as the first branch alone.

    x_1 * 2 SG(x_1) + the sum of x_l * (2 SG(x_l) - 1) over the others, where f2 begins at 0 and all
    SG at 1/2.  (As in the paper, it would begin with half of each branch.)
    """

    def __init__(self, embed_dim, num_heads, num_branches, *, squeeze_ratio=16):
        super().__init__(embed_dim, num_heads, num_branches, squeeze_ratio=squeeze_ratio)
        nn.init.zeros_(self.expand.weight)

    def forward(self, branches, hidden, queries):
        gates = 2 * torch.sigmoid(self.expand(torch.relu(self.squeeze(branches))))
        gates = torch.cat([gates[:1], gates[1:] - 1])
        return (branches * gates).sum(dim=0), gates


class Patterned:
    """Give a model's class, which comes after this one among the bases, a plan for each side."""

    plans: dict[str, AttentionPlan] = {}

    def __init_subclass__(cls, **plans):
        super().__init_subclass__()
        if not plans.keys() <= STOCK.keys():
            raise UserError(f"{', '.join(plans)}: patterns are for encoder=… and decoder=… alone")
        if PreTrainedModel in cls.__mro__[: cls.__mro__.index(Patterned)]:
            raise UserError(f"class {cls.__name__}: name Patterned before the model's class")
        cls.plans = {**cls.plans, **plans}

    def __init__(self, config, *args, **kwargs):
        if config._attn_implementation not in (None, "sdpa"):  # the defaults of transformers
            self.set_attn_implementation(config._attn_implementation)
        config = copy.deepcopy(config)
        config._attn_implementation = config.attn_implementation = "patterns"  # the second is saved
        super().__init__(config, *args, **kwargs)
        found = dict(filter(None, map(self._prepare, list(self.modules()))))
        if missing := self.plans.keys() - found.keys():
            raise UserError(f"found no self-attention for the patterns of {', '.join(missing)}")
        written = {side: found[side] for side in self.plans}
        if getattr(config, "patterns", written) != written:
            raise UserError(f"this model has patterns {config.patterns}, its class {written}")
        config.patterns = written

    def set_attn_implementation(self, attn_implementation, *args, **kwargs):
        """Refuse any other, which would leave out the patterns."""
        if attn_implementation != "patterns":
            raise UserError(f"{attn_implementation}: no patterns; ask for weights in the call")

    def _prepare(self, attention):
        """Give an attention its plan and fusion; return its side and these, or None."""
        if not {"is_causal", "layer_idx"} <= vars(attention).keys():
            return None
        attention.config = copy.copy(attention.config)  # else inner models could change it
        cross = not attention.is_causal and getattr(attention, "is_decoder", True)
        side = "decoder" if attention.is_causal else "encoder"
        attention.plan = plan = STOCK[side] if cross else self.plans.get(side, STOCK[side])
        heads = getattr(attention, "num_heads", attention.config.num_attention_heads)
        attention.fusion = plan.fusion(attention.config.hidden_size, heads, len(plan.branches))
        if plan.bias is not None or not isinstance(attention.fusion, Sum | GatesFromFirst):
            raise UserError(f"{side}: only Sum and GatesFromFirst are possible, without a bias")
        for branch in plan.branches:
            if len(branch) not in (1, heads):
                raise UserError(f"{side}: {len(branch)} patterns for {heads} heads")
            if side == "decoder" and any(map(nearest_later_key, branch)):
                raise UserError(f"decoder: {branch} looks ahead; use causal(pattern)")
        return None if cross else (side, f"{type(attention.fusion).__name__}{plan.branches}")

    def initialize_weights(self):
        """Initialise what was not loaded."""
        super().initialize_weights()
        for fusion in self.modules():
            if isinstance(fusion, GatesFromFirst):
                initialization.zeros_(fusion.expand.weight)


def key_mask(*, q_length, kv_length, q_offset, mask_function, attention_mask=None, **_):
    """Return ``[b, m]``, True = a token, or None, and whether to be causal: for :func:`attend`."""
    if mask_function not in (bidirectional_mask_function, causal_mask_function):
        raise UserError("beside patterns, only padding can be masked")
    causal = mask_function is causal_mask_function
    if causal and kv_length != q_offset + q_length:
        raise UserError("patterns need a cache that grows, such as DynamicCache")
    return attention_mask, causal


def attend(module, query, key, value, attention_mask, scaling, dropout=0.0, **others):
    """Attend as transformers calls it: ``[b, h, n or m, d_k]`` -> ``[b, n, h, d_k]``, weights."""
    if not hasattr(module, "plan"):
        raise UserError("this model was saved with patterns: load it by its own class")
    real, causal = attention_mask if isinstance(attention_mask, tuple) else (attention_mask, False)
    if real is not None and real.shape != (len(key), key.size(2)):
        raise UserError("beside patterns, only padding can be masked, [b, m]")
    if causal and not module.is_causal:
        raise UserError(f"{type(module).__name__} does not say that it is causal: not supported")
    refused = [name for name in REFUSED if others.get(name) is not None]
    if refused or query.size(1) != key.size(1):
        raise UserError(f"patterns do not go with {', '.join(refused) or 'grouped heads'}")
    if not module.is_causal and query.size(2) != key.size(2) and module.plan != STOCK["encoder"]:
        raise UserError("an encoder, whose patterns look ahead, cannot have a cache")
    problem = AttentionProblem(
        q=query * scaling,
        k=key,
        v=value,
        branches=module.plan.branches,
        key_padding=None if real is None else ~real,
        dropout=dropout,
        need_weights=bool(others.get("output_attentions")),
    )
    result = compute(problem)
    outputs = result.outputs.transpose(2, 3)  # [l, b, n, h, d_k]
    fused, _ = module.fusion(outputs.flatten(3), None, query)  # Sum asks query for its type
    weights = None if result.weights is None else result.weights.squeeze(0)  # [l, b, h, n, m]
    return fused.view(outputs.shape[1:]), weights


AttentionInterface.register("patterns", attend)
AttentionMaskInterface.register("patterns", key_mask)
