"""List all runs of a folder: their progress and scores, and which are stale and why.

A run is stale when its configuration or its data has changed since it was begun.  Code makes none
stale: results say what made them.  "reproduce --redo" does a run again.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from ...errors import UserError
from ..config.paper_tables import OWN_PAPER, Cell, CellName, load_table
from ..config.settings import Settings
from ..files.tabular import Grid
from ..files.yaml_files import CONFIGS
from ..run.results import read_begun, read_result
from ..run.status import State, remedy, status
from ..run.workspace import Run, Workspace
from .workspace_flags import add_workspace, workspace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_workspace(parser)


def run(args: argparse.Namespace) -> None:
    place = workspace(args)
    begun = sorted(place.runs.glob("*/*/*/*/*/seed*/begun.json"))
    if not begun:
        raise UserError(f"{place.runs}: there are no runs")
    rows = []
    for path in begun:
        label, *names = path.parent.relative_to(place.runs).parts
        result = None
        try:
            result = read_result(path.with_name("result.json"))
            state = state_of(place, label, names, path)
        except UserError as error:
            state = str(error)
        scores = result["scores"] if result else {}
        rows.append(
            [
                label,
                "/".join(names),
                *(f"{scores[n]['value']:.2f}" if n in scores else "" for n in ("bleu", "aer")),
                result["updates"] if result else "",
                result["finished"][:16] if result else "",
                state,
            ]
        )
    headers = ["profile", "run", "BLEU", "AER", "updates", "finished (UTC)", "state"]
    print(Grid(headers, rows, left=len(headers)).terminal())
    if any(row[-1].startswith(State.STALE.value) for row in rows):
        print(f"\n{remedy(is_own=True)}")


def state_of(place: Workspace, label: str, names: list[str], path: Path) -> str:
    """The state of a run, with the configurations, profile and text that it was begun with.

    If the user names configurations, with those that the flags name.
    """
    try:
        return str(status(run_of_folder(place, label, names, read_begun(path) or {})))
    except UserError as error:
        return f"not checked ({str(error).splitlines()[0]})"
    except (ValueError, TypeError, KeyError):  # a copied folder, such as seed1.old
        return "not checked (it is not a run's folder)"


def run_of_folder(place: Workspace, label: str, names: list[str], begun: dict) -> Run:
    """The run whose folder has these names, as it was ``begun``."""
    paper, table, row, column, seed = names
    cell, number = CellName(f"{paper}/{table}", row, column), int(seed.removeprefix("seed"))
    record = begun.get("workspace")
    if record and (place.configs == CONFIGS or label != place.label):
        place = replace(Workspace.of_record(place.root, record), user_dir=place.user_dir)
    if paper == OWN_PAPER:  # no file has its settings: they are those it was begun with
        return Run(place, cell, number, Settings.of_dict(begun["settings"]), label)
    known = load_table(cell.table, place.configs)
    asked = place.run(Cell(known, known.row(row), known.column(column)), number)
    return replace(asked, found_in=label)
