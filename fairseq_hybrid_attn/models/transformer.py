"""A fairseq Transformer whose self-attentions follow plans: all that the models share.

The model of a paper adds its settings.  Its :meth:`PatternedTransformer.plan` says what the
self-attention of each layer does.
"""

from __future__ import annotations

import copy
import sys
from dataclasses import dataclass, fields, replace
from types import MethodType

import torch
from fairseq.distributed import fsdp_wrap
from fairseq.models import ARCH_CONFIG_REGISTRY, register_model
from fairseq.models.transformer import (
    TransformerConfig,
    TransformerDecoderBase,
    TransformerEncoderBase,
    TransformerModelBase,
)
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.modules.transformer_layer import (
    TransformerDecoderLayerBase,
    TransformerEncoderLayerBase,
)
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf
from torch import nn

from ..attention import AttentionPlan
from ..checkpoints import is_new
from ..devices import has_bfloat16, is_cpu
from ..errors import Faults, UserError
from ..patterns import PAST
from ..pruning import kept, pruning_of
from ..vocabulary import Vocabulary, vocabulary_for
from .checks import NOT_REACHED, check_effects, check_noise, check_stock_settings
from .config import PatternedTransformerConfig as PatternedTransformerConfig
from .config import nested_config, with_defaults
from .fast_dropout import use_fast_dropout
from .self_attention import PatternedSelfAttention


@dataclass(frozen=True)
class Plans:
    """A plan for each layer of each side, lowest first; None: the layers are fairseq's own."""

    encoder: tuple[AttentionPlan, ...] | None = None
    decoder: tuple[AttentionPlan, ...] | None = None

    def on_both_sides(self, cfg: TransformerConfig) -> Plans:
        """Plan ordinary attention where there is no plan.

        fairseq's own self-attention takes its weights past quantisation noise where it trains, and
        has no relative positions.
        """
        encoder, decoder = self.encoder, self.decoder
        if encoder is None:
            encoder = (AttentionPlan(),) * cfg.encoder.layers
        if decoder is None:
            decoder = (AttentionPlan(branches=((PAST,),)),) * cfg.decoder.layers
        return Plans(encoder, decoder)

    def check(self, cfg: TransformerConfig, name: str) -> None:
        """Refuse another number of plans than there are layers."""
        for side in ("encoder", "decoder"):
            plans, layers = getattr(self, side), getattr(cfg, side).layers
            if plans is not None and len(plans) != layers:
                raise UserError(
                    f"{name}.plan() gives {len(plans)} plans for {layers} {side} layers"
                )


