"""What settings these models refuse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fairseq.models.transformer import TransformerConfig
from torch import nn

from ..attention.positions import RELATIVE_POSITIONS, ROTARY
from ..effects import no_effect
from ..errors import Faults, UserError
from ..pruning import layers_to_keep


def check_stock_settings(cfg: TransformerConfig, faults: Faults) -> None:
    """Refuse what fairseq's Transformer settings allow but these models cannot do."""
    if cfg.compile and cfg.checkpoint_activations:
        use = "--checkpoint-activations cannot be compiled; leave out one of them"
        faults.add("--compile", True, use)
    kind = cfg.relative_positions
    if kind not in (None, *RELATIVE_POSITIONS):
        faults.add("--relative-positions", kind, f"use one of {', '.join(RELATIVE_POSITIONS)}")
    for setting in ("dropout", "attention_dropout", "activation_dropout", "relu_dropout"):
        rate = getattr(cfg, setting)
        if not 0 <= rate <= 1:
            faults.add(f"--{setting.replace('_', '-')}", rate, "use a rate from 0 to 1")
    for side in ("encoder", "decoder"):
        part = getattr(cfg, side)
        for setting in ("layers", "attention_heads", "embed_dim", "ffn_embed_dim"):
            value = getattr(part, setting)
            if value < 1:
                faults.add(f"--{side}-{setting.replace('_', '-')}", value, "use 1 or more")
        if part.attention_heads >= 1 and part.embed_dim % part.attention_heads:
            faults.add(
                f"--{side}-attention-heads",
                part.attention_heads,
                f"heads must divide the width, --{side}-embed-dim {part.embed_dim}",
            )
        elif (
            kind == ROTARY
            and not getattr(cfg, f"no_{side}_positions", False)
            and part.attention_heads >= 1
            and part.embed_dim // part.attention_heads % 2
        ):
            use = f"it turns pairs of dimensions, and the heads of the {side} have an odd width"
            faults.add("--relative-positions", kind, use)
        if part.xformers_att_config is not None:
            faults.add(
                f"--{side}-xformers-att-config",
                part.xformers_att_config,
                "this architecture has its own attention; leave the flag out",
            )
        keep = layers_to_keep(part.layers_to_keep)
        if not set(keep) <= set(range(part.layers)) or len(set(keep)) < len(keep):
            faults.add(
                f"--{side}-layers-to-keep",
                part.layers_to_keep,
                "give a comma list of different layers of the trained model, "
                f"0 to {part.layers - 1}",
            )


def check_effects(name: str, typed: Iterable[str], settings: Mapping[str, object]) -> None:
    """Refuse settings that the user typed and another setting makes count for nothing."""
    faults = Faults(name)
    flags = {setting.replace("_", "-"): value for setting, value in settings.items()}
    for flag in (setting.replace("_", "-") for setting in typed):
        if why := no_effect(flag, flags):
            faults.add(f"--{flag}", flags[flag], f"it has no effect {why}; leave it out")
    faults.raise_if_any()


#: The parts of an attention that a kind of quantisation noise does not reach.  fairseq adds
#: ``scalar`` to all weights without "bias" in their names.
NOT_REACHED = {"pq": (".fusion", ".bias"), "scalar": (".bias",)}


def check_noise(model: nn.Module, flag: str, parts: tuple[str, ...]) -> None:
    """Refuse quantisation noise in a model with weights in parts that it does not reach."""
    for where, module in model.named_modules():
        if where.endswith(parts) and next(module.parameters(), None) is not None:
            raise UserError(f"{flag}: it does not reach {where}; leave the flag out")
