"""HySAN: hybrid self-attention (Song et al. 2018, "Hybrid Self-Attention Network for
Machine Translation").

Encoder self-attention has branches with different masks over the same scores and values
(Eq. 8-12).  The branches of decoder self-attention are causal (Eq. 11, M_d).  Squeeze gates
fuse the branches (Eq. 13, 14).  Cross-attention is fairseq's own.

docs/papers/hysan.md says how open points of the paper are read.  The alignment paper's encoding
masks (Ma & Zhao 2020, Eq. 14, 15) are this model with a single encoder branch.
"""

from dataclasses import dataclass, field
from functools import partial

from fairseq.dataclass import FairseqDataclass

from ..attention import AttentionPlan
from ..attention.fusion import GatedSum, Sum
from ..errors import IF_REGISTERED, Faults
from ..vocabulary import (
    HYSAN_DECODER,
    HYSAN_ENCODER,
    HYSAN_FUSIONS,
    Vocabulary,
    fusions_for,
    parse_patterns,
    vocabulary_for,
)
from .transformer import (
    PatternedTransformer,
    PatternedTransformerConfig,
    Plans,
    register,
    register_size,
)

branch_fusions = partial(fusions_for, HYSAN_FUSIONS)


def branch_vocabulary(side: str) -> Vocabulary:
    """Return the words for branches of the ``encoder`` or the ``decoder``."""
    return vocabulary_for(side, HYSAN_DECODER if side == "decoder" else HYSAN_ENCODER)


@dataclass
class DecoderBranches(FairseqDataclass):
    """The settings of a decoder with branches, and their fusion."""

    decoder_branches: str = field(
        default="fw,l5",
        metadata={
            "help": "decoder self-attention branches, a comma list",
            "vocabulary": partial(branch_vocabulary, "decoder"),
        },
    )
    branch_fusion: str = field(
        default="gated-sum",
        metadata={"help": "how branches become one", "vocabulary": branch_fusions},
    )
    squeeze_ratio: int = field(
        default=16, metadata={"help": "r: a squeeze gate has an inner width of width / r"}
    )


@dataclass
class HySANConfig(DecoderBranches, PatternedTransformerConfig):
    """Settings of ``transformer_hysan``; base size by default."""

    encoder_branches: str = field(
        default="global,fw,bw,l5",
        metadata={
            "help": "encoder self-attention branches, a comma list",
            "vocabulary": partial(branch_vocabulary, "encoder"),
        },
    )


@register("transformer_hysan", HySANConfig)
class HySAN(PatternedTransformer):
    """Transformer with hybrid self-attention."""

    @classmethod
    def plan(cls, cfg, faults: Faults) -> Plans:
        """Give each layer the branches of its side (Eq. 12) and their fusion (Eq. 13)."""
        fusion = read_fusion(cfg, faults)
        return Plans(
            encoder=branch_plans(cfg, "encoder", fusion, faults),
            decoder=branch_plans(cfg, "decoder", fusion, faults),
        )

    @classmethod
    def vocabulary(cls, cfg, side):
        return branch_vocabulary(side)


def branch_plans(cfg, side: str, fusion, faults: Faults) -> tuple[AttentionPlan, ...]:
    """Plan the branches of ``--encoder-branches`` or ``--decoder-branches`` for every layer."""
    flag, value = f"--{side}-branches", getattr(cfg, f"{side}_branches")
    patterns = parse_patterns(flag, value, branch_vocabulary(side), faults)
    if len(set(patterns)) < len(patterns):
        faults.add(flag, value, "name each branch once")
    return (AttentionPlan.of_branches(patterns, fusion),) * getattr(cfg, side).layers


def read_fusion(cfg, faults: Faults):
    """Return the fusion of ``--branch-fusion``."""
    fusions = branch_fusions()
    if cfg.branch_fusion not in fusions:
        use = f"use one of {', '.join(fusions)}{IF_REGISTERED}"
        faults.add("--branch-fusion", cfg.branch_fusion, use)
        return Sum
    fusion = fusions[cfg.branch_fusion]
    return partial(fusion, squeeze_ratio=cfg.squeeze_ratio) if fusion is GatedSum else fusion


_SMALL = {
    "encoder_embed_dim": 256,
    "encoder_ffn_embed_dim": 1024,
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_layers": 2,
    "decoder_attention_heads": 4,
}
_BIG = {
    "encoder_embed_dim": 1024,
    "encoder_ffn_embed_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
    "dropout": 0.3,
}
register_size("transformer_hysan_small", HySAN, HySANConfig, **_SMALL)
register_size("transformer_hysan_base", HySAN, HySANConfig)
register_size("transformer_hysan_big", HySAN, HySANConfig, **_BIG)

# Ma & Zhao 2020: every encoder layer sees only the past (Eq. 14) or the future (Eq. 15).
for _direction, _branch in (("forward", "fw"), ("backward", "bw")):
    register_size(
        f"transformer_{_direction}_encoding_mask",
        HySAN,
        HySANConfig,
        encoder_branches=_branch,
        decoder_branches="fw",
    )
