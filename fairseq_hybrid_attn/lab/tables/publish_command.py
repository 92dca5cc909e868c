"""Keep results with the code: copy finished runs into a folder, and write a page for each table.

The folder has the layout of a workspace: results and counts of runs, from which tables are printed
without any text, and their translations.  Checkpoints and local paths are left out.  Its tables.txt
lists the published tables, a line each as `table` takes it.  pages/ has what `table` prints of each,
with its figure, and runs.md: what the runs were made with.  Without a table, only these are written.

  fairseq-hybrid publish evidence/positions evidence/curves --seeds 3
  fairseq-hybrid table evidence/positions --seeds 3 --output results
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from ...errors import UserError
from ..files.text import read_lines
from ..look import style
from ..look.outputs import make_folder, write_text
from ..runs.fairseq_commands import flags
from ..runs.plan import Plan
from ..runs.workspace import Run
from ..runs.workspace_flags import add_workspace
from . import table_command
from .drawing import draw
from .measuring import measure
from .publishing import LIST, add_to_list, copy_run, figure_name, pages, runs_page
from .stored_runs import StoredRuns
from .table_arguments import add_cells, plans


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_cells(parser, nargs="*")
    parser.add_argument(
        "--results",
        type=Path,
        default=Path("results"),
        metavar="PATH",
        help="folder of published results (default: results)",
    )
    add_workspace(parser)


def run(args: argparse.Namespace) -> None:
    if args.results.exists() and not args.results.is_dir():
        raise UserError(f"--results {args.results} is a file; name a folder")
    chosen = [(plan, finished_runs(plan)) for plan in plans(args)] if args.names else []
    for plan, done in chosen:
        for finished in done:
            copy_run(finished, args.results)
        print(f"{plan.table.name}: {len(done)} of {len(plan.runs)} runs are in {args.results}")
    if chosen:
        add_to_list(line_of(args), args.results)
    tables = [(line, plan, measure(plan)) for line, plan in listed(args.results, args.configs)]
    for _, plan, numbers in tables:
        if name := figure_name(plan, numbers):
            make_folder("--results", (args.results / name).parent)
            style.save(draw(plan, numbers.sections), args.results / name)
    folder = args.results / "pages"
    make_folder("--results", folder)
    for name, text in {**pages(tables), "runs.md": runs_page(args.results)}.items():
        write_text(folder / name, text)
    print(f"{folder} is written")


def line_of(args: argparse.Namespace) -> str:
    """The arguments of `table` for what is published."""
    seeds = ",".join(map(str, args.seeds)) + "," * (len(args.seeds) == 1)
    return shlex.join(
        [
            *args.names,
            *flags(seeds=seeds, columns=",".join(args.columns) or None),
            *flags(profile=None if args.profile == "full" else Path(args.profile).name),
            *flags(data=args.data and args.data.resolve().name),
            *flags(source_lang=args.source_lang, target_lang=args.target_lang),
        ]
    )


def listed(results: Path, configs: Path) -> list[tuple[str, Plan]]:
    """The published tables: their lines in the list, and what these ask for."""
    path = results / LIST
    if not path.exists():
        raise UserError(f"{results} has no {LIST}; name tables to publish")
    parser = argparse.ArgumentParser(prog=str(path))
    table_command.add_arguments(parser)
    where = ["--output", str(results), "--configs", str(configs)]
    asked = []
    for line in read_lines(path):
        given = parser.parse_args([*shlex.split(line), *where], argparse.Namespace(user_dir=None))
        asked += [(line, plan) for plan in plans(given)]
    return asked


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
