"""Keep results with the code: copy finished runs into a folder, and write one document of tables.

The folder has the layout of a workspace: results and counts of runs, from which tables are printed
without any text, and their translations.  Checkpoints and local paths are left out.  Its tables.txt
lists the published tables, a line each as `table` takes it; the document is what `table` prints of
them, with their figures.  Without a table, the document alone is written again.

  fairseq-hybrid publish evidence/positions evidence/curves --seeds 3
  fairseq-hybrid table evidence/positions --seeds 3 --output results
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ...errors import UserError
from ..files.writing import check_outputs
from ..look.outputs import write_text
from ..runs.plan import Plan
from ..runs.workspace import Run
from ..runs.workspace_flags import add_workspace
from . import table_command
from .publishing import add_to_list, copy_run, document
from .stored_runs import StoredRuns
from .table_arguments import add_cells, plans


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_cells(parser, nargs="*")
    for flag, default, text in (
        ("--results", "results", "folder of published results"),
        ("--document", "RESULTS.md", "document to write"),
    ):
        text = f"{text} (default: {default})"
        parser.add_argument(flag, type=Path, default=Path(default), metavar="PATH", help=text)
    add_workspace(parser)


def run(args: argparse.Namespace) -> None:
    check_outputs({"--document": args.document}, inputs=[])
    if args.results.exists() and not args.results.is_dir():
        raise UserError(f"--results {args.results} is a file; name a folder")
    chosen = [(plan, finished_runs(plan)) for plan in plans(args)] if args.names else []
    for plan, done in chosen:
        for finished in done:
            copy_run(finished, args.results)
        add_to_list(plan, args.results)
        print(f"{plan.table.name}: {len(done)} of {len(plan.runs)} runs are in {args.results}")
    parser = argparse.ArgumentParser(prog="table")
    table_command.add_arguments(parser)
    where = ["--output", str(args.results), "--configs", str(args.configs)]

    def plans_of(words: list[str]):
        return plans(parser.parse_args([*words, *where], argparse.Namespace(user_dir=None)))

    write_text(args.document, document(args.results, args.document.parent, plans_of))
    print(f"{args.document} is written")


def finished_runs(plan: Plan) -> list[Run]:
    """The runs of a plan that have a result, which must be the one of their counts."""
    if plan.faults:
        raise UserError(plan.faults[0])
    stored = StoredRuns(plan)
    done = [run for run in plan.runs if stored.result(run)]
    if not done:
        raise UserError(f"{plan.table.name}: none of its runs is finished")
    for run in done:
        for score in stored.result(run)["scores"]:
            stored.counts(run, score)
    return done
