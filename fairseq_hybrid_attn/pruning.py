"""Pruning: ``--encoder-layers-to-keep 0,2`` keeps these layers, from 0, of a trained model.

Once fairseq has pruned weights, it forgets which layers it kept; it also drops a side without a
setting.  Here the setting stays with the model, since a layer's patterns depend on its place in the
trained model.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

from omegaconf import DictConfig, OmegaConf

from .errors import UserError

#: The setting of each side.
SETTINGS = {"encoder": "encoder_layers_to_keep", "decoder": "decoder_layers_to_keep"}


def layers_to_keep(setting: str | None) -> list[int]:
    """Return the layers of a comma list, in order; -1 for a word that is not a number."""
    words = setting.split(",") if setting else []
    return sorted(int(word) if word.strip().isdecimal() else -1 for word in words)


def kept(plans: tuple | None, setting: str | None) -> tuple | None:
    """Return the plans of the layers that are kept."""
    if plans is None or not setting:
        return plans
    return tuple(plans[layer] for layer in layers_to_keep(setting))


def pruning_of(model: Any, weights: Iterable[str]) -> DictConfig | None:
    """Return the settings by which fairseq prunes weights of these names for ``model``.

    None: it has as many layers, the weights being pruned already or the model whole.
    """
    settings, needed = OmegaConf.create({"_name": type(model).__name__}), False
    for side, setting in SETTINGS.items():
        if hasattr(model, side):
            present = _layers_among(weights, side)
            keep = layers_to_keep(getattr(getattr(model, side).cfg, side).layers_to_keep)
            prune = bool(keep) and len(present) > len(keep)
            needed |= prune
            settings[setting] = ",".join(map(str, keep if prune else present))
    return settings if needed else None


def check_pruning(path: str | os.PathLike, state: dict, trained: dict, overrides: dict) -> None:
    """Refuse to prune a pruned model, since the setting counts the layers of the trained one.

    Args:
        path, state: of a checkpoint.
        trained: its settings.
        overrides: those with which it is loaded.
    """
    for side, setting in SETTINGS.items():
        had, wanted = trained.get(setting), overrides.get(setting)
        if not (had and wanted) or layers_to_keep(had) == layers_to_keep(wanted):
            continue
        if len(_layers_among(state["model"], side)) == len(layers_to_keep(had)):
            raise UserError(f"{path} has {side} layers {had} alone; it cannot keep {wanted}")


def _layers_among(weights: Iterable[str], side: str) -> list[int]:
    matches = (re.match(rf"{side}\.layers\.(\d+)\.", name) for name in weights)
    return sorted({int(match[1]) for match in matches if match})
