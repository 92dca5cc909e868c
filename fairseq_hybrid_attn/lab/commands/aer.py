"""Compute the error rate of word alignments against sure and possible gold links.

  fairseq-hybrid aer --gold test.gold --gold-base 1 --source test.zh --target test.en test.align

The alignments are in Pharaoh format (i-j, from 0: source word, target word); each file has a row
in the table.  No gold file says whether its words count from 0 or 1, so --gold-base is required.
--source and --target find links outside a sentence: in an alignment they are an error, in the gold
they are reported and left out.  docs/alignment.md has the forms of links and the definitions.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ...errors import UserError, few
from ..alignment.error_rate import RATES, count, rates, undefined
from ..corpora.link_files import Gold, Lengths, read_gold, read_lengths, read_pharaoh
from ..files.json_files import write_json
from ..files.tabular import Grid
from ..files.writing import check_outputs
from ..scores.counts import SentenceCounts, scores_as_dict

_SHOWN = 10  # sentences that a message names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("alignments", nargs="+", type=Path, metavar="ALIGNMENT", help="in Pharaoh format")
    add_gold_arguments(parser, required=True)
    add("--source", type=Path, metavar="FILE", help="source sentences, in words")
    add("--target", type=Path, metavar="FILE", help="target sentences, in words")
    add("--json", type=Path, metavar="FILE", help="write the rates to FILE")


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
    check_outputs({"--json": args.json}, inputs)
    lengths = read_lengths(args.source, args.target) if args.source else None
    alignments = {path: read_pharaoh(path, lengths) for path in args.alignments}
    sentences = len(next(iter(alignments.values())))
    for path, links in alignments.items():
        if len(links) != sentences:
            raise UserError(
                f"{path} has {len(links):,} lines, but {args.alignments[0]} has {sentences:,}"
            )
    gold = gold_of(args, lengths, sentences)
    counts = {str(path): count(links, gold.sentences) for path, links in alignments.items()}
    if args.json:
        systems = {
            name: {
                "scores": scores_as_dict(rates(of_all)),
                "undefined_sentences": undefined(of_all),
            }
            for name, of_all in counts.items()
        }
        write_json(args.json, {**gold_as_dict(args, gold), "systems": systems})
    if lengths is None:
        print("links are not checked against the text: that needs --source and --target")
    print_rates(gold, counts)


def gold_of(args: argparse.Namespace, lengths: Lengths | None, sentences: int) -> Gold:
    """Read the gold file and print its remarks to standard error."""
    gold = read_gold(
        args.gold,
        base=args.gold_base,
        reverse=args.gold_reversed,
        lengths=lengths,
        sentences=sentences,
    )
    warnings = gold.remarks[:_SHOWN]
    if len(gold.remarks) > _SHOWN:
        warnings.append(f"and {len(gold.remarks) - _SHOWN} more such links")
    if gold.left_out > _SHOWN:
        warnings.append(
            f"{gold.left_out:,} gold links are beyond their sentences; are --gold-base, "
            "--gold-reversed and the words right?"
        )
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return gold


def print_rates(gold: Gold, systems: dict[str, SentenceCounts]) -> None:
    """Print the rates of alignments by their names, and what they are compared with."""
    _, sure, possible, _, _ = next(iter(systems.values())).rows.sum(axis=0)
    links = f"{sure:,} sure, {possible - sure:,} only possible"
    print(f"sentences: {len(gold.sentences):,}; gold links: {links}")
    if gold.left_out:
        print(f"gold links beyond their sentence, left out: {gold.left_out:,}")
    rows = []
    for name, counts in systems.items():
        links, _, _, sure_found, possible_found = counts.rows.sum(axis=0)
        numbers = [f"{number:,}" for number in (links, sure_found, possible_found)]
        rows.append([name, *map(per_cent, rates_of(counts)), *numbers])
    headings = ["", "AER", "precision", "recall", "links", "sure found", "possible found"]
    print(Grid(headings, rows, left=1).terminal())
    for name, counts in systems.items():
        if lacking := undefined(counts):
            what = "no links, no sure gold links; counted from 1"
            shown = few(lacking, _SHOWN)
            print(f"{name}: no AER in {len(lacking):,} sentences ({what}): {shown}")


def rates_of(counts: SentenceCounts) -> list[float | None]:
    """AER, precision and recall; None where undefined."""
    found = rates(counts)
    return [found[name].value if name in found else None for name in RATES]


def per_cent(rate: float | None) -> str:
    return "undefined" if rate is None else f"{rate:.2f}"


def gold_as_dict(args: argparse.Namespace, gold: Gold) -> dict:
    return {
        "gold": str(args.gold),
        "gold_base": args.gold_base,
        "gold_reversed": args.gold_reversed,
        "gold_left_out": gold.left_out,
        "sentences": len(gold.sentences),
    }