class PlannedModel:
    """What translation and language models share: their settings become plans, and plans a model.

    A subclass names fairseq's class after this one among its bases, which builds the model.
    """

    new_weights = False

    @classmethod
    def plan(cls, cfg: TransformerConfig, faults: Faults) -> Plans:
        """Return what each self-attention does.

        Args:
            cfg: all settings; fairseq's own are nested, the paper's are attributes.
            faults: receives what is wrong with the settings.
        """
        raise TypeError(f"{cls.__name__} does not define plan()")

    @classmethod
    def vocabulary(cls, cfg: TransformerConfig, side: str) -> Vocabulary:
        """Return the paper's words for patterns of the ``encoder`` or the ``decoder``."""
        return vocabulary_for(side, {})

    @classmethod
    def build_model(cls, cfg, task):
        """Build the model from flat settings, with the dictionaries of a task.

        Raises:
            UserError: listing everything that is wrong with the settings.
        """
        try:
            return cls._build_model(cfg, task)
        except UserError as error:
            # Hydra shows a traceback for every Exception, but not for a plain SystemExit.
            if HydraConfig.initialized():
                raise SystemExit(error.code) from None
            raise

    @classmethod
    def _build_model(cls, cfg, task):
        name = getattr(cfg, "_name", None) or cls.__name__
        if HydraConfig.initialized():
            overrides = HydraConfig.get().overrides.task
            names = (override.partition("=")[0].lstrip("+") for override in overrides)
            typed = [name.removeprefix("model.") for name in names]
            check_effects(name, typed, OmegaConf.to_container(cfg))
        cfg = nested_config(cfg)
        faults = Faults(name)
        check_stock_settings(cfg, faults)
        plans = cls.plan(cfg, faults)
        if cfg.quant_noise.pq > 0 or cfg.quant_noise.scalar > 0 or cfg.relative_positions:
            plans = plans.on_both_sides(cfg)
        if plans.decoder is not None and cfg.cross_self_attention:
            faults.add(
                "--cross-self-attention",
                True,
                "patterns, noise and relative positions of the decoder's self-attention are "
                "defined over the target alone; leave the flag out",
            )
        faults.raise_if_any()
        plans.check(cfg, cls.__name__)
        cfg.plans = Plans(
            encoder=kept(plans.encoder, cfg.encoder.layers_to_keep),
            decoder=kept(plans.decoder, cfg.decoder.layers_to_keep),
        )
        try:
            model = super().build_model(cfg, task)  # type: ignore[misc]
        except (ValueError, OSError) as error:
            # What fairseq refuses: embeddings that cannot be shared, missing files.
            raise UserError(f"{name} cannot be built from these settings:\n  {error}") from error
        for kind, parts in NOT_REACHED.items():
            if getattr(cfg.quant_noise, kind) > 0:
                check_noise(model, f"{name}: --quant-noise-{kind}", parts)
        use_fast_dropout(model)
        model.new_weights = cfg.new_weights
        if cfg.compile:
            compile_layers(model)
        return model

    def load_state_dict(self, state_dict, strict=True, model_cfg=None, args=None):
        """Load weights; prune those of a larger model to the layers that are kept.

        With ``--new-weights``, those that a Transformer lacks may be missing.
        """
        pruning = pruning_of(self, state_dict)
        weights = self.state_dict() if self.new_weights else {}  # type: ignore[attr-defined]
        for name, weight in weights.items():
            if is_new(name):
                state_dict.setdefault(name, weight)
        return super().load_state_dict(state_dict, strict, model_cfg=pruning)  # type: ignore[misc]


class PatternedTransformer(PlannedModel, TransformerModelBase):
    """Base of the models of this package."""

    @classmethod
    def add_args(cls, parser):
        """Make flags from the flat dataclass, not from fairseq's nested one."""
        super(TransformerModelBase, cls).add_args(parser)

    @classmethod
    def encoder_type(cls, cfg: TransformerConfig) -> type[TransformerEncoderBase]:
        """Return the class of the encoder; override it to change more than the layers."""
        return PatternedEncoder

    @classmethod
    def decoder_type(cls, cfg: TransformerConfig) -> type[TransformerDecoderBase]:
        """Return the class of the decoder, likewise."""
        return PatternedDecoder

    @classmethod
    def build_encoder(cls, cfg, src_dict, embed_tokens):
        return cls.encoder_type(cfg)(with_positions(cfg, "encoder"), src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg, tgt_dict, embed_tokens):
        decoder = cls.decoder_type(cfg)
        cfg = with_positions(cfg, "decoder")
        return decoder(cfg, tgt_dict, embed_tokens, no_encoder_attn=cfg.no_cross_attention)

    def prepare_for_inference_(self, cfg):
        """Honour ``--cpu --bf16``, which fairseq ignores: multiply matrices in bfloat16.

        Softmax, log-probabilities and the beam's scores stay in single precision.

        Raises:
            UserError: if this CPU is not made for it.
        """
        super().prepare_for_inference_(cfg)
        if cfg.common.cpu and cfg.common.bf16:
            if not has_bfloat16():
                raise UserError(
                    "--cpu --bf16: this CPU has no bfloat16 instructions (AVX512-BF16 or AMX); "
                    "omit --bf16"
                )
            for side in (self.encoder, self.decoder):
                # A method: a copy of the model gets one of its own weights, not of these.
                forward = torch.autocast("cpu", torch.bfloat16)(type(side).forward)
                side.forward = MethodType(forward, side)


