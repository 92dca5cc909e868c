"""List all runs of a folder: their progress and scores, and which are stale and why.

A run is stale when its configuration or its data has changed since it was begun.  Code makes none
stale: results say what made them.  "reproduce --redo" does a run again.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from ...errors import UserError
from ..config.paper_tables import Cell, load_table
from ..files.tabular import Grid
from ..files.yaml_files import CONFIGS
from .results import read_begun, read_result
from .status import State, status
from .workspace import Workspace
from .workspace_flags import add_workspace, workspace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_workspace(parser)


def run(args: argparse.Namespace) -> None:
    place = workspace(args)
    folder = place.root / "runs"
    found = sorted(path.parent for path in folder.glob("*/*/*/*/*/seed*/begun.json"))
    if not found:
        raise UserError(f"{folder}: there are no runs")
    rows = []
    for path in found:
        label, *name = path.relative_to(folder).parts
        result = None
        try:
            result = read_result(path / "result.json")
            found = state(place, label, name, path)
        except UserError as error:
            found = str(error)
        scores = result["scores"] if result else {}
        rows.append(
            [
                label,
                "/".join(name),
                *(f"{scores[n]['value']:.2f}" if n in scores else "" for n in ("bleu", "aer")),
                result["updates"] if result else "",
                result["finished"][:16] if result else "",
                found,
            ]
        )
    headers = ["profile", "run", "BLEU", "AER", "updates", "finished (UTC)", "state"]
    print(Grid(headers, rows, left=len(headers)).terminal())
    if any(row[-1].startswith(State.STALE.value) for row in rows):
        print('\n"fairseq-hybrid reproduce … --redo" deletes a stale run and does it again.')


def state(place: Workspace, label: str, name: list[str], path: Path) -> str:
    """The state of a run of any profile and text: those that it was begun with."""
    record = read_begun(path / "begun.json").get("workspace")
    paper, table, row, column, seed = name
    try:
        # By the configurations that it was begun with, unless the user names some.
        unnamed = place.configs == CONFIGS and record and Path(record["configs"]).is_dir()
        if record and (label != place.label or unnamed):
            place = replace(Workspace.of_record(place.root, record), user_dir=place.user_dir)
        found = load_table(f"{paper}/{table}", place.configs)
        cell = Cell(found, found.row(row), found.column(column))
    except (UserError, ValueError):  # ValueError: a copied folder, such as seed1.old
        return "stale (its row is no longer in the configurations)"
    try:
        return str(status(place.run(cell, int(seed.removeprefix("seed")))))
    except UserError as error:
        return f"not checked ({error})"
