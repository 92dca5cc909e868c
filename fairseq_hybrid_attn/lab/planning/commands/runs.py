"""List all runs of a folder: their progress and scores, and which are stale and why.

A result is stale when its configuration, its data or the code that numbers depend on has
changed since.  Runs of other profiles and texts in the same folder are listed as well; they are
checked only if the arguments name their profile and text.
"""

from __future__ import annotations

import argparse

from ....errors import UserError
from ...configuration.paper_tables import Cell, load_table
from ...files.tabular import Grid
from ...runs.results import read_result
from ...runs.workspace import Workspace
from ..status import status
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
        result = read_result(path / "result.json")
        scores = result["scores"] if result else {}
        rows.append(
            [
                label,
                "/".join(name),
                *(f"{scores[n]['value']:.2f}" if n in scores else "" for n in ("bleu", "aer")),
                result["updates"] if result else "",
                result["finished"][:16] if result else "",
                state(place, label, name, result),
            ]
        )
    headers = ["profile", "run", "BLEU", "AER", "updates", "finished (UTC)", "state"]
    print(Grid(headers, rows, left=len(headers)).terminal())


def state(place: Workspace, label: str, name: list[str], result: dict | None) -> str:
    if label != place.label:
        return "has a result" if result else "unfinished"
    paper, table, row, column, seed = name
    try:
        found = load_table(f"{paper}/{table}", place.configs)
        cell = Cell(found, found.row(row), found.column(column))
        return str(status(place.run(cell, int(seed.removeprefix("seed")))))
    except (UserError, ValueError):  # ValueError: a copied folder, such as seed1.old
        return "stale (its row is no longer in the configurations)"
