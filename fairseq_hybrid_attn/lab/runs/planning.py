"""What a table asks for, how far it is, and about how long the rest will take."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from ..configuration.tables import Cell, Table
from ..corpora import read_manifest
from ..text.training_log import last_record
from .command_lines import RunFolder
from .devices import Devices
from .results import changes, products, read_begun, read_result
from .workspace import Run, Workspace

#: Operations a second that a training keeps up, for a rough guess of its time: what a core
#: of a CPU did in our own runs, and what a data-centre GPU may do in half precision (a guess).
SPEED = {"cpu": 4e10, "cuda": 3e13}
#: Tokens of an average sentence, where epochs are counted and the corpus is not there yet.
TOKENS_A_SENTENCE = 28


#: How Python ends the traceback of an error.
_ERROR = re.compile(r"[\w.]*(Error|Exception)\b")


class State(Enum):
    """How far a run is."""

    DONE = "done"
    STALE = "stale"
    BEGUN = "begun"
    NOT_BEGUN = "not begun"


@dataclass(frozen=True)
class Status:
    """A run's state, with what it is stale for or how far it came."""

    state: State
    detail: str = ""

    def __str__(self) -> str:
        return self.state.value + (f" ({self.detail})" if self.detail else "")


def status(run: Run) -> Status:
    """How far a run is."""
    folder = run.folder
    result = read_result(folder.result)
    made_with = result or read_begun(folder.begun)
    if made_with is None:
        made = products(folder)
        return Status(State.STALE, f"{made[0].name} is there") if made else Status(State.NOT_BEGUN)
    changed = changes(run, made_with["identity"])
    if result is not None:
        if changed:
            return Status(State.STALE, f"{' and '.join(changed)} changed")
        return Status(State.DONE)
    changed = [what for what in changed if what != "code"]
    if changed:
        return Status(State.STALE, f"unfinished, and {' and '.join(changed)} changed")
    record = last_record(folder.log("train"))
    far = f"at update {record['num_updates']}" if record else "before its first update"
    if folder.trained.exists():
        far = "trained"
    failure = last_error(folder)
    return Status(State.BEGUN, far + (f"; failed: {failure}" if failure else ""))


def last_error(folder: RunFolder) -> str | None:
    """The error that a run's newest log ends with, if any: that of a loss that became NaN, say."""
    logs = sorted(folder.path.glob("**/logs/*.log"), key=lambda log: log.stat().st_mtime)
    if not logs:
        return None
    _, found, end = logs[-1].read_text(errors="replace").rpartition("Traceback (most recent")
    if not found or " | INFO | " in end:  # it was taken up again
        return None
    # Messages of several lines, and warnings, may follow.
    return next((line for line in reversed(end.split("\n")) if _ERROR.match(line)), None)


@dataclass(frozen=True)
class Plan:
    """What a table asks for.

    Attributes:
        table: the table.
        workspace: where, at which scale, on which text.
        cells: the cells that were asked for.
        seeds: of every run.
    """

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
        """Names of cells that this version cannot fill, with what lacks."""
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
    table: Table,
    workspace: Workspace,
    rows: list[str],
    columns: list[str],
    seeds: tuple[int, ...],
) -> Plan:
    """The plan for some rows and columns of a table; all of them if none is named.

    Raises:
        UserError: if the table has not what is named.
    """
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


def tokens(run: Run) -> tuple[float, bool]:
    """About how many tokens a run trains on.

    Returns:
        the number, and whether the training may stop earlier by itself.
    """
    settings = run.settings
    numbers = []
    if "max-update" in settings.train:
        numbers.append(int(settings.train["max-update"]) * settings.batch.tokens)
    if "max-epoch" in settings.train:
        manifest = read_manifest(run.corpus_folder)
        recipe = run.recipe
        counts = manifest.counts if manifest else {**recipe.about, **recipe.expect}
        pairs = counts.get("train")
        if pairs:
            numbers.append(int(settings.train["max-epoch"]) * pairs * TOKENS_A_SENTENCE)
    return (min(numbers) if numbers else float("nan")), "patience" in settings.train


def guess_seconds(run: Run, parameters: int, devices: Devices) -> float:
    """A rough guess of a training's time: 6 operations a token and parameter."""
    workers = devices.threads if devices.kind == "cpu" else devices.world
    return 6 * parameters * tokens(run)[0] / (SPEED[devices.kind] * workers)
