"""Hybrid local-global attention with a gating scalar (Xu et al. 2019, "Leveraging Local
and Global Patterns for Self-Attention Networks").

In the lowest encoder layers, a gate mixes a global and a local attention over the same scores
(Eq. 1-5).  The other layers and the decoder are those of an ordinary Transformer.

docs/papers/hybrid_gate.md says where paper, published code and this differ.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..attention import AttentionPlan
from ..attention.fusion import HiddenGate, QueryGate
from ..errors import IF_REGISTERED, Faults
from ..patterns import GLOBAL, local
from ..vocabulary import HYBRID_GATE_FUSIONS, fusions_for, parse_layers, parse_width, vocabulary_for
from .transformer import (
    PatternedTransformer,
    PatternedTransformerConfig,
    Plans,
    register,
    register_size,
)

hybrid_fusions = partial(fusions_for, HYBRID_GATE_FUSIONS)
GATES = {"hidden": HiddenGate, "query": QueryGate}


@dataclass
class HybridGateConfig(PatternedTransformerConfig):
    """Settings of ``transformer_hybrid_gate``; base size by default."""

    local_window: int = field(
        default=1, metadata={"help": "m: the local pattern sees m tokens to each side"}
    )
    hybrid_layers: str = field(
        default="1,2",
        metadata={"help": "hybrid encoder layers, from 1: e.g. 1,2 or 1-3 or all"},
    )
    hybrid_fusion: str = field(
        default="gate",
        metadata={
            "help": "local (the local pattern alone), or a fusion",
            "vocabulary": hybrid_fusions,
        },
    )
    gate_input: str = field(
        default="hidden",
        metadata={
            "help": "input of the gate: hidden (Eq. 5, one gate per position) or query "
            "(the published code, one per position and head)"
        },
    )


@register("transformer_hybrid_gate", HybridGateConfig)
class HybridGate(PatternedTransformer):
    """Transformer with hybrid local-global attention in some encoder layers."""

    @classmethod
    def plan(cls, cfg, faults: Faults) -> Plans:
        """Give the chosen layers global and local branches, or the local one alone (Eq. 1-5)."""
        fusions: dict[str, Any] = {"local": None, **hybrid_fusions()}
        if cfg.hybrid_fusion not in fusions:
            use = f"use one of {', '.join(fusions)}{IF_REGISTERED}"
            faults.add("--hybrid-fusion", cfg.hybrid_fusion, use)
        if cfg.gate_input not in GATES:
            faults.add("--gate-input", cfg.gate_input, f"use one of {', '.join(GATES)}")
        hybrid_layers = parse_layers(
            "--hybrid-layers", cfg.hybrid_layers, cfg.encoder.layers, faults
        )

        near = local(parse_width("--local-window", cfg.local_window, faults))
        if cfg.hybrid_fusion == "local":
            hybrid = AttentionPlan(branches=((near,),))
        else:
            fusion = fusions.get(cfg.hybrid_fusion, HiddenGate)
            if fusion is HiddenGate:
                fusion = GATES.get(cfg.gate_input, HiddenGate)
            hybrid = AttentionPlan.of_branches((GLOBAL, near), fusion)
        return Plans(
            encoder=tuple(
                hybrid if layer in hybrid_layers else AttentionPlan()
                for layer in range(cfg.encoder.layers)
            )
        )

    @classmethod
    def vocabulary(cls, cfg, side):
        own = {"global": GLOBAL, "local": local(cfg.local_window)} if side == "encoder" else {}
        return vocabulary_for(side, own)


# "A dropout rate of 0.1 on all layers" (appendix A.1): of attention and activations too.
register_size(
    "transformer_hybrid_gate_base",
    HybridGate,
    HybridGateConfig,
    attention_dropout=0.1,
    activation_dropout=0.1,
)
