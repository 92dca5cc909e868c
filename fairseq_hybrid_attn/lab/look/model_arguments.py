"""Arguments that say which models to look into, on which sentences and which device."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import torch
from torch import nn
from tqdm import tqdm

from ...errors import UserError
from ...models.transformer import PatternedTransformer
from ..corpora.words import SUBWORDS, check_kind
from ..files.text import read_lines, require_equal
from . import loading
from .attentions import ENCODER, KINDS, Attentions, Observed, watch
from .sentences import Sentences, some

_TOO_LONG = "longer than the model takes"


def add_model(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Declare data, models and the device."""
    parser.add_argument(
        "data", type=Path, metavar="DATA", help="output folder of fairseq-preprocess"
    )
    parser.add_argument(
        "--path",
        required=True,
        type=Path,
        nargs="+" if several else None,
        metavar="FILE",
        help="checkpoint; several are compared" if several else "checkpoint",
    )
    parser.add_argument("--source-lang", metavar="LANG", help="default: as in the checkpoint")
    parser.add_argument("--target-lang", metavar="LANG", help="default: as in the checkpoint")
    parser.add_argument(
        "--max-tokens",
        type=int,
        default=4000,
        metavar="N",
        help="subwords per batch (default: 4000)",
    )
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")


def add_models(parser: argparse.ArgumentParser) -> None:
    """Declare data, models that share their dictionaries, and the device."""
    add_model(parser, several=True)
    parser.add_argument(
        "--names", nargs="+", metavar="NAME", help="names of the models (default: from their paths)"
    )


def add_sentences(parser: argparse.ArgumentParser) -> None:
    """Declare sentences and their translations."""
    parser.add_argument("--gen-subset", metavar="NAME", help="split in DATA (default: test)")
    parser.add_argument("--source", type=Path, metavar="FILE", help="or: source text in subwords")
    parser.add_argument(
        "--target", type=Path, metavar="FILE", help="translations of --source, in subwords"
    )
    parser.add_argument(
        "--subwords", required=True, choices=SUBWORDS, help="how words of the text are split"
    )


def add_selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sentences",
        default="all",
        metavar="LIST",
        help="sentences to use, from 1, such as 1-500 (default: all)",
    )
    parser.add_argument(
        "--too-long",
        choices=("error", "skip"),
        default="error",
        help="sentences that are too long for the model: an error (default), or left out",
    )


def add_kinds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kinds",
        nargs="+",
        choices=KINDS,
        default=list(KINDS),
        help="self-attention of encoder or decoder, cross-attention (default: all)",
    )


def check_one(args: argparse.Namespace) -> None:
    if (args.source is None) != (args.target is None):
        raise UserError("give both --source and --target, or neither for a split in DATA")
    if args.source and args.gen_subset:
        raise UserError("--gen-subset is a split in DATA; leave out --source and --target")
    if args.max_tokens < 1:
        raise UserError(f"--max-tokens {args.max_tokens}: use 1 or more")


def check(args: argparse.Namespace) -> None:
    check_one(args)
    check_names(args)


def check_names(args: argparse.Namespace) -> None:
    if args.names and len(args.names) != len(args.path):
        raise UserError(f"--names gives {len(args.names)} names for {len(args.path)} models")
    names = args.names or names_of(args.path)
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"two models are called {name!r}; name each with --names")


def inputs_of(args: argparse.Namespace) -> list[Path | None]:
    """The files that hold the models and their text; None for a text that is not given."""
    return [*args.path, args.source, args.target]


def names_of(paths: list[Path]) -> list[str]:
    """Names for models: the end of each path, from the last part in which all paths differ."""
    parts = [path.resolve().parts for path in paths]
    for length in range(1, max(map(len, parts)) + 1):
        names = [str(Path(*part[-length:])) for part in parts]
        if len(set(names)) == len(names):
            break
    return [name.removesuffix(".pt") for name in names]


@dataclass(frozen=True)
class Loaded:
    """A model in evaluation mode, its task, and the sentences in its numbers."""

    name: str
    path: Path
    model: nn.Module
    task: object
    sentences: Sentences

    @property
    def description(self) -> str:
        """Architecture, patterns of its encoder if it is ours, and positional embeddings."""
        cfg = getattr(self.model, "cfg", None)
        arch = getattr(cfg, "_name", None) or type(self.model).__name__
        return "; ".join(filter(None, (arch, encoder(self.model), positions(self.model))))

    def too_long(self, among: list[int]) -> list[int]:
        """Which of these sentences (from 0) are longer than the model takes."""
        return sorted(set(self.sentences.too_long(self.model, self.task)).intersection(among))

    def empty(self, among: list[int]) -> list[int]:
        """Which of these sentences (from 0) are empty on either side."""
        source, target = self.sentences.source, self.sentences.target
        return [number for number in among if not (source[number] and target[number])]

    def refuse(self, numbers: list[int], what: str, way_out: str) -> NoReturn:
        raise UserError(
            f"--path {self.path}: {len(numbers):,} sentences are {what}: {some(numbers)}; {way_out}"
        )

    def refuse_too_long(self, numbers: list[int], way_out: str) -> None:
        if numbers:
            self.refuse(numbers, _TOO_LONG, way_out)


