"""MMA: mixed multi-head self-attention (Cui et al. 2019, "Mixed Multi-Head Self-Attention
for Neural Machine Translation").

Each head of the encoder's self-attention has its own mask (Eq. 7-11).  The patterns get equal
numbers of neighbouring heads.  Nothing else changes: the model adds no parameters, and the decoder
is fairseq's own.
"""

from dataclasses import dataclass, field
from functools import partial

from ..attention import AttentionPlan
from ..errors import Faults
from ..vocabulary import Vocabulary, mma_vocabulary, parse_patterns, parse_width, vocabulary_for
from .transformer import (
    PatternedTransformer,
    PatternedTransformerConfig,
    Plans,
    register,
    register_size,
)


@dataclass
class MMAConfig(PatternedTransformerConfig):
    """Settings of ``transformer_mma``; base size by default."""

    head_patterns: str = field(
        default="global,local,forward,backward",
        metadata={
            "help": "patterns of the encoder's heads, a comma list, each for an equal share of "
            "them (forward is the future, backward the past)",
            "vocabulary": partial(vocabulary_for, "encoder", mma_vocabulary(1)),
        },
    )
    local_window: int = field(
        default=1, metadata={"help": "w: a local head sees w tokens to each side"}
    )


@register("transformer_mma", MMAConfig)
class MMA(PatternedTransformer):
    """Transformer with mixed multi-head self-attention in the encoder."""

    @classmethod
    def plan(cls, cfg, faults: Faults) -> Plans:
        """Give each head of each encoder layer its pattern (Eq. 7-11)."""
        width = parse_width("--local-window", cfg.local_window, faults)
        vocabulary = vocabulary_for("encoder", mma_vocabulary(width))
        return Plans(encoder=head_plans(cfg, "encoder", vocabulary, faults))

    @classmethod
    def vocabulary(cls, cfg, side):
        return vocabulary_for(side, mma_vocabulary(cfg.local_window) if side == "encoder" else {})


def head_plans(cfg, side: str, vocabulary: Vocabulary, faults: Faults) -> tuple[AttentionPlan, ...]:
    """Plan the heads of ``--head-patterns`` for every layer of a side."""
    flag, value, heads = "--head-patterns", cfg.head_patterns, getattr(cfg, side).attention_heads
    patterns = parse_patterns(flag, value, vocabulary, faults)
    if not patterns:
        return ()
    if heads % len(patterns):
        problem = f"{len(patterns)} patterns cannot share {heads} heads equally"
        faults.add(flag, value, f"{problem} (--{side}-attention-heads)")
        return ()
    return (AttentionPlan.of_heads(patterns, heads),) * getattr(cfg, side).layers


_IWSLT = {
    "encoder_ffn_embed_dim": 1024,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "dropout": 0.3,
}
register_size("transformer_mma_iwslt", MMA, MMAConfig, **_IWSLT)
register_size("transformer_mma_base", MMA, MMAConfig)