class PatternedEncoder(TransformerEncoderBase):
    """fairseq's encoder with a plan for each layer (``cfg.plans.encoder``), or its own layers."""

    def __init__(self, cfg, dictionary, embed_tokens, return_fc=False):
        self._plans = iter(cfg.plans.encoder or ())
        super().__init__(cfg, dictionary, embed_tokens, return_fc)

    def build_encoder_layer(self, cfg):
        return wrapped(PatternedEncoderLayer(cfg, next(self._plans, None), self.return_fc), cfg)

    def forward_scriptable(
        self, src_tokens, src_lengths=None, return_all_hiddens=False, token_embeddings=None
    ):
        """Return fairseq's output.

        fairseq tests for padding again in each layer, and a GPU waits for each answer.
        """
        padding = src_tokens.eq(self.padding_idx)
        x, embedded = self.forward_embedding(src_tokens, token_embeddings)
        unpadded = is_cpu(padding.device) and not padding.any()
        if not unpadded:
            x = x.masked_fill(padding.unsqueeze(-1), 0)
        x = x.transpose(0, 1)  # [n, b, d]
        states, fc_results = [x], []
        for layer in self.layers:
            x = layer(x, encoder_padding_mask=None if unpadded else padding)
            x, fc_result = x if isinstance(x, tuple) else (x, None)
            if return_all_hiddens:
                states.append(x)
                fc_results.append(fc_result)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        return {
            "encoder_out": [x],
            "encoder_padding_mask": [padding],
            "encoder_embedding": [embedded],
            "encoder_states": states if return_all_hiddens else [],
            "fc_results": fc_results,
            "src_tokens": [],
            "src_lengths": [padding.logical_not().sum(dim=1, keepdim=True, dtype=torch.int32)],
        }


class PatternedDecoder(TransformerDecoderBase):
    """fairseq's decoder with a causal plan for each layer (``cfg.plans.decoder``), or its own.

    Raises:
        ValueError: if the self-attention of a layer sees the future, whoever planned it.
    """

    def __init__(self, cfg, dictionary, embed_tokens, **kwargs):
        self._plans = iter(cfg.plans.decoder or ())
        super().__init__(cfg, dictionary, embed_tokens, **kwargs)
        planned = 0
        for number in range(len(self.layers)):  # with layer dropout, iteration leaves some out
            for module in self.layers[number].modules():
                if isinstance(module, PatternedSelfAttention):
                    planned += 1
                    if fault := module.sees_future():
                        raise ValueError(f"decoder layer {number + 1}, {fault}; a decoder must not")
        self._planned, self._all_causal = planned > 0, planned == len(self.layers)

    def buffered_future_mask(self, tensor):
        """Return None if all layers are causal by themselves."""
        return None if self._all_causal else super().buffered_future_mask(tensor)

    def build_decoder_layer(self, cfg, no_encoder_attn=False):
        return wrapped(PatternedDecoderLayer(cfg, next(self._plans, None), no_encoder_attn), cfg)

    def extract_features(
        self,
        prev_output_tokens,
        encoder_out=None,
        incremental_state=None,
        full_context_alignment=False,
        *args,
        **kwargs,
    ):
        """Return fairseq's features.

        Raises:
            UserError: if ``full_context_alignment``, which looks at future tokens, is set.
        """
        if full_context_alignment and self._planned:
            raise UserError(
                "full_context_alignment: this decoder's self-attention sees no future token; use "
                "an architecture whose decoder is fairseq's own, without --relative-positions"
            )
        return super().extract_features(
            prev_output_tokens,
            encoder_out,
            incremental_state,
            full_context_alignment,
            *args,
            **kwargs,
        )


class CompiledInTraining(nn.Module):
    """A layer that runs compiled, if it was compiled, where a model learns.

    Beam search, with another length at each step and its own state, is left as it is; so are hooks,
    which change from step to step.
    """

    def __call__(self, x, *args, **kwargs):
        if not torch.is_grad_enabled() or self._forward_hooks or self._forward_pre_hooks:
            return self._call_impl(x, *args, **kwargs)
        if self._compiled_call_impl is not None:
            x = x.contiguous()  # as between layers, so that the first is no case of its own
            for name in ("encoder_padding_mask", "self_attn_padding_mask"):  # likewise without any
                if name in kwargs and kwargs[name] is None:
                    kwargs[name] = x.new_zeros(x.size(1), x.size(0), dtype=torch.bool)
        return super().__call__(x, *args, **kwargs)


