"""The rows of the papers' tables as fairseq sees them: parsed by its command line, and built."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import fields
from functools import cache
from pathlib import Path

import torch
from fairseq import options
from fairseq.models import MODEL_DATACLASS_REGISTRY, build_model
from models import task_of
from omegaconf import DictConfig, OmegaConf

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.config.paper_tables import load_table, table_names
from fairseq_hybrid_attn.lab.config.settings import Settings, load_profile
from fairseq_hybrid_attn.lab.run.fairseq_commands import flags as flags_of

CONFIGS = Path(__file__).parents[2] / "configs"
FULL = load_profile("full", CONFIGS)

try:
    EVERY_TABLE = {name: load_table(name, CONFIGS) for name in table_names(CONFIGS)}
    #: The papers' own; "evidence" and "demo" are ours.
    TABLES = {
        name: table
        for name, table in EVERY_TABLE.items()
        if not name.startswith(("evidence/", "demo/"))
    }
    CELLS = {
        f"{name}/{cell.row.name}/{cell.column.name}": cell
        for name, table in TABLES.items()
        for cell in table.cells()
    }
    #: The cells whose own settings are trained, by the name of the run.
    RUNS = {
        name: cell
        for name, cell in CELLS.items()
        if not cell.row.cited and cell.owner is cell and cell.trainable
    }
except UserError as error:  # as a SystemExit, it would end pytest
    raise RuntimeError(f"the tables cannot be read: {error}") from error


def settings(name: str) -> Settings:
    """The full settings behind a cell, ``paper/table/row/column``."""
    return CELLS[name].settings(FULL)


def flags(which: Settings) -> tuple[str, ...]:
    """Its flags of fairseq-train."""
    return tuple(flags_of(which.train))


@cache
def parsed(words: tuple[str, ...]) -> Namespace:
    """The flags of a training, fairseq's defaults filled in."""
    # --user-dir is not needed: importing the package has registered the architectures.
    return options.parse_args_and_arch(options.get_training_parser(), ["data", *words])


def model_settings(args: Namespace) -> Namespace | DictConfig:
    """What fairseq's own conversion, which takes a third of a second, gives a model."""
    kind = MODEL_DATACLASS_REGISTRY.get(args.arch)
    if kind is None:
        return args
    own = {field.name: getattr(args, field.name) for field in fields(kind) if field.name in args}
    return OmegaConf.merge(OmegaConf.structured(kind()), own, {"_name": args.arch})


@cache
def build(words: tuple[str, ...], symbols: int = 50):
    """A model from its flags, its parameters without storage (so that big ones build at once)."""
    with torch.device("meta"):
        return build_model(model_settings(parsed(words)), task_of(symbols))


def build_cell(name: str, symbols: int = 50):
    """The model of a cell."""
    return build(flags(settings(name)), symbols)
