"""Print tables of the papers, with our numbers beside the papers'.

Nothing is run; rows without a result are shown as not run.  It reads results and counts alone,
neither text nor models: with --output results, those of published runs.  A table of learning
curves, or of scores by the length of the source, can be drawn (--figure).

  fairseq-hybrid table hysan/table1 --seeds 3
  fairseq-hybrid table mma/table4 --format markdown > table4.md
  fairseq-hybrid table hysan/figure4 --figure figure4.pdf
"""

from __future__ import annotations

import argparse

from ..figures import style
from ..files.writing import check_outputs
from ..tables.drawing import check_drawable, draw
from ..tables.measuring import measure
from ..tables.printing import FORMATS
from . import outputs
from .workspace_flags import add_cells, add_workspace, plans


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_cells(parser)
    parser.add_argument("--format", choices=tuple(FORMATS), default="terminal")
    outputs.add_figure(parser)
    add_workspace(parser)


def run(args: argparse.Namespace) -> None:
    outputs.check_figure(args)
    asked = plans(args)
    if args.figure:
        check_outputs({"--figure": args.figure}, inputs=[])
        check_drawable(asked)
    for number, plan in enumerate(asked):
        numbers = measure(plan)
        print("\n" * (number > 0) + FORMATS[args.format](numbers), end="")
        if args.figure:
            style.save(draw(plan, numbers, args.theme or "light"), args.figure)
