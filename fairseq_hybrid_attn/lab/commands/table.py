"""Print tables of the papers, with our numbers beside the papers'.

Nothing is run; rows without a result are shown as not run.  It reads results and counts alone,
neither text nor models: with --output results, those of published runs.  A table of learning
curves, or of scores by the length of the source, can be drawn.

  fairseq-hybrid table hysan/table1 --seeds 3
  fairseq-hybrid table mma/table4 --write table4.md
  fairseq-hybrid table hysan/figure4 --write figure4.pdf
"""

from __future__ import annotations

import argparse

from ...errors import UserError
from ..figures import style
from ..files.writing import kind_of
from ..tables.drawing import check_drawable, draw
from ..tables.measuring import measure
from ..tables.printing import as_terminal, write_table
from . import outputs
from .workspace_flags import add_cells, add_workspace, plans

WRITTEN = ("table", "data", "figure")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_cells(parser)
    outputs.add_write(parser, *WRITTEN)
    add_workspace(parser)


def run(args: argparse.Namespace) -> None:
    outputs.check(args.write, WRITTEN, inputs=[])
    asked = plans(args)
    if args.write and len(asked) != 1:
        raise UserError("--write: write one table at a time")
    if "figure" in map(kind_of, args.write):
        check_drawable(asked[0])
    for number, plan in enumerate(asked):
        numbers = measure(plan)
        print("\n" * (number > 0) + as_terminal(numbers), end="")
        for path in args.write:
            if kind_of(path) == "figure":
                style.save(draw(plan, numbers, args.theme), path)
            else:
                write_table(path, numbers)
