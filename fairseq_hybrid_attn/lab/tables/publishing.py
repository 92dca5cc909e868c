"""A folder of published results, laid out as a workspace, and the pages of its tables.

FOLDER/runs/LABEL/PAPER/TABLE/ROW/COLUMN/seedN/   result.json, counts.json.gz, hypotheses.txt.gz
FOLDER/figures/PAPER.TABLE.LABEL.png              the figure of a table that can be drawn
FOLDER/tables.txt                                 the published tables, as arguments of `table`
FOLDER/pages/PAPER.TABLE.md                       what `table` prints of each
FOLDER/pages/runs.md                              what its runs were made with
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path

from ..files.deleting import delete
from ..files.json_files import write_json
from ..files.tabular import Grid
from ..files.text import read_lines
from ..files.writing import atomic_write
from ..look.outputs import make_folder
from ..runs.fairseq_commands import USER_DIR, RunFolder
from ..runs.plan import Plan
from ..runs.results import read_result
from ..runs.workspace import Run, Workspace
from .drawing import is_drawable
from .numbers import TableNumbers
from .printing import as_markdown

LIST = "tables.txt"

RUNS_HEAD = """\
# What the runs were made with

Runs of one table with the same code, versions and hardware are one line. Hours are those of
training, all runs together. `result.json` in a run's folder has its commands and settings.
"""


def copy_run(run: Run, folder: Path) -> None:
    """Copy a run's result, counts and translations; its result without local paths."""
    source = run.folder
    kept = RunFolder(folder / "runs" / run.workspace.label / run.name)
    make_folder("--results", kept.path)
    translations = kept.hypotheses.with_name(f"{kept.hypotheses.name}.gz")
    contents = {kept.counts: source.counts.read_bytes() if source.counts.exists() else None}
    if source.hypotheses.exists():
        contents[translations] = gzip.compress(source.hypotheses.read_bytes(), mtime=0)
    for path in (translations, kept.counts):
        delete(path, inside=folder)  # it may be of another training
    for path, content in contents.items():
        if content is not None:
            with atomic_write(path) as file:
                file.write(content)
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
        [table, len(each), f"{sum(each):.1f}", *others]
        for (table, *others), each in hours.items()
    ]
    return f"{RUNS_HEAD}\n{Grid(headings, rows, left=1).markdown()}\n"
