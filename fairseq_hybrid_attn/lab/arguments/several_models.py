"""The arguments of commands that look into one or several trained models, and their sentences."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from torch import nn
from tqdm import tqdm

from ...errors import UserError
from ..inference import loading
from ..inference.observing import Attentions, Observed, watch
from ..inference.sentences import Sentences, some
from . import one_model as looking


def add_models(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Arguments for models that share their dictionaries, and where to run them.

    Without ``required``, the command may know data and models otherwise.
    """
    looking.add_model(parser, several=True, required=required)
    parser.add_argument(
        "--names", nargs="+", metavar="NAME", help="of the models (default: from their paths)"
    )


def add_corpus(parser: argparse.ArgumentParser) -> None:
    """Arguments for which sentences of many are looked at."""
    parser.add_argument(
        "--sentences", default="all", metavar="LIST", help="which, from 1, such as 1-500; all"
    )
    parser.add_argument(
        "--too-long",
        choices=("error", "skip"),
        default="error",
        help="sentences that are too long for the model: an error (default), or left out",
    )


def check(args: argparse.Namespace) -> None:
    """Refuse arguments that do not go together.

    Raises:
        UserError: naming the flag and the way out.
    """
    looking.check(args)
    if args.names and len(args.names) != len(args.path):
        raise UserError(
            f"--names gives {len(args.names)} names for {len(args.path)} models of --path"
        )
    names = args.names or names_of(args.path)
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise UserError(f"two models are called {min(twice)!r}; give each its own with --names")


def names_of(paths: list[Path]) -> list[str]:
    """Names by the last part in which all paths differ, with what follows."""
    parts = [path.resolve().parts for path in paths]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            break
    return [name.removesuffix(".pt") for name in names]


@dataclass(frozen=True)
class Loaded:
    """A model and its sentences.

    Attributes:
        name: for people.
        path: of the checkpoint.
        model: in evaluation mode.
        task: its task.
        sentences: in its numbers.
    """

    name: str
    path: Path
    model: nn.Module
    task: object
    sentences: Sentences

    @property
    def description(self) -> str:
        """Architecture, and whether there are positions, where there could be."""
        cfg = getattr(self.model, "cfg", None)
        arch = getattr(cfg, "_name", None) or type(self.model).__name__
        return "; ".join(filter(None, (arch, positions(self.model))))


def positions(model: nn.Module) -> str:
    """Which sides of a model have no positional embedding; empty if none has a place for it."""
    sides = {side: getattr(model, side, None) for side in ("encoder", "decoder")}
    able = [side for side, part in sides.items() if hasattr(part, "embed_positions")]
    if not able:
        return ""
    without = [side for side in able if sides[side].embed_positions is None]
    return f"no positions in the {' and '.join(without)}" if without else "with positions"


def load(args: argparse.Namespace) -> Iterator[Loaded]:
    """The models, one at a time.

    Raises:
        UserError: if one cannot be loaded, or the sentences cannot be read.
    """
    languages = {"source_lang": args.source_lang, "target_lang": args.target_lang}
    names = args.names or names_of(args.path)
    for number, (name, path) in enumerate(zip(names, args.path, strict=True)):
        model, task = loading.load(path, args.data, **languages)
        sentences = looking.sentences_of(args, task, warn=number == 0)
        yield Loaded(name, path, model, task, sentences)


def attentions_of(loaded: Loaded, kinds: list[str]) -> Attentions:
    """The attentions of a model; of what it does not have, it is said why.

    Raises:
        UserError: if it has none of them.
    """
    try:
        attentions = Attentions(loaded.model, kinds)
    except UserError as error:
        raise UserError(f"--path {loaded.path}: {error}") from None
    for kind, reason in attentions.missing().items():
        looking.note(f"{loaded.name}: no {kind} attention: {reason}")
    if not attentions.layers:
        raise UserError(f"--path {loaded.path}: there is no attention of {' or '.join(kinds)}")
    return attentions


