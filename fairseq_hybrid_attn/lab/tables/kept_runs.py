"""The runs in a folder of results: what is kept of each, and how it becomes a run again.

FOLDER/runs/LABEL/PAPER/TABLE/ROW/COLUMN/seedN.json         its result, without local paths
FOLDER/runs/LABEL/PAPER/TABLE/ROW/COLUMN/seedN.txt.gz       its translations of the test set
FOLDER/runs/LABEL/PAPER/TABLE/ROW/COLUMN/seedN.aer.json.gz  how many links it found, by sentence
"""

from __future__ import annotations

import gzip
import json
import re
from itertools import pairwise
from pathlib import Path

from ...errors import UserError
from ..files.deleting import delete
from ..files.json_files import read_json, write_json
from ..files.lock import locked
from ..files.text import lines
from ..files.writing import atomic_write
from ..look.outputs import make_folder
from ..runs.fairseq_commands import USER_DIR
from ..runs.results import read_result
from ..runs.run_folders import products
from ..runs.status import State, status
from ..runs.workspace import Run, Workspace


def result_name(run: Run) -> str:
    """``label/paper/table/row/column/seedN``."""
    return f"{run.workspace.label}/{run.name}"


def result_path(folder: Path, name: str) -> Path:
    return folder / "runs" / f"{name}.json"


def kept_files(folder: Path, run: Run) -> dict[Path, Path]:
    """Where the files of a run are kept, compressed, from which its scores are resampled."""
    beside = f"{folder / 'runs' / result_name(run)}"
    return {
        run.folder.hypotheses: Path(f"{beside}.txt.gz"),
        run.folder.alignment_score: Path(f"{beside}.aer.json.gz"),
    }


def kept_content(run: Run) -> dict | None:
    """What is kept of a run's result."""
    result = read_result(run.folder.result)
    return None if result is None else without_folders(result, run.workspace)


def keep(run: Run, result: dict, folder: Path) -> None:
    """Write a run's result and its files; the scores of the result are those of the run."""
    path = result_path(folder, result_name(run))
    make_folder("--results", path.parent)
    for here, kept in kept_files(folder, run).items():
        if here.exists():
            content = here.read_bytes()
            if here.suffix == ".json":
                named = without_folders(json.loads(content), run.workspace)
                content = f"{json.dumps(named)}\n".encode()
            if not kept.exists() or b"".join(_bytes(kept)) != content:
                with atomic_write(kept) as file:
                    file.write(gzip.compress(content, mtime=0))
        elif path.exists() and not are_of_one_training(read_json(path), result):
            delete(kept, inside=folder)  # it is of an older result
    write_json(path, result)


def are_of_one_training(one: dict | None, other: dict | None) -> bool:
    """Whether two results differ, if at all, in code for which one was accepted since."""
    return bool(one and other) and one.get("finished") == other.get("finished")


def restore(run: Run, folder: Path) -> str:
    """Make a kept run one of this workspace, without its model; return what was done."""
    result = read_result(result_path(folder, result_name(run)))
    if result is None:
        return "not published"
    make_folder("--output", run.folder.path)
    with locked(run.folder.lock, lambda _: None, lambda: _refuse(run)):
        files = kept_files(folder, run)
        if set(products(run.folder)) - {*files}:
            return "already here"
        found = {here: kept for here, kept in files.items() if kept.exists()}
        for here, kept in found.items():
            with atomic_write(here) as file:
                file.writelines(_bytes(kept))
        begun = {"identity": result["identity"], "workspace": run.workspace.as_record()}
        write_json(run.folder.begun, begun)
        write_json(run.folder.result, result)  # at last, since it makes the run a finished one
    now = status(run)
    state = "" if now.state is State.DONE else f", but {now}"
    return f"restored{'' if found else ' without translations'}{state}"


def _bytes(kept: Path) -> list[bytes]:
    return [f"{line}\n".encode() for line in lines(kept)]


def _refuse(run: Run) -> None:
    raise UserError(f"{run.name}: another process is working on it")


def checkout(user_dir: Path) -> Path:
    """The clone of this project (maybe not this one) that has a folder of code, or its parent."""
    plugin = Path(USER_DIR.name, "__init__.py")
    clones = (path for path in user_dir.parents if (path / plugin).is_file())
    return next(clones, user_dir.parent)


def without_folders(content: dict, workspace: Workspace) -> dict:
    """A result with names in place of local paths."""
    # The plugin may have been taken from another clone, and the run may have been copied here.
    plugins, roots = {str(USER_DIR)}, {str(workspace.root)}
    own = f"/runs/{content.get('label')}/{content.get('name')}/"
    for command in content.get("commands", {}).values():
        found = (str(word).partition(own) for word in command)
        roots |= {root for root, of_run, _ in found if of_run and Path(root).is_absolute()}
        folders = {folder for flag, folder in pairwise(command) if flag == "--user-dir"}
        plugins |= {folder for folder in folders if Path(folder).is_absolute()}
    names = {
        **dict.fromkeys(roots, "reproduction"),
        **{str(checkout(Path(plugin))): "." for plugin in plugins},
        **({str(workspace.own.folder.resolve()): "text"} if workspace.own else {}),
    }
    longest_first = sorted(names.keys() - {"/"}, key=len, reverse=True)
    paths = re.compile(rf"(?<![\w./-])({'|'.join(map(re.escape, longest_first))})(?![\w.-])")

    def named(value):
        if isinstance(value, str):
            return paths.sub(lambda found: names[found[0]], value)
        if isinstance(value, list):
            return [named(one) for one in value]
        if isinstance(value, dict):
            return {named(key): named(one) for key, one in value.items()}
        return value

    return named(json.loads(json.dumps(content)))  # as a file would have it