def encoder(model: nn.Module) -> str:
    """The words for all patterns of the encoder of one of our models; empty for others."""
    if not isinstance(model, PatternedTransformer):
        return ""
    layers = Attentions(model, [ENCODER]).layers.get(ENCODER, ())
    words = dict.fromkeys(w for layer in layers for branch in layer.heads for w in branch)
    return f"encoder {', '.join(words)}" if words else ""


def positions(model: nn.Module) -> str:
    """Which sides of a model have no positional embedding; empty if neither could have one."""
    sides = {side: getattr(model, side, None) for side in ("encoder", "decoder")}
    able = [side for side, part in sides.items() if hasattr(part, "embed_positions")]
    if not able:
        return ""
    without = [side for side in able if sides[side].embed_positions is None]
    return f"no positions in the {' and '.join(without)}" if without else "with positions"


def load_one(args: argparse.Namespace, path: Path | None = None) -> tuple[nn.Module, object]:
    """Load a model, by default that of ``--path``, and its task."""
    languages = {"source_lang": args.source_lang, "target_lang": args.target_lang}
    return loading.load_model(path or args.path, args.data, **languages)


def load(args: argparse.Namespace) -> Iterator[Loaded]:
    names = args.names or names_of(args.path)
    for number, (name, path) in enumerate(zip(names, args.path, strict=True)):
        model, task = load_one(args, path)
        yield Loaded(name, path, model, task, sentences_of(args, task, warn=number == 0))


def sentences_of(args: argparse.Namespace, task, *, warn: bool = True) -> Sentences:
    """Read the sentences; ``warn`` of those with unknown subwords."""
    if args.source:
        source, target = read_lines(args.source), read_lines(args.target)
        require_equal({str(args.source): len(source), str(args.target): len(target)})
        sentences = Sentences.of_text(task, source, target)
        meaning = "is this text in the subwords of this model?"
    else:
        sentences = Sentences.of_split(task, args.gen_subset or "test")
        meaning = (
            "a binarised set does not say where their words end, so words may be counted wrongly; "
            "text given by --source and --target does"
        )
    for side in (sentences.source, sentences.target):
        check_kind(side, args.subwords)
    unknown = sentences.with_unknown() if warn else []
    if unknown and (args.source or args.subwords != "none"):
        print(
            f"warning: {len(unknown):,} of {len(sentences):,} sentences have subwords that are not "
            f"in the dictionary ({some(unknown)}); {meaning}",
            file=sys.stderr,
        )
    return sentences


def device(args: argparse.Namespace) -> str:
    """The device to compute on: a GPU if there is one, unless ``--cpu``."""
    return "cuda" if torch.cuda.is_available() and not args.cpu else "cpu"


def note(message: str) -> None:
    print(f"note: {message}", file=sys.stderr)


def attentions_of(loaded: Loaded, kinds: list[str]) -> Attentions:
    """The attentions of a model; notes say why it does not have some of these kinds."""
    try:
        attentions = Attentions(loaded.model, kinds)
    except UserError as error:
        raise UserError(f"--path {loaded.path}: {error}") from None
    for kind, reason in attentions.missing().items():
        note(f"{loaded.name}: no {kind} attention: {reason}")
    if not attentions.layers:
        raise UserError(f"--path {loaded.path}: there is no attention of {' or '.join(kinds)}")
    return attentions


def check_seen(loaded: Loaded, seen: bool) -> None:
    """Refuse a decoder that has no attention modules and has returned no attention."""
    if not seen:
        raise UserError(
            f"--path {loaded.path}: its {type(loaded.model.decoder).__name__} has no attention "
            "modules, and returns no attention"
        )


def chosen(flag: str, value: str, count: int) -> list[int]:
    """The numbers (from 0, in order) of a list such as ``1,5-7`` (from 1), or of ``all``."""
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
    """The sentences (from 0) of ``--sentences`` to analyse; notes say which are left out."""
    asked = chosen("--sentences", args.sentences, len(loaded.sentences))
    long, empty = loaded.too_long(asked), loaded.empty(asked)
    if args.too_long == "error":
        loaded.refuse_too_long(long, "--too-long skip leaves them out")
    for numbers, what in ((long, _TOO_LONG), (empty, "empty on a side")):
        if numbers:
            note(
                f"{loaded.name}: {len(numbers):,} sentences are {what} and are left out: "
                f"{some(numbers)}"
            )
    left = sorted(set(asked).difference(long, empty))
    if not left:
        raise UserError(f"--path {loaded.path}: none of the sentences can be analysed")
    return left


def look(
    args: argparse.Namespace,
    loaded: Loaded,
    attentions: Attentions,
    numbers: list[int],
    use: Callable[[int, Observed], object],
) -> list:
    """What ``use`` returns for each sentence (from 0); see ``attentions.watch``."""
    count = len(loaded.sentences)
    with tqdm(total=count, unit=" sentences", file=sys.stderr, mininterval=1.0) as bar:
        found = watch(
            attentions,
            loaded.sentences,
            use,
            max_tokens=args.max_tokens,
            device=device(args),
            skip=sorted(set(range(count)).difference(numbers)),
            progress=bar.update,
        )
        chosen_ones = set(numbers)
        return [one for number, one in enumerate(found) if number in chosen_ones]