def check_seen(loaded: Loaded, seen: bool) -> None:
    """Refuse a model that has shown nothing: whether a decoder without attention modules returns
    any attention, it tells only once it runs.

    Raises:
        UserError: if nothing was seen.
    """
    if not seen:
        raise UserError(
            f"--path {loaded.path}: its {type(loaded.model.decoder).__name__} has no attention "
            "modules, and returns no attention"
        )


def chosen(flag: str, value: str, count: int) -> list[int]:
    """Sentences by their numbers.

    Args:
        flag: the flag it came from, for messages.
        value: a comma list of numbers and ranges from 1, such as ``1,5-7``; or ``all``.
        count: how many there are.

    Returns:
        them from 0, each once, in the order of the text.

    Raises:
        UserError: if it is no such list, or names what is not there.
    """
    if value == "all":
        return list(range(count))
    found = set()
    for part in value.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if not match:
            raise UserError(f"{flag} {value}: use numbers and ranges such as 1,5-7, or all")
        first, last = int(match[1]), int(match[2] or match[1])
        if not 1 <= first <= last <= count:
            raise UserError(f"{flag} {value}: {part.strip()} is not within 1 to {count:,}")
        found.update(range(first - 1, last))
    return sorted(found)


def wanted(args: argparse.Namespace, loaded: Loaded) -> list[int]:
    """The sentences (from 0) of ``--sentences`` that can be looked at; others are told.

    Raises:
        UserError: if no sentence is left, or some are too long and not to be skipped.
    """
    asked = chosen("--sentences", args.sentences, len(loaded.sentences))
    long = too_long(loaded, asked)
    if long and args.too_long == "error":
        refuse(loaded, long, "longer than the model takes", "--too-long skip leaves them out")
    empty = empty_ones(loaded, asked)
    for numbers, what in ((long, "longer than the model takes"), (empty, "empty on a side")):
        if numbers:
            looking.note(
                f"{loaded.name}: {len(numbers):,} sentences are {what} and are left out: "
                f"{some(numbers)}"
            )
    left = sorted(set(asked).difference(long, empty))
    if not left:
        raise UserError(f"--path {loaded.path}: none of the sentences can be looked at")
    return left


def too_long(loaded: Loaded, among: list[int]) -> list[int]:
    """Those sentences (from 0) that are longer than the model takes."""
    return sorted(set(loaded.sentences.too_long(loaded.model, loaded.task)).intersection(among))


def empty_ones(loaded: Loaded, among: list[int]) -> list[int]:
    """Those sentences (from 0) that are empty, or their translation is."""
    sentences = loaded.sentences
    return [n for n in among if not (sentences.source[n] and sentences.target[n])]


def refuse(loaded: Loaded, numbers: list[int], what: str, way_out: str) -> NoReturn:
    """Refuse to look at sentences (from 0).

    Raises:
        UserError: always.
    """
    raise UserError(
        f"--path {loaded.path}: {len(numbers):,} sentences are {what}: {some(numbers)}; {way_out}"
    )


def look(
    args: argparse.Namespace,
    loaded: Loaded,
    attentions: Attentions,
    numbers: list[int],
    use: Callable[[int, Observed], object],
) -> list:
    """Look at sentences, with a progress bar.

    Args:
        args: of the command.
        loaded: the model and its sentences.
        attentions: of the model.
        numbers: which sentences, from 0.
        use: as for :func:`~..analysis.observing.watch`.

    Returns:
        what ``use`` made of each of them.

    Raises:
        UserError: if what the model returns is no attention.
    """
    count = len(loaded.sentences)
    with tqdm(total=count, unit=" sentences", file=sys.stderr, mininterval=1.0) as bar:
        found = watch(
            attentions,
            loaded.sentences,
            use,
            max_tokens=args.max_tokens,
            device=looking.device(args),
            skip=sorted(set(range(count)).difference(numbers)),
            progress=bar.update,
        )
        chosen_ones = set(numbers)
        return [one for number, one in enumerate(found) if number in chosen_ones]
