r"""Extract word alignments from a model's cross-attention, by forced decoding of a translation.

  fairseq-hybrid align RUN --layer 5 --head average --output test.align
  fairseq-hybrid align model.pt --data data/mine --source test.bpe.de --target test.bpe.en \
      --gold test.gold --gold-base 0 --table

Each target word is linked to the source word that it attends to most: by the attention of a layer
and a head, or by the mean of all.  Any fairseq encoder-decoder with cross-attention works.  --gold
prints the alignment error rate (see fairseq-hybrid aer).  docs/alignment.md says how.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import UserError
from ..alignment import AVERAGE, Choice
from ..alignment.error_rate import count, rates_as_dict
from ..alignment.gold_file import GoldFile
from ..corpora.link_files import write_pharaoh
from ..corpora.words import words_of
from ..files.writing import atomic_write, say
from ..tables.error_rates import heads_table, rates_table
from ..tables.printing import as_terminal, grids, write_table
from . import model_flags, outputs
from .aer import add_gold_arguments

WRITTEN = ("data",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    model_flags.add_model(parser)
    model_flags.add_sentences(parser, typed=False)
    add = parser.add_argument
    text = "decoder layer: from 1 = lowest, -1 or last (default), or average"
    add("--layer", default="-1", metavar="N", help=text)
    text = "head: from 1, last, or average (default)"
    add("--head", default=AVERAGE, metavar="N", help=text)
    text = "never choose the source's end symbol (default), or choose it and write no link"
    add("--end-symbol", choices=("ignore", "null"), default="ignore", help=text)
    text = "the attention of a target word: when it is predicted (default), or one step later, "
    text += "when it is read"
    add("--step", choices=("predict", "read"), default="predict", help=text)
    text = "let the decoder see the whole translation, for models trained to align this way"
    add("--full-context", action="store_true", help=text)
    add("--output", type=Path, metavar="FILE", help="write links to FILE")
    add("--matrices", type=Path, metavar="FILE", help="write attention to FILE.npz")
    add_gold_arguments(parser, required=False)
    text = "error rates of all layers and heads, printed and in a .json; needs --gold"
    add("--table", action="store_true", help=text)
    outputs.add_write(parser, *WRITTEN)
    text = "sentences that are too long for the model: an error (default), or no links"
    add("--too-long", choices=("error", "empty"), default="error", help=text)


def run(args: argparse.Namespace) -> None:
    from ..alignment.forced import extract
    from ..models.sentences import some  # here: these import torch, which takes seconds
    from ..models.trained import find_model

    selected = choice("--layer", args.layer), choice("--head", args.head)
    trained = find_model(args.model, args.data)
    check_arguments(args, trained.checkpoint)
    (loaded,) = model_flags.on_text(args, {args.model.stem: trained})
    sentences = loaded.sentences
    assert sentences.target is not None  # it is forced
    lengths = [
        (len(words_of(source, loaded.subwords)), len(words_of(target, loaded.subwords)))
        for source, target in zip(sentences.source, sentences.target, strict=True)
    ]
    gold_file = args.gold and GoldFile(args.gold, args.gold_base, args.gold_reversed)
    gold = gold_file and gold_file.read(lengths, len(lengths))
    skip = sentences.too_long(loaded.model, loaded.task)
    if skip and args.too_long == "error":
        fault = f"{len(skip):,} sentences are longer than the model takes: {some(skip)}"
        raise UserError(f"{args.model}: {fault}; --too-long empty gives them no links")
    found = extract(
        loaded,
        *selected,
        lengths=lengths,
        skip=skip,
        end_symbol=args.end_symbol == "null",
        read_step=args.step == "read",
        full_context=args.full_context,
        every_head=args.table,
        matrices=bool(args.matrices),
    )
    if args.output:
        write_pharaoh(args.output, found.links)
    if args.matrices:
        with atomic_write(args.matrices) as file:
            arrays: dict[str, Any] = {str(n): array for n, array in enumerate(found.matrices)}
            np.savez_compressed(file, **arrays)
    if skip:
        left_out = f"{len(skip):,} of {len(sentences):,} ({some(skip)})"
        say(f"too long for the model, without links: {left_out}")
    if gold:
        counts = count(found.links, gold.sentences)
        of_heads = {key: count(links, gold.sentences) for key, links in found.of_heads.items()}
        name = f"layer {args.layer}, head {args.head}"
        table = rates_table(gold, {name: counts})
        how = {"layer": args.layer, "head": args.head}
        how |= {"end": args.end_symbol, "step": args.step}
        content = rates_as_dict(name, counts, of_heads, selected[0], **how)
        for path in args.write:
            about = {"model": str(args.model), **how, **gold_file.as_dict(gold)}
            write_table(path, table, **about, **content)
        print(as_terminal(table), end="")
        if of_heads:
            ((_, grid),) = grids(heads_table(of_heads))
            print(f"\nAER by layer and head:\n\n{grid.terminal()}")


def choice(flag: str, value: str) -> Choice:
    """Parse a layer or head: its number, counted from the end if negative, or ``average``."""
    if value == AVERAGE:
        return AVERAGE
    number = -1 if value == "last" else int(value) if re.fullmatch(r"-?\d+", value) else 0
    if number == 0:
        raise UserError(f"{flag} {value}: use a number from 1, -1 or last, or {AVERAGE}")
    return number


def check_arguments(args: argparse.Namespace, checkpoint: Path) -> None:
    if not (args.output or args.matrices or args.gold):
        raise UserError("nothing to do: give --output FILE, --matrices FILE or --gold FILE")
    if args.gold and args.gold_base is None:
        raise UserError("--gold needs --gold-base: what number does the first word have, 0 or 1?")
    if (args.table or args.write) and not args.gold:
        raise UserError("--table and --write are about error rates; they need --gold FILE")
    if args.matrices and args.matrices.suffix != ".npz":
        raise UserError(f"--matrices {args.matrices}: use a name that ends in .npz")
    others = {"--output": args.output, "--matrices": args.matrices}
    outputs.check(args.write, WRITTEN, [checkpoint, args.source, args.target, args.gold], others)
