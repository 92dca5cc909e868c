"""A plan: the requested cells and seeds of a table, and the runs that they need."""

from __future__ import annotations

from dataclasses import dataclass

from ..configuration.paper_tables import Cell, Table
from ..runs.workspace import Run, Workspace


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
        found: dict[str, Run] = {}
        for seed in self.seeds:
            for cell in self.cells:
                if not cell.row.cited and cell.trainable:
                    run = self.workspace.run(cell, seed)
                    found.setdefault(run.name, run)
        return list(found.values())

    @property
    def planned(self) -> list[tuple[str, str]]:
        """Names of cells that this version cannot fill, with what is missing."""
        return [
            (f"{cell.row.name}/{cell.column.name}", cell.planned)
            for cell in self.cells
            if cell.planned
        ]

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
