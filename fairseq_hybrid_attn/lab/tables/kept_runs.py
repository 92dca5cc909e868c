"""The runs in a folder of results: what is kept of each, and how it becomes a run again.

FOLDER/runs/LABEL/PAPER/TABLE/ROW/COLUMN/seedN.json     its result, without local paths
FOLDER/runs/LABEL/PAPER/TABLE/ROW/COLUMN/seedN.txt.gz   its translations of the test set
"""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from pathlib import Path

from ..arguments.outputs import make_folder
from ..files.json_files import write_json
from ..files.text import lines
from ..files.writing import atomic_write
from ..planning.status import State, status
from ..runs.fairseq_commands import USER_DIR
from ..runs.results import read_result
from ..runs.workspace import Run, Workspace


def result_name(run: Run) -> str:
    """``label/paper/table/row/column/seedN``."""
    return f"{run.workspace.label}/{run.name}"


def result_path(folder: Path, name: str) -> Path:
    return folder / "runs" / f"{name}.json"


def translations_path(folder: Path, name: str) -> Path:
    return folder / "runs" / f"{name}.txt.gz"


def kept_content(run: Run) -> dict | None:
    """What is kept of a run's result."""
    result = read_result(run.folder.result)
    return None if result is None else without_folders(result, run.workspace)


def keep(run: Run, result: dict, folder: Path) -> None:
    """Write a run's result and translations; the scores of the result are those of the run."""
    name = result_name(run)
    make_folder("--results", result_path(folder, name).parent)
    write_json(result_path(folder, name), result)
    path = translations_path(folder, name)
    if run.folder.hypotheses.exists():
        # Without the time and the name, a file of the same translations is the same.
        with atomic_write(path) as file:
            file.write(gzip.compress(run.folder.hypotheses.read_bytes(), mtime=0))
    else:
        path.unlink(missing_ok=True)


def restore(run: Run, folder: Path) -> str:
    """Make a kept run one of this workspace, without its model; return what was done."""
    name = result_name(run)
    result = read_result(result_path(folder, name))
    if result is None:
        return "not published"
    if status(run).state is not State.NOT_BEGUN:
        return "is here already"
    make_folder("--output", run.folder.path)
    kept = translations_path(folder, name)
    if kept.exists():
        text = "".join(f"{line}\n" for line in lines(kept))
        with atomic_write(run.folder.hypotheses) as file:
            file.write(text.encode())
    write_json(run.folder.result, result)  # at last, since it makes the run a finished one
    return "restored" if kept.exists() else "restored without translations"


def checkout(user_dir: Path) -> Path:
    """The clone of this project (maybe not this one) that has a folder of code, or its parent."""
    plugin = Path(USER_DIR.name, "__init__.py")
    clones = (path for path in user_dir.parents if (path / plugin).is_file())
    return next(clones, user_dir.parent)


def without_folders(content: dict, workspace: Workspace) -> dict:
    """A result with names in place of local paths."""
    # The plugin may have been taken from another clone.
    plugins = {str(USER_DIR)}
    for command in content.get("commands", {}).values():
        plugins |= {folder for flag, folder in pairwise(command) if flag == "--user-dir"}
    names = {
        str(workspace.root): "reproduction",
        **{str(checkout(Path(plugin))): "." for plugin in plugins},
        **({str(workspace.own.folder.resolve()): "text"} if workspace.own else {}),
    }
    text = json.dumps(content, ensure_ascii=False)
    for folder in sorted(names, key=len, reverse=True):
        text = text.replace(json.dumps(folder, ensure_ascii=False)[1:-1], names[folder])
    return json.loads(text)
