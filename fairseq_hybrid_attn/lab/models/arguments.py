"""Arguments that say which models to look into, on which sentences and which device."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import UserError
from ..cli.flags import positive
from ..corpora.words import SUBWORDS
from . import KINDS
from .trained import TrainedModel, find_model

if TYPE_CHECKING:
    from torch import nn

    from .on_text import Loaded
    from .sentences import Sentences


def add_model(parser: argparse.ArgumentParser) -> None:
    """Declare data, a model and the device."""
    add = parser.add_argument
    add("data", type=Path, metavar="DATA", help="output folder of fairseq-preprocess")
    add("--path", required=True, type=Path, metavar="FILE", help="checkpoint")
    _add_reading(parser)


def add_models(parser: argparse.ArgumentParser) -> None:
    """Declare data, models that share their dictionaries, and the device."""
    add = parser.add_argument
    text = "output folder of fairseq-preprocess; or a run, or an exported model"
    add("data", type=Path, metavar="DATA", help=text)
    add("--path", type=Path, nargs="+", metavar="FILE", help="checkpoint; several are compared")
    text = "names of the models (default: from their paths)"
    add("--names", nargs="+", metavar="NAME", help=text)
    text = "sentences that the run or the exported model translates itself"
    add("--text", nargs="+", metavar="SENTENCE", help=text)
    _add_reading(parser)


def _add_reading(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--source-lang", metavar="LANG", help="default: as in the checkpoint")
    add("--target-lang", metavar="LANG", help="default: as in the checkpoint")
    text = "subwords per batch (default: 4000)"
    add("--max-tokens", type=positive, default=4000, metavar="N", help=text)
    add("--cpu", action="store_true", help="do not use a GPU")


def add_sentences(parser: argparse.ArgumentParser) -> None:
    """Declare sentences and their translations."""
    add = parser.add_argument
    add("--gen-subset", metavar="NAME", help="split in DATA (default: test)")
    add("--source", type=Path, metavar="FILE", help="or: source text in subwords")
    add("--target", type=Path, metavar="FILE", help="translations of --source, in subwords")
    text = "how words of the text are split (needed, but for a run or an exported model)"
    add("--subwords", choices=SUBWORDS, help=text)


def add_selection(parser: argparse.ArgumentParser, unless: str = "all") -> None:
    """Declare which sentences are looked at; ``unless`` given, all or those that it says."""
    add = parser.add_argument
    text = f"sentences to use, from 1, such as 1,5-7, or all (default: {unless})"
    add("--sentences", default="all" if unless == "all" else None, metavar="LIST", help=text)
    text = "sentences that are too long for the model: an error (default), or left out"
    add("--too-long", choices=("error", "skip"), default="error", help=text)


def selected(args: argparse.Namespace, loaded: Loaded) -> list[int]:
    """The sentences (from 0) that :func:`add_selection` selects; notes say which it leaves out."""
    from .on_text import chosen  # here and below: these import torch, which takes seconds

    numbers = chosen("--sentences", args.sentences, len(loaded.sentences))
    return loaded.usable(numbers, skip_long=args.too_long == "skip")


def add_kinds(parser: argparse.ArgumentParser) -> None:
    text = "self-attention of encoder or decoder, cross-attention (default: all)"
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help=text)


def check(args: argparse.Namespace) -> None:
    """Refuse arguments of models and sentences that do not go together."""
    if (args.source is None) != (args.target is None):
        raise UserError("give both --source and --target, or neither for a split in DATA")
    if args.source and args.gen_subset:
        raise UserError("--gen-subset is a split in DATA; leave out --source and --target")
    if args.subwords is None:
        raise UserError(f"give --subwords: {', '.join(SUBWORDS)}")


def check_models(args: argparse.Namespace) -> None:
    args.trained = None
    if args.path is None:
        args.trained = find_model(args.data)
        args.path, args.names = [args.trained.checkpoint], args.names or [args.data.resolve().name]
        args.data = args.trained.binary
        args.subwords = args.subwords or args.trained.subwords.family
    if args.text and (args.trained is None or args.source or args.gen_subset):
        raise UserError("--text is for a run or an exported model, and the only text then")
    check(args)
    args.names = names_given(args.names, args.path)


def names_given(names: list[str] | None, paths: list[Path]) -> list[str]:
    """The names of models: those of ``--names`` or, if there are none, from their paths."""
    if names and len(names) != len(paths):
        raise UserError(f"--names gives {len(names)} names for {len(paths)} models")
    names = names or names_of(paths)
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"two models are called {name!r}; name each with --names")
    return names


def inputs_of(args: argparse.Namespace) -> list[Path | None]:
    """The files that hold the models and their text; None for a text that is not given."""
    return [*args.path, args.source, args.target]


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


def device(args: argparse.Namespace) -> str:
    """The device to compute on: a GPU if there is one, unless ``--cpu``."""
    import torch

    return "cuda" if torch.cuda.is_available() and not args.cpu else "cpu"


def load_one(args: argparse.Namespace, path: Path | None = None) -> tuple[nn.Module, object]:
    """Load a model, by default that of ``--path``, and its task."""
    from .loading import load_model

    languages = {"source_lang": args.source_lang, "target_lang": args.target_lang}
    return load_model(path or args.path, args.data, **languages)


def load(args: argparse.Namespace) -> Iterator[Loaded]:
    """Load one model of ``--path`` after the other, with the sentences in its numbers."""
    for number, (name, path) in enumerate(zip(args.names, args.path, strict=True)):
        yield load_with_sentences(args, name, path, warn=number == 0)


def load_with_sentences(
    args: argparse.Namespace, name: str, path: Path, *, warn: bool = True
) -> Loaded:
    """Load a model with the sentences that the arguments name; ``warn`` of unknown subwords."""
    from .on_text import Loaded
    from .sentences import read_sentences

    model, task = load_one(args, path)
    if getattr(args, "text", None):
        sentences = typed_sentences(args.trained, model, task, args.text)
    else:
        text = (args.source, args.target) if args.source else None
        sentences = read_sentences(task, args.gen_subset or "test", text, args.subwords, warn=warn)
    at = {"device": device(args), "max_tokens": args.max_tokens}
    return Loaded(name, path, model, task, sentences, args.subwords, **at)


def typed_sentences(
    trained: TrainedModel, model: nn.Module, task: object, text: list[str]
) -> Sentences:
    """Sentences as a user types them, with the model's own translations."""
    from .searching import pieces_of, search
    from .sentences import Sentences

    source = list(map(trained.preparation(trained.languages[0]), text))
    settings = trained.settings.get("generate", {})
    found = search(model, task, Sentences.of_text(task, source), settings)
    target = [" ".join(pieces_of(best[0], task)) if best else "" for best in found]
    return Sentences.of_text(task, source, target)
