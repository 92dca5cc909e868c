"""Where heads and branches look: distance, entropy, and how much heads differ.

  fairseq-hybrid heads data-bin --path model.pt --gen-subset test --subwords subword-nmt
  fairseq-hybrid heads data-bin --path mma.pt plain.pt --gen-subset test --subwords subword-nmt \\
      --kinds encoder --figure heads.pdf --json heads.json --csv heads.csv

The model reads each source sentence and is made to say the translation that is given.  Printed are
means over all positions, for the heads of a layer (and branch) that have the same pattern:

  distance    how far away the keys are, in tokens, weighted by the attention
  signed      the same with its direction: negative to the left
  entropy     in nats; 0 = all attention on one key
  relative    entropy as a part of the largest that the pattern allows; 1 = all keys alike
  self        attention to the position itself
  symbol      attention to the end symbol; of decoder self-attention, to the start symbol

and of each layer, how much its heads differ: the Jensen-Shannon divergence, in bits (0 = they
attend alike, 1 = to other keys altogether), between the heads of a branch and between the branches,
and the position disagreement of Li et al. (2018), the larger the more different.  --json and --csv
have every head; --json has the divergence of each head from each other too.
"""

from __future__ import annotations

import argparse

from tabulate import tabulate

from ..arguments import models as model_args
from ..arguments import outputs
from ..inference.attentions import KINDS
from ..maps.measure import UNITS
from . import figure as figures
from .measure import Heads, by_pattern


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    model_args.add_models(parser)
    model_args.add_sentences(parser)
    model_args.add_selection(parser)
    parser.add_argument(
        "--kinds",
        nargs="+",
        choices=KINDS,
        default=list(KINDS),
        help="self-attention of encoder or decoder, cross-attention (default: all)",
    )
    parser.add_argument(
        "--unit", choices=UNITS, default="subwords", help="tokens (default: subwords)"
    )
    outputs.add_outputs(parser)


def run(args: argparse.Namespace) -> None:
    """Measure, print, and write.

    Raises:
        UserError: if arguments or files do not fit together, or a file cannot be read or
            written.
    """
    model_args.check(args)
    outputs.check(args, [path for path in (*args.path, args.source, args.target) if path])
    found: dict[str, tuple[list[dict], list[dict]]] = {}
    described = {}
    for loaded in model_args.load(args):
        heads = measure(args, loaded)
        found[loaded.name] = heads.rows(), heads.differences()
        described[loaded.name] = loaded.description
    for name, (rows, differences) in found.items():
        print(f"{name} ({described[name]})")
        print(table(rows))
        print()
        print(table_of_differences(differences))
        print()
    data = {
        "unit": args.unit,
        "models": [
            {"name": name, "description": described[name], "heads": rows, "layers": differences}
            for name, (rows, differences) in found.items()
        ],
    }
    flat = [{"model": name, **row} for name, (rows, _) in found.items() for row in rows]
    outputs.write(args, data, flat, lambda theme: figures.draw(found, theme))


def measure(args: argparse.Namespace, loaded: model_args.Loaded) -> Heads:
    """Of one model.

    Raises:
        UserError: if it cannot be looked at.
    """
    heads = Heads()
    attentions = model_args.attentions_of(loaded, args.kinds)
    use = heads.use(attentions, loaded.sentences, args.subwords, args.unit)
    model_args.look(args, loaded, attentions, model_args.wanted(args, loaded), use)
    model_args.check_seen(loaded, bool(heads.rows()))
    return heads


def table(rows: list[dict]) -> str:
    """The heads of each layer, for people."""
    headings, cells = cells_of_heads(rows)
    return tabulate(cells, headings, floatfmt=".3f")


def cells_of_heads(rows: list[dict]) -> tuple[list[str], list[list]]:
    """Headings and rows: the heads of each layer, those with the same pattern together."""
    names = ("distance", "signed", "entropy", "relative", "self", "symbol")
    headings = ["kind", "layer", "branch", "pattern", "heads", *names]
    return headings, [list(row.values()) for row in by_pattern(rows)]


def table_of_differences(differences: list[dict]) -> str:
    """How much the heads of each layer differ, for people."""
    headings, cells = cells_of_differences(differences)
    return tabulate(cells, headings, floatfmt=".3f")


def cells_of_differences(differences: list[dict]) -> tuple[list[str], list[list]]:
    """Headings and rows: how much the heads of each layer differ."""
    keys = ("divergence_of_heads", "divergence_of_branches", "position_disagreement")
    headings = ["kind", "layer", "heads differ", "branches differ", "position disagreement"]
    return headings, [[d["kind"], d["layer"], *(d[key] for key in keys)] for d in differences]
