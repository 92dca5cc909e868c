"""A plan: the requested cells and seeds of a table, and the runs that they need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial

from ...errors import UserError
from ..config.own_tables import OWN, own_table
from ..config.paper_tables import Cell, Table, load_table
from ..config.settings import Profile
from ..models.trained import TrainedModel
from ..run.checks import check_run
from ..run.devices import Devices
from ..run.status import State, Status, status
from ..run.workspace import Run, Workspace


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
        return list(self._runs_and_faults[0].values())

    @property
    def faults(self) -> list[str]:
        """What is wrong with rows of the configurations, which are not among the runs."""
        return list(dict.fromkeys(self._runs_and_faults[1].values()))

    @cached_property
    def _runs_and_faults(self) -> tuple[dict[str, Run], dict[str, str]]:
        """Runs by their names, and a fault of each row that has one."""
        runs: dict[str, Run] = {}
        faults: dict[str, str] = {}
        for seed in self.seeds:
            for cell in self.cells:
                where = ""
                try:
                    if not cell.trainable:
                        continue
                    run = self.workspace.run(cell, seed)
                    if self.workspace.own is None:
                        where = f"{run.cell}: corpus {run.settings.corpus}: "
                    run.recipe  # noqa: B018  it must be readable
                    runs.setdefault(run.name, run)
                except UserError as error:
                    faults.setdefault(cell.row.name, f"{where}{error}")
        return runs, faults

    @property
    def planned(self) -> list[tuple[str, str]]:
        named = []
        for cell in self.cells:
            with suppress(UserError):  # which is among the faults
                named.append((f"{cell.row.name}/{cell.column.name}", cell.planned))
        return [(name, missing) for name, missing in named if missing]

    @property
    def cited(self) -> list[str]:
        return list(dict.fromkeys(cell.row.name for cell in self.cells if cell.row.cited))

    def check(self, devices: Devices) -> tuple[list[tuple[Run, Status]], list[str]]:
        """The runs that can be done, with their states; what is wrong with others, a line each."""
        able, faults = [], dict.fromkeys(self.faults)
        for run in self.runs:
            try:
                state = status(run)
                if state.state is not State.DONE:
                    check_run(run, devices)
                able.append((run, state))
            except UserError as error:
                faults[f"{run.cell.location(run.workspace.configs)}: {error}"] = None
        return able, [" ".join(fault.split()) for fault in faults]


def make_plan(
    table: Table,
    workspace: Workspace,
    *,
    seeds: tuple[int, ...],
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
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
    if not cells:
        raise UserError(f"{table.name}: none of these rows is in these columns")
    return Plan(table, workspace, cells, seeds)


def make_plans(
    workspace: Workspace, names: Sequence[str], *, columns: Sequence[str], seeds: tuple[int, ...]
) -> list[Plan]:
    """The plans for tables (``paper/table``), each of which may be followed by some of its rows."""
    if "/" not in names[0]:
        raise UserError(f"{names[0]}: name a table first, as PAPER/TABLE")
    loaded: list[tuple[Table, list[str]]] = []
    for name in names:
        if "/" in name:
            loaded.append((load_table(name.rstrip("/"), workspace.configs), []))
        else:
            loaded[-1][1].append(name)
    named = {column.name for table, _ in loaded for column in table.columns}
    plans = []
    for table, rows in loaded:
        chosen = [column.name for column in table.columns if column.name in columns]
        if columns and not chosen:
            table.column(columns[0])  # its error lists the columns
        plans.append(make_plan(table, workspace, rows=rows, columns=chosen, seeds=seeds))
    for name in columns:
        if name not in named:
            raise UserError(f"--columns {name}: none of these tables has it")
    return plans


def own_plan(
    workspace: Workspace,
    systems: Sequence[str],
    *,
    seeds: tuple[int, ...] = (1,),
    name: str | None = None,
    flags: Sequence[str] = (),
    given: Mapping[str, Mapping[str, int]] | None = None,
    model: TrainedModel | None = None,
    inherits: bool = False,
) -> Plan:
    """The plan of the table ``own/NAME`` of systems on the user's text.

    Args:
        flags: of fairseq-train, for all systems.
        given: other settings of all: the batch's tokens and per-device, the checkpoints' every and
            average.
        model: what they go on with.
        inherits: the system is the model's own: its architecture was not named.
    """
    base, start, inherit = OWN, None, None
    if model and workspace.own:
        from ..run.fine_tuning import (  # here: others need it not
            name_of,
            of_architecture,
            settings_from,
        )

        profile = Profile(f"from-{name_of(model)}", f"starts from {model.checkpoint}")
        own = replace(workspace.own, like=model.checkpoint)
        workspace = replace(workspace, own=own, profile=profile)
        base, start = settings_from(model), f"{name_of(model)}, as it is"
        inherit = None if inherits else partial(of_architecture, base["train"])
    table = own_table(
        "systems" if name is None else name,
        systems,
        shared=flags,
        given=given,
        profile=workspace.profile,
        configs=workspace.configs,
        base=base,
        start=start,
        inherit=inherit,
    )
    return make_plan(table, workspace, seeds=seeds)


def plan_of_row(
    workspace: Workspace, name: str, columns: Sequence[str], seeds: tuple[int, ...]
) -> Plan:
    """The plan for a row, ``paper/table/row``."""
    table_name, _, row = name.rpartition("/")
    table = load_table(table_name, workspace.configs)
    return make_plan(table, workspace, rows=[row], columns=columns, seeds=seeds)
