"""The localness baselines of the hybrid-gate paper (its Table 1): a Gaussian bias on the
scores of the lowest encoder layers, G_ij = -(j - P_i)^2 / (2 sigma_i^2), sigma_i = D_i / 2.

=========  ==================  ==================  =================================
setting    centre P_i          window D_i          source
=========  ==================  ==================  =================================
neighbor   i                   predicted           Sperber et al. 2018
local-h    predicted           ``--gaussian-window``  Luong et al. 2015 (D = 10 there)
local-s    predicted           predicted           Yang et al. 2018
=========  ==================  ==================  =================================
"""

from dataclasses import dataclass, field
from functools import partial

from ..attention import AttentionPlan
from ..attention.gaussian import GaussianBias
from ..errors import Faults
from ..vocabulary import parse_layers
from .transformer import (
    PatternedTransformer,
    PatternedTransformerConfig,
    Plans,
    register,
    register_size,
)

LOCALNESS = ("neighbor", "local-h", "local-s")


@dataclass
class LocalnessConfig(PatternedTransformerConfig):
    """Settings of ``transformer_localness``; base size by default."""

    localness: str = field(
        default="local-s", metadata={"help": "one of neighbor, local-h, local-s"}
    )
    localness_layers: str = field(
        default="1,2",
        metadata={"help": "encoder layers with the bias, from 1: e.g. 1,2 or 1-3 or all"},
    )
    gaussian_window: float = field(
        default=10.0, metadata={"help": "D in tokens, for local-h; the others learn it"}
    )


@register("transformer_localness", LocalnessConfig)
class Localness(PatternedTransformer):
    """Transformer with a Gaussian localness bias in some encoder layers."""

    @classmethod
    def plan(cls, cfg, faults: Faults) -> Plans:
        """Add a Gaussian bias to the scores of the chosen layers."""
        if cfg.localness not in LOCALNESS:
            faults.add("--localness", cfg.localness, f"use one of {', '.join(LOCALNESS)}")
        if not cfg.gaussian_window > 0:
            faults.add("--gaussian-window", cfg.gaussian_window, "use a number above 0")
        biased_layers = parse_layers(
            "--localness-layers", cfg.localness_layers, cfg.encoder.layers, faults
        )
        biased = AttentionPlan(
            bias=partial(
                GaussianBias,
                predict_centre=cfg.localness != "neighbor",
                window=cfg.gaussian_window if cfg.localness == "local-h" else None,
            )
        )
        return Plans(
            encoder=tuple(
                biased if layer in biased_layers else AttentionPlan()
                for layer in range(cfg.encoder.layers)
            )
        )


# "A dropout rate of 0.1 on all layers" (appendix A.1): of attention and activations too.
register_size(
    "transformer_localness_base",
    Localness,
    LocalnessConfig,
    attention_dropout=0.1,
    activation_dropout=0.1,
)
