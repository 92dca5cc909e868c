"""Print tables of the papers with our numbers beside it, from the results that there are.

Rows without a result are shown as not run.  Nothing is run.

  fairseq-hybrid table hysan/table1 --seeds 3
  fairseq-hybrid table mma/table4 --format markdown > table4.md
"""

from __future__ import annotations

import argparse
import sys

from ..experiments.comparing import compare
from ..experiments.printing import FORMATS
from .experiment_arguments import add_cells, add_workspace, plans

HELP = "print a paper's table with our numbers beside it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_cells(parser)
    parser.add_argument("--format", choices=tuple(FORMATS), default="terminal")
    parser.add_argument(
        "--no-significance",
        action="store_true",
        help="leave out what resampling gives: intervals of single seeds, and p",
    )
    add_workspace(parser)


def run(args: argparse.Namespace) -> None:
    """Print.

    Raises:
        UserError: if there is no such table, row or column.
    """
    for number, plan in enumerate(plans(args)):
        sections = compare(plan, significance=not args.no_significance)
        sys.stdout.write("\n" * (number > 0) + FORMATS[args.format](plan, sections))
