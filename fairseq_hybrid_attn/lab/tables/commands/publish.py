"""Keep results with the code: small files in a folder, and one document made of them.

Of each table: what `fairseq-hybrid table` prints, as JSON, its figure if it is one, and the result
of each of its runs, without folders of the machine.  Text and checkpoints stay where they are.
Tables that were published before stay in the document.  Nothing is run; a table without results is
shown as not run.

  fairseq-hybrid publish evidence/positions evidence/curves --seeds 2 --data my-text/
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from ....errors import UserError
from ...files.writing import atomic_write, check_outputs
from ...runs.commands.arguments import add_workspace
from ..results_document import write_up
from ..results_folder import check_can_be_published, publish
from .table_arguments import add_cells, plans


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_cells(parser)
    parser.add_argument(
        "--results",
        type=Path,
        default=Path("results"),
        metavar="DIR",
        help="folder of what is kept (default: results)",
    )
    parser.add_argument(
        "--document",
        type=Path,
        default=Path("RESULTS.md"),
        metavar="FILE",
        help="what is made of it (default: RESULTS.md)",
    )
    add_workspace(parser)


def run(args: argparse.Namespace) -> None:
    """Publish.

    Raises:
        UserError: if there is no such table, row or column, or something cannot be written.
    """
    check_outputs({"--document": args.document}, inputs=[])
    if args.results.exists() and not args.results.is_dir():
        raise UserError(f"--results {args.results} is a file; name a folder")
    chosen = plans(args)
    check_can_be_published(chosen, args.results)  # before the first is written
    for plan in chosen:
        publish(plan, args.results)
        print(f"{plan.table.name} is in {args.results}")
    name = Path(os.path.relpath(args.results, args.document.parent)).as_posix()
    text = write_up(args.results, name, args.configs)
    with atomic_write(args.document) as file:
        file.write(text.encode())
    print(f"{args.document} is written")
