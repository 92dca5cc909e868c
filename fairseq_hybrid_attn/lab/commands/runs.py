"""List all runs of a folder: when they ended or how far they got, and which are stale and why.

A run is stale when its configuration or its data has changed since it was begun.  Code makes none
stale: results say what made them.  "reproduce --redo" does a run again.

A run is compared with the configurations of --configs and with the text that it was begun with.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ...errors import UserError
from ..files.tabular import Grid
from ..plan.named_runs import run_of_folder
from ..run.results import read_begun, read_result
from ..run.status import State, remedy, status
from ..run.workspace import Workspace
from .workspace_flags import add_workspace, workspace_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_workspace(parser)


def run(args: argparse.Namespace) -> None:
    workspace = workspace_of(args)
    begun = sorted(workspace.runs.glob("*/*/*/*/*/seed*/begun.json"))
    if not begun:
        raise UserError(f"{workspace.runs}: there are no runs")
    rows = []
    for path in begun:
        label, *names = path.parent.relative_to(workspace.runs).parts
        result = None
        try:
            result = read_result(path.with_name("result.json"))
            state = state_of(workspace, label, names, path)
        except UserError as error:
            state = str(error)
        finished = result["finished"][:16] if result else ""
        rows.append([label, "/".join(names), finished, state])
    headers = ["profile", "run", "finished (UTC)", "state"]
    print(Grid(headers, rows, left=len(headers)).terminal())
    if any(row[-1].startswith(State.STALE.value) for row in rows):
        print(f"\n{remedy(is_own=True)}")


def state_of(workspace: Workspace, label: str, names: list[str], path: Path) -> str:
    """The state of a run, or why it cannot be told."""
    try:
        return str(status(run_of_folder(workspace, label, names, read_begun(path) or {})))
    except UserError as error:
        return f"not checked ({str(error).splitlines()[0]})"
    except (ValueError, TypeError, KeyError):  # a copied folder, such as seed1.old
        return "not checked (it is not a run's folder)"
