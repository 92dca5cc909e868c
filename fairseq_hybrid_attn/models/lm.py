"""Language models with HySAN's branches or MMA's heads: ``--task language_modeling``.

The papers translate.  These models are fairseq's ``transformer_lm`` with the self-attention of a
HySAN decoder (causal branches and their fusion), or with heads of MMA's causal patterns: the past,
and the nearest words of the past.  ``--decoder-branches fw`` or ``--head-patterns backward`` alone
is ``transformer_lm``, whose weights load here.
"""

import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Optional

from fairseq.models.transformer_lm import TransformerLanguageModel, TransformerLanguageModelConfig

from ..errors import Faults
from ..vocabulary import mma_causal_vocabulary, parse_width, vocabulary_for
from .config import OurSettings
from .hysan import DecoderBranches, branch_plans, read_fusion
from .mma import head_plans
from .transformer import PatternedDecoder, PlannedModel, Plans, register, with_positions


@dataclass
class PatternedLMConfig(OurSettings, TransformerLanguageModelConfig):
    """fairseq's settings; widths that are not given follow the model's, as in translation."""

    decoder_input_dim: Optional[int] = field(
        default=None, metadata={"help": "decoder input dimension; as --decoder-embed-dim"}
    )
    decoder_output_dim: Optional[int] = field(
        default=None, metadata={"help": "decoder output dimension; as --decoder-embed-dim"}
    )


class DecoderAlone(TransformerLanguageModel):
    """fairseq's language model around a decoder with plans."""

    @classmethod
    def build_model(cls, cfg, task):
        """Build from nested settings; fairseq makes the embeddings, in a model without layers."""
        empty = copy.deepcopy(cfg)
        empty.decoder.layers, empty.decoder.layers_to_keep, empty.base_layers = 0, None, 0
        embeddings = super().build_model(empty, task).decoder.embed_tokens
        cfg.decoder.layers = len(cfg.plans.decoder)
        cfg.max_target_positions = empty.max_target_positions
        dictionary = task.target_dictionary
        cfg = with_positions(cfg, "decoder")
        return cls(PatternedDecoder(cfg, dictionary, embeddings, no_encoder_attn=True))


@dataclass
class HySANLMConfig(DecoderBranches, PatternedLMConfig):
    """Settings of ``transformer_lm_hysan``; the sizes of ``transformer_lm`` by default."""


@register("transformer_lm_hysan", HySANLMConfig)
class HySANLanguageModel(PlannedModel, DecoderAlone):
    """Language model with the self-attention of HySAN's decoder (its Eq. 11 to 14)."""

    @classmethod
    def plan(cls, cfg, faults: Faults) -> Plans:
        """Give each layer its branches and their fusion."""
        fusion = read_fusion(cfg, faults)
        return Plans(decoder=branch_plans(cfg, "decoder", fusion, faults))


@dataclass
class MMALMConfig(PatternedLMConfig):
    """Settings of ``transformer_lm_mma``; the sizes of ``transformer_lm`` by default."""

    head_patterns: str = field(
        default="backward,local",
        metadata={
            "help": "head patterns, a comma list, each for an equal share of the heads "
            "(backward is the past)",
            "vocabulary": partial(vocabulary_for, "decoder", mma_causal_vocabulary(1)),
        },
    )
    local_window: int = field(
        default=1, metadata={"help": "w: a local head sees the w tokens before"}
    )


@register("transformer_lm_mma", MMALMConfig)
class MMALanguageModel(PlannedModel, DecoderAlone):
    """Language model with MMA's heads (its Eq. 7, 9, 11), those that see no later word."""

    @classmethod
    def plan(cls, cfg, faults: Faults) -> Plans:
        """Give each head of each layer its pattern."""
        width = parse_width("--local-window", cfg.local_window, faults)
        vocabulary = vocabulary_for("decoder", mma_causal_vocabulary(width))
        return Plans(decoder=head_plans(cfg, "decoder", vocabulary, faults))
