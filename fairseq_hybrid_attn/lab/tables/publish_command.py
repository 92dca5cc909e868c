"""Keep results with the code: small files in a folder, and one document made from them.

For each table it keeps the result and translations of each run, intervals and p-values, and the
figure if the table can be drawn.  References, checkpoints and local paths are left out.  Nothing is
run; a table without results is shown as not run.  Tables that were published earlier stay in the
document.

Runs that were published elsewhere come back with `restore`.  If they have no translations, use
--add with other seeds: those that were published stay, and intervals over sentences of two seeds
are the mean of both.

  fairseq-hybrid publish evidence/positions evidence/curves --seeds 2
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from ...errors import UserError
from ..files.writing import check_outputs
from ..look.outputs import write_text
from ..runs.results import read_result
from ..runs.workspace_flags import add_workspace
from . import headline
from .kept_tables import read_tables
from .publishing import check_can_be_published, publish
from .results_document import check_facts, write_up
from .table_arguments import add_cells, add_results, plans


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_cells(parser)
    add_results(parser)
    parser.add_argument(
        "--document",
        type=Path,
        default=Path("RESULTS.md"),
        metavar="FILE",
        help="document to write (default: RESULTS.md)",
    )
    parser.add_argument(
        "--add",
        action="store_true",
        help="add these seeds to tables that were published, whose runs need not be here",
    )
    add_workspace(parser)


def run(args: argparse.Namespace) -> None:
    check_outputs({"--document": args.document}, inputs=[])
    if args.results.exists() and not args.results.is_dir():
        raise UserError(f"--results {args.results} is a file; name a folder")
    chosen = plans(args)
    check_can_be_published(chosen, args.results, args.add)  # before the first is written
    for run in (run for plan in chosen for run in plan.runs if run.folder.result.exists()):
        check_facts(read_result(run.folder.result), str(run.folder.result))
    publish(chosen, args.results, args.add)
    for plan in chosen:
        print(f"{plan.table.name} is in {args.results}")
    tables = read_tables(args.results, args.configs)
    headline.save(tables, args.results)
    name = Path(os.path.relpath(args.results, args.document.parent)).as_posix()
    write_text(args.document, write_up(tables, name, args.configs))
    print(f"{args.document} is written")
