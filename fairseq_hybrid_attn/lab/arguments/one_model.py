"""The arguments of commands that look into a trained model: which, on which sentences."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from torch import nn

from ...errors import UserError
from ..files.text import read_lines
from ..inference import loading
from ..inference.sentences import Sentences, some
from ..text.words import SUBWORDS, check_kind


def add_model(
    parser: argparse.ArgumentParser, *, several: bool = False, required: bool = True
) -> None:
    """Arguments for a model, or for several in a list, and where to run.

    Without ``required``, the command may know data and models otherwise.
    """
    parser.add_argument(
        "data",
        type=Path,
        nargs=None if required else "?",
        metavar="DATA",
        help="folder of fairseq-preprocess",
    )
    parser.add_argument(
        "--path",
        required=required,
        type=Path,
        nargs="+" if several else None,
        metavar="FILE",
        help="checkpoint; several are compared" if several else "checkpoint",
    )
    parser.add_argument("--source-lang", metavar="LANG", help="if not as in the checkpoint")
    parser.add_argument("--target-lang", metavar="LANG", help="if not as in the checkpoint")
    parser.add_argument(
        "--max-tokens", type=int, default=4000, metavar="N", help="subwords of a batch; 4000"
    )
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")


def add_sentences(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Arguments for sentences and their translations; ``required`` as of :func:`add_model`."""
    parser.add_argument("--gen-subset", metavar="NAME", help="part of DATA (default: test)")
    parser.add_argument("--source", type=Path, metavar="FILE", help="or: source text in subwords,")
    parser.add_argument("--target", type=Path, metavar="FILE", help="and its translation")
    parser.add_argument(
        "--subwords", required=required, choices=SUBWORDS, help="how the text's words are split"
    )


def check(args: argparse.Namespace) -> None:
    """Refuse arguments that do not go together.

    Raises:
        UserError: naming the flag and the way out.
    """
    if (args.source is None) != (args.target is None):
        raise UserError("give both of --source and --target, or none for a part of DATA")
    if args.source and args.gen_subset:
        raise UserError("--gen-subset is a part of DATA; it does not go with --source and --target")
    if args.max_tokens < 1:
        raise UserError(f"--max-tokens {args.max_tokens}: use 1 or more")


def load(args: argparse.Namespace) -> tuple[nn.Module, object]:
    """The model, in evaluation mode, and its task.

    Raises:
        UserError: if it cannot be loaded.
    """
    languages = {"source_lang": args.source_lang, "target_lang": args.target_lang}
    return loading.load(args.path, args.data, **languages)


def sentences_of(args: argparse.Namespace, task, *, warn: bool = True) -> Sentences:
    """The sentences; warns of those with unknown subwords, unless that was done before.

    Raises:
        UserError: if they cannot be read, or are not split as the arguments say.
    """
    if args.source:
        source, target = read_lines(args.source), read_lines(args.target)
        if len(source) != len(target):
            raise UserError(
                f"{args.source} has {len(source):,} lines, but {args.target} has {len(target):,}"
            )
        sentences = Sentences.of_text(task, source, target)
        meaning = "is the text that of this model, in its subwords?"
    else:
        sentences = Sentences.of_split(task, args.gen_subset or "test")
        meaning = (
            "a binarised set does not say where their words end, so words may be counted wrongly; "
            "--source and --target text does say it"
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
    """Where to compute: a GPU if there is one that may be used."""
    return "cuda" if torch.cuda.is_available() and not args.cpu else "cpu"


def note(message: str) -> None:
    """Say something beside the results."""
    print(f"note: {message}", file=sys.stderr)
