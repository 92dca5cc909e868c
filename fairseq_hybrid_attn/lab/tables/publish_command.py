"""Keep results with the code: copy finished runs into a folder, and write a page for each table.

The folder has the layout of a workspace: results and counts of runs, from which tables are printed
without any text, and their translations.  Checkpoints and local paths are left out.  Its tables.txt
lists the published tables, a line each as `table` takes it.  pages/ has what `table` prints of
each, with its figure, and runs.md: what the runs were made with.  Without a table, only these are
written.

  fairseq-hybrid publish evidence/positions evidence/curves --seeds 3
  fairseq-hybrid table evidence/positions --seeds 3 --output results
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ...errors import UserError
from ..figures import style
from ..figures.outputs import make_folder, write_text
from ..files.deleting import delete
from ..files.json_files import write_json
from ..files.tabular import Grid
from ..files.text import read_lines
from ..files.writing import atomic_write
from ..runs.fairseq_commands import USER_DIR, RunFolder, flags
from ..runs.plan import Plan
from ..runs.results import read_result
from ..runs.workspace import Run, Workspace
from ..runs.workspace_flags import add_cells, add_workspace, plans
from . import table_command
from .drawing import draw, is_drawable
from .measuring import measure
from .numbers import TableNumbers
from .printing import as_markdown
from .stored_runs import StoredRuns

LIST = "tables.txt"

RUNS_HEAD = """\
# What the runs were made with

Runs of one table with the same code, versions and hardware are one line. Hours are those of
training, all runs together. `result.json` in a run's folder has its commands and settings.
"""


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
            *flags(profile=args.profile and Path(args.profile).name),
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


def copy_run(run: Run, folder: Path) -> None:
    """Copy a run's result, counts and translations; its result without local paths."""
    source = run.folder
    kept = RunFolder(folder / "runs" / run.workspace.label / run.name)
    make_folder("--results", kept.path)
    translations = kept.hypotheses.with_name(f"{kept.hypotheses.name}.gz")
    for path, found, packed in (
        (kept.counts, source.counts, bytes),
        (translations, source.hypotheses, partial(gzip.compress, mtime=0)),
    ):
        delete(path, inside=folder)  # it may be of another training
        if found.exists():
            with atomic_write(path) as file:
                file.write(packed(found.read_bytes()))
    write_json(kept.result, without_folders(read_result(source.result), run.workspace))


def without_folders(content: dict, workspace: Workspace) -> dict:
    """A result with names in place of local paths; of folders elsewhere, the last name is left."""
    names = {str(workspace.root): "reproduction", str(USER_DIR.parent): "."}
    if workspace.own:
        names[str(workspace.own.folder.resolve())] = "text"
    known = re.compile(rf"(?<![\w./-])({'|'.join(map(re.escape, names))})(?![\w.-])")

    def named(value: object) -> object:
        if isinstance(value, str):
            value = known.sub(lambda found: names[found[0]], value)
            return re.sub(r"(?<![\w./-])/(?:[^\s/]+/)*(?=[^\s/])", "", value)
        if isinstance(value, list):
            return [named(item) for item in value]
        if isinstance(value, dict):
            return {named(key): named(item) for key, item in value.items()}
        return value

    return named(json.loads(json.dumps(content)))  # as a file would have it


def add_to_list(line: str, folder: Path) -> None:
    """Add a line to the list of tables; it replaces one of the same tables on the same text."""

    def subject(line: str) -> list[str]:
        return re.findall(r"\S+/\S+|--(?:profile|data) \S+", line)

    path = folder / LIST
    lines = read_lines(path) if path.exists() else []
    lines = [line if subject(other) == subject(line) else other for other in lines]
    with atomic_write(path) as file:
        file.write("".join(f"{line}\n" for line in dict.fromkeys([*lines, line])).encode())


def figure_name(plan: Plan, numbers: TableNumbers) -> str | None:
    """The file of a table's figure in the folder; None if it cannot be drawn."""
    if not (is_drawable(plan) and numbers.is_measured):
        return None
    return f"figures/{plan.table.name.replace('/', '.')}.{plan.workspace.label}.png"


def pages(tables: Sequence[tuple[str, Plan, TableNumbers]]) -> dict[str, str]:
    """The pages of published tables by file name; ``tables``: each with its line of the list."""
    by_name: dict[str, list[str]] = {}
    for line, plan, numbers in tables:
        blocks = by_name.setdefault(f"{numbers.table.replace('/', '.')}.md", [])
        blocks.append(as_markdown(numbers))
        if name := figure_name(plan, numbers):
            blocks.append(f"![{numbers.title}](../{name})\n")
        blocks.append(
            f"This is what `fairseq-hybrid table {line} --output results` prints; "
            "[what its runs were made with](runs.md).\n"
        )
    return {name: "\n".join(blocks) for name, blocks in by_name.items()}


def runs_page(results: Path) -> str:
    """What the published runs were made with, and how long they trained, by table."""
    hours: dict[tuple[str, ...], list[float]] = {}
    for path in sorted((results / "runs").rglob("result.json")):
        run = read_result(path)
        code, machine = run["code"], run["hardware"]
        made_with = (
            f"{run['paper']}/{run['table']}",
            (code["commit"] or "unknown")[:10] + " (modified)" * bool(code["modified"]),
            ", ".join([machine["processor"], *machine["gpus"]]),
            run["devices"],
            ", ".join(f"{name} {version}" for name, version in run["versions"].items()),
        )
        hours.setdefault(made_with, []).append(run["training_seconds"] / 3600)
    headings = ["table", "runs", "hours", "commit", "machine", "trained on", "versions"]
    rows = [
        [table, len(each), f"{sum(each):.1f}", *others] for (table, *others), each in hours.items()
    ]
    return f"{RUNS_HEAD}\n{Grid(headings, rows, left=1).markdown()}\n"