class PatternedEncoderLayer(CompiledInTraining, TransformerEncoderLayerBase):
    """fairseq's encoder layer with a planned self-attention; None: its own."""

    def __init__(self, cfg, plan: AttentionPlan | None, return_fc=False):
        self._plan = plan
        super().__init__(cfg, return_fc)

    def build_self_attention(self, embed_dim, cfg):
        if self._plan is None:
            return super().build_self_attention(embed_dim, cfg)
        return _self_attention(embed_dim, cfg.encoder.attention_heads, self._plan, cfg)


class PatternedDecoderLayer(CompiledInTraining, TransformerDecoderLayerBase):
    """fairseq's decoder layer, likewise."""

    def __init__(self, cfg, plan: AttentionPlan | None, no_encoder_attn=False):
        self._plan = plan
        super().__init__(cfg, no_encoder_attn)

    def build_self_attention(self, embed_dim, cfg, **kwargs):
        if self._plan is None:
            return super().build_self_attention(embed_dim, cfg, **kwargs)
        return _self_attention(embed_dim, cfg.decoder.attention_heads, self._plan, cfg)


def compile_layers(model: nn.Module, **settings) -> None:
    """Compile each layer in place: names of weights stay as they are.

    ``settings``: of ``torch.compile``.
    """
    for module in model.modules():
        if isinstance(module, CompiledInTraining):
            module.compile(dynamic=True, **settings)


def _self_attention(embed_dim, num_heads, plan, cfg) -> PatternedSelfAttention:
    return PatternedSelfAttention(
        embed_dim,
        num_heads,
        replace(plan, relative_positions=cfg.relative_positions),
        dropout=cfg.attention_dropout,
        q_noise=cfg.quant_noise.pq,
        qn_block_size=cfg.quant_noise.pq_block_size,
    )


def wrapped(layer: nn.Module, cfg: TransformerConfig) -> nn.Module:
    """Add activation checkpointing and sharding to a layer, as fairseq does to its own."""
    if cfg.checkpoint_activations:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    return fsdp_wrap(
        layer, min_num_params=0 if cfg.checkpoint_activations else cfg.min_params_to_wrap
    )


def with_positions(cfg: TransformerConfig, side: str) -> TransformerConfig:
    """Return the settings of a side: with positional embeddings, relative positions or none."""
    cfg = copy.copy(cfg)
    if cfg.no_token_positional_embeddings or getattr(cfg, f"no_{side}_positions", False):
        cfg.no_token_positional_embeddings, cfg.relative_positions = True, None
    elif cfg.relative_positions:
        cfg.no_token_positional_embeddings = True
    return cfg


def register(name: str, config: type):
    """Register a model class with its settings as ``--arch name``."""

    def registered(model: type) -> type:
        model = register_model(name, dataclass=config)(model)
        # fairseq calls it with what a command line says; a checkpoint is not asked.
        defaults = {setting.name: setting.default for setting in fields(config)}
        ARCH_CONFIG_REGISTRY[name] = lambda args: check_effects(
            name, vars(args), {**defaults, **vars(args)}
        )
        return model

    return registered


def register_size(name: str, model: type, config: type, **defaults) -> None:
    """Register a named size: the same model with other default settings.

    fairseq's architecture functions would work with ``fairseq-train`` alone.  With a dataclass,
    the size also works with ``fairseq-hydra-train``, and every checkpoint holds all its values.
    """
    class_name = "".join(part.capitalize() for part in name.split("_"))
    sized = with_defaults(config, f"{class_name}Config", **defaults)
    doc = f"{model.__name__} with other default settings: ``--arch {name}``."
    made = type(class_name, (model,), {"__doc__": doc, "__module__": model.__module__})
    setattr(sys.modules[model.__module__], class_name, made)  # where pickle looks for it
    register(name, sized)(made)
