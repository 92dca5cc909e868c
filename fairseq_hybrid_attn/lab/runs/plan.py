"""A plan: the requested cells and seeds of a table, and the runs that they need."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from ...errors import UserError
from ..config.paper_tables import Cell, Table
from .workspace import Run, Workspace


@dataclass(frozen=True)
class Plan:
    """What was requested of a table, in a workspace."""

    table: Table
    workspace: Workspace
    cells: tuple[Cell, ...]
    seeds: tuple[int, ...]

    @property
    def runs(self) -> list[Run]:
        """Every run that the cells need, once, seed by seed so that all rows come early."""
        return list(self._sorted_out[0].values())

    @property
    def faults(self) -> list[str]:
        """What is wrong with rows of the configurations, which are not among the runs."""
        return list(dict.fromkeys(self._sorted_out[1].values()))

    @cached_property
    def _sorted_out(self) -> tuple[dict[str, Run], dict[str, str]]:
        """Runs by their names, and a fault of each row that has one."""
        found: dict[str, Run] = {}
        faults: dict[str, str] = {}
        for seed in self.seeds:
            for cell in self.cells:
                where = ""
                try:
                    if not cell.row.cited and cell.trainable:
                        run = self.workspace.run(cell, seed)
                        corpus = run.settings.corpus  # it names file and row itself
                        where = "" if self.workspace.own else f"{cell.run_name}: corpus {corpus}: "
                        run.recipe  # noqa: B018  it must be readable
                        found.setdefault(run.name, run)
                except UserError as error:
                    faults.setdefault(cell.row.name, f"{where}{error}")
        return found, faults

    @property
    def planned(self) -> list[tuple[str, str]]:
        """Names of cells that this version cannot fill, with what is missing."""
        found = []
        for cell in self.cells:
            with suppress(UserError):  # which is among the faults
                found.append((f"{cell.row.name}/{cell.column.name}", cell.planned))
        return [(name, missing) for name, missing in found if missing]

    @property
    def cited(self) -> list[str]:
        """Names of rows that the paper quotes from others."""
        return list(dict.fromkeys(cell.row.name for cell in self.cells if cell.row.cited))


def make_plan(
    table: Table, workspace: Workspace, rows: list[str], columns: list[str], seeds: tuple[int, ...]
) -> Plan:
    """The plan for some rows and columns of a table; all of them if none is named."""
    for name in rows:
        table.row(name)
    for name in columns:
        table.column(name)
    cells = tuple(
        cell
        for cell in table.cells()
        if (not rows or cell.row.name in rows) and (not columns or cell.column.name in columns)
    )
    return Plan(table, workspace, cells, seeds)
