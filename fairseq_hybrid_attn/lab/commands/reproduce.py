"""Run tables of the papers, and print them with our numbers beside the papers'.

It first prints the plan: which corpora, which runs, on which devices (--dry-run stops there).  Then
it does what is missing: it prepares corpora, trains, averages, translates and scores, with several
runs side by side if there are devices for it.  After an interruption, the same command resumes.  A
run that fails does not stop the others.

  fairseq-hybrid reproduce mma/table4 --seeds 3
  fairseq-hybrid reproduce hysan/table1 base e1 --columns bleu
  fairseq-hybrid reproduce hysan/table1 base e1 mma/table4 --profile small --text my-text/

A table is named by its folder in configs/, a row by its name in the table.
"""

from __future__ import annotations

import argparse

from ..tables.comparing import reproduce
from .workspace_flags import add_cells, add_running, execution, plans


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_cells(parser)
    add_running(parser)


def run(args: argparse.Namespace) -> None:
    reproduce(plans(args), execution(args))
