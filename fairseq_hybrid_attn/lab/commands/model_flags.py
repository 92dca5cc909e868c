"""Flags that say which models are run, on which sentences and which device."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import UserError
from ..corpora.words import SUBWORDS
from ..models import KINDS
from .flags import add_device, maybe_named, positive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..models.on_text import ModelOnText
    from ..models.trained import TrainedModel

MODEL = "run, exported model, or checkpoint"


def add_model(parser: argparse.ArgumentParser) -> None:
    """Declare a model, its data, and the device."""
    parser.add_argument("model", type=Path, metavar="MODEL", help=MODEL)
    add_reading(parser)


def add_models(parser: argparse.ArgumentParser) -> None:
    """Declare models that are compared, their data, and the device."""
    add = parser.add_argument
    text = f"{MODEL}; several are compared, and called as their paths are or by NAME"
    add("models", type=maybe_named, nargs="+", metavar="[NAME=]MODEL", help=text)
    add_reading(parser)


def add_reading(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_data(parser)
    text = "subwords per batch (default: 4000)"
    add("--max-tokens", type=positive, default=4000, metavar="N", help=text)
    add_device(parser)


def add_data(parser: argparse.ArgumentParser) -> None:
    text = 'output of "prepare", or of fairseq-preprocess (default: that of the model)'
    parser.add_argument("--data", type=Path, metavar="DIR", help=text)


def add_sentences(parser: argparse.ArgumentParser, *, typed: bool = True) -> None:
    """Declare sentences and their translations."""
    add = parser.add_argument
    add("--gen-subset", metavar="NAME", help="set of the data (default: test)")
    add("--source", type=Path, metavar="FILE", help="or: source text in subwords")
    add("--target", type=Path, metavar="FILE", help="translations of --source, in subwords")
    if typed:
        text = "or: sentences as you type them, which the model translates itself"
        add("--sentence", nargs="+", action="extend", default=[], metavar="TEXT", help=text)
    text = 'how words are split (needed if "prepare" did not make the data)'
    add("--subwords", choices=SUBWORDS, help=text)


def add_selection(parser: argparse.ArgumentParser, unless: str = "all") -> None:
    """Declare which sentences are looked at; ``unless`` given, all or those that it says."""
    add = parser.add_argument
    text = f"sentences to use, from 1, such as 1,5-7, or all (default: {unless})"
    add("--sentences", default="all" if unless == "all" else None, metavar="LIST", help=text)
    text = "sentences that are too long for the model: an error (default), or left out"
    add("--too-long", choices=("error", "skip"), default="error", help=text)


def add_kinds(parser: argparse.ArgumentParser) -> None:
    text = "self-attention of encoder or decoder, cross-attention (default: all)"
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help=text)


def named_models(models: list[tuple[str, Path]], data: Path | None) -> dict[str, TrainedModel]:
    """The models by their names, by default from their paths."""
    from ..models.trained import find_model

    paths = [path for _, path in models]
    each = zip(models, names_of(paths), strict=True)
    names = [name or default for (name, _), default in each]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"two models are called {name!r}; name each: NAME=MODEL")
    return {name: find_model(path, data) for name, path in zip(names, paths, strict=True)}


def names_of(paths: list[Path]) -> list[str]:
    """Names for models: the end of each path, from the last part in which all paths differ.

    What ends all of several paths, such as ``bleu/seed1`` of runs, is left out.
    """
    parts = [path.resolve().parts for path in paths]
    while len(set(parts)) > 1 and len({path[-1] for path in parts}) == 1:
        parts = [path[:-1] for path in parts]
    for length in range(1, max(map(len, parts)) + 1):
        names = [str(Path(*part[-length:])) for part in parts]
        if len(set(names)) == len(names):
            break
    return [name.removesuffix(".pt") for name in names]


def files_of(args: argparse.Namespace, models: dict[str, TrainedModel]) -> list[Path | None]:
    """The files that hold the models and their text; None for a text that is not given."""
    return [*(trained.checkpoint for trained in models.values()), args.source, args.target]


def on_text(args: argparse.Namespace, models: dict[str, TrainedModel]) -> Iterator[ModelOnText]:
    """One model after the other, with the sentences of the flags in its numbers."""
    from ..models.loading import device_of  # here: these import torch, which takes seconds
    from ..models.on_text import Text, put_on_text

    if (args.source is None) != (args.target is None):
        raise UserError("give both --source and --target, or neither for a set of the data")
    typed = tuple(getattr(args, "sentence", ()))
    if sum(map(bool, (args.source, args.gen_subset, typed))) > 1:
        raise UserError("--gen-subset, --source with --target, --sentence: give one of them")
    files = (args.source, args.target) if args.source else None
    text = Text(args.gen_subset or "test", files, typed, args.subwords)
    return put_on_text(models, text, device_of(args.device), args.max_tokens)
