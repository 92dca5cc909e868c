"""A run by its name: a row of a table, a system on the user's text, or the folder of any run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ...errors import UserError, few
from ..config.paper_tables import OWN_PAPER, Cell, CellName, load_table
from ..config.settings import Profile, Settings, load_profile
from ..models.trained import BEGUN
from ..run.results import read_begun
from ..run.workspace import OwnText, Run, Workspace
from .plan import plan_of_row


def find_run(workspace: Workspace, name: str, *, column: str | None, seed: int) -> Run:
    """The run of a folder, wherever that is now, of own/NAME/SYSTEM, or of a table's row."""
    folder = Path(name)
    if name.startswith(f"{OWN_PAPER}/"):
        found = sorted(workspace.runs.glob(f"*/{name}/*/seed{seed}"))
        if len(found) != 1:
            known = few(found, between="\n  ") if found else f"none in {workspace.runs}"
            raise UserError(f"{name}, seed {seed}: name the folder of one run: {known}")
        [folder] = found
    if (begun := read_begun(folder / BEGUN)) is None:
        return run_of_row(workspace, name, column, seed)
    *above, runs, label, paper, table, row, column, seed_name = folder.resolve().parts
    if runs != "runs":
        raise UserError(f"{folder} is not in a folder of runs")
    workspace = replace(workspace, root=Path(*above))
    return run_of_folder(workspace, label, [paper, table, row, column, seed_name], begun)


def run_of_row(workspace: Workspace, name: str, column: str | None, seed: int) -> Run:
    """The run of ``paper/table/row``; a row with several runs needs a column."""
    plan = plan_of_row(workspace, name, [column] if column else [], (seed,))
    if len(plan.runs) > 1:
        raise UserError(f"{name}: which --column? {', '.join(c.column.name for c in plan.cells)}")
    if plan.faults:
        raise UserError(plan.faults[0])
    if not plan.runs:
        reasons = ", ".join(dict.fromkeys(reason for _, reason in plan.planned))
        raise UserError(f"{name} is not run: {reasons or 'cited by the paper'}")
    return plan.runs[0]


def run_of_folder(workspace: Workspace, label: str, names: Sequence[str], begun: dict) -> Run:
    """The run whose folder has these names, as it was ``begun``."""
    *of_cell, seed_name = names
    cell, seed = CellName(*of_cell), int(seed_name.removeprefix("seed"))
    if label != workspace.label:
        workspace = _workspace_of(workspace, label, begun)
    if cell.is_own:  # no file has its settings: they are those it was begun with
        return Run(workspace, cell, seed, Settings.of_dict(begun["settings"]), label)
    known = load_table(cell.table_name, workspace.configs)
    asked = workspace.run(Cell(known, known.row(cell.row), known.column(cell.column)), seed)
    return replace(asked, found_in=label)


def _workspace_of(workspace: Workspace, label: str, begun: dict) -> Workspace:
    """The workspace of another label: with its profile, and the text of a run ``begun`` in it."""
    name, on_text, _ = label.partition("@")
    own = workspace.own if on_text else None
    if on_text and (record := (begun.get("workspace") or {}).get("own")):
        own = OwnText.of_record(record)
    profile = Profile(name, "") if own and own.like else load_profile(name, workspace.configs)
    return replace(workspace, own=own, profile=profile)
