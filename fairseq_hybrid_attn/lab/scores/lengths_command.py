"""Compute BLEU by the length of the source sentence, for one or more systems.

  fairseq-hybrid lengths --source test.tok.de --reference test.en --target-lang en \\
      --hypotheses base=base.en --hypotheses mma=mma.en --figure lengths.png --json lengths.json

The test set is divided by the number of words of its source sentences (--bounds). Each group is
scored as a separate corpus, with a 95 % interval, and compared with the first system.
Words are what is between spaces: the source is tokenised, and not split into subwords.

Translations are text; `score --hypotheses-out` makes it of the output of fairseq-generate.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from ...errors import UserError
from ..cli.flags import named_path, positive
from ..figures import outputs
from ..files.text import read_lines
from . import lengths
from .generate_output import warn_if_not_text
from .lengths import BOUNDS
from .metrics import METRICS, build_metric


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text = "a system's translations, detokenised, one per line; may be repeated"
    add(
        "--hypotheses",
        required=True,
        dest="systems",
        action="append",
        type=named_path,
        metavar="NAME=FILE",
        help=text,
    )
    add("--source", required=True, type=Path, metavar="FILE", help="tokenised text, one per line")
    text = "untouched text, one per line"
    add("--reference", required=True, type=Path, metavar="REF", help=text)
    add("--target-lang", required=True, metavar="LANG", help="e.g. en, de, zh")
    add("--score", choices=tuple(METRICS), default="bleu", help="see `score` (default: bleu)")
    add("--lowercase", action="store_true", help="ignore case; see `score`")
    text = "upper limits of all groups but the last, in words (default: 10,20,30,40,50)"
    add("--bounds", type=_bounds, default=BOUNDS, metavar="N,N,…", help=text)
    outputs.add_outputs(parser)


def _bounds(text: str) -> tuple[int, ...]:
    numbers = [positive(word) for word in text.split(",")]
    if sorted(set(numbers)) != numbers:
        raise argparse.ArgumentTypeError(f"{text!r}: use increasing numbers")
    return tuple(numbers)


def run(args: argparse.Namespace) -> None:
    names = [name for name, _ in args.systems]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"two systems are called {twice[0]}; give each its own name")
    outputs.check(args, [args.source, args.reference, *(path for _, path in args.systems)])
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)
    source, references = read_lines(args.source), read_lines(args.reference)
    systems = {name: read_lines(path) for name, path in args.systems}
    if args.score != "given_bleu":
        warn_if_not_text(references, args.reference)
        for name, path in args.systems:
            warn_if_not_text(systems[name], path)
    metric = build_metric(args.score, args.target_lang, args.lowercase)
    words = lengths.count_words(source, str(args.source))
    found = lengths.score_by_length(metric, systems, references, words, args.bounds)
    outputs.write(
        args,
        {**found.as_dict(), "source": str(args.source), "reference": str(args.reference)},
        lambda theme: lengths.draw(found.groups, found.systems, found.label, theme),
    )
    print(lengths.grid(found).terminal())
    print("\n".join(lengths.notes(found)))
