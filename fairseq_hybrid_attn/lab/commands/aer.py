"""Compute the error rate of word alignments against sure and possible gold links.

  fairseq-hybrid aer --gold test.gold --gold-base 1 --source test.zh --target test.en test.align

The alignments are in Pharaoh format (i-j, from 0: source word, target word); each file has a row
in the table.  No gold file says whether its words count from 0 or 1, so --gold-base is required.
--source and --target find links outside a sentence: in an alignment they are an error, in the gold
they are reported and left out.  docs/alignment.md has the forms of links and the definitions.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ...errors import UserError
from ..alignment.error_rate import count
from ..alignment.gold_file import GoldFile, read_alignments
from ..corpora.link_files import read_lengths
from ..tables.error_rates import rates_table
from ..tables.printing import as_terminal, write_table
from . import outputs

WRITTEN = ("table", "data")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("alignments", nargs="+", type=Path, metavar="ALIGNMENT", help="in Pharaoh format")
    add_gold_arguments(parser, required=True)
    add("--source", type=Path, metavar="FILE", help="source sentences, in words")
    add("--target", type=Path, metavar="FILE", help="target sentences, in words")
    outputs.add_write(parser, *WRITTEN)


def add_gold_arguments(parser: argparse.ArgumentParser, *, required: bool) -> None:
    add = parser.add_argument
    add("--gold", required=required, type=Path, metavar="FILE", help="gold links")
    text = "the number of the first word in FILE"
    add("--gold-base", required=required, type=int, choices=(0, 1), help=text)
    text = "FILE has the target word before the source word"
    add("--gold-reversed", action="store_true", help=text)


def run(args: argparse.Namespace) -> None:
    if (args.source is None) != (args.target is None):
        raise UserError("give both --source and --target, or neither")
    inputs = [*args.alignments, args.gold, args.source, args.target]
    outputs.check(args.write, WRITTEN, inputs)
    lengths = read_lengths(args.source, args.target) if args.source else None
    alignments = read_alignments(args.alignments, lengths)
    gold_file = GoldFile(args.gold, args.gold_base, args.gold_reversed)
    gold = gold_file.read(lengths, len(next(iter(alignments.values()))))
    counts = {path: count(links, gold.sentences) for path, links in alignments.items()}
    table = rates_table(gold, counts)
    for path in args.write:
        write_table(path, table, systems=table.systems, **gold_file.as_dict(gold))
    if lengths is None:
        print("links are not checked against the text: that needs --source and --target")
    print(as_terminal(table), end="")
