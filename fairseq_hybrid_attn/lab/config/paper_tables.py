"""The papers' tables: their columns, rows and reported numbers, read from ``configs/``."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, NamedTuple

from ...effects import no_effect
from ...errors import UserError
from ..files.typed import BY_PROGRAM, Name, PathWithin, read
from ..files.yaml_files import CONFIGS, config_file, merge, read_mapping
from ..scores import NAMES, Group
from .settings import KEYS, Profile, RawSettings, Settings, load_raw, resolve

#: Folders of ``configs/`` that hold something other than tables.
NOT_TABLES = ("corpora", "profiles", "settings")
#: The paper, in names, of tables that no file has (``own_tables.py``).
OWN_PAPER = "own"
#: The score of word alignments, the alignment error rate.
AER = "aer"


def _group(bounds: object) -> Group | None:
    match bounds:
        case [int(above), int() | None as to] if 0 <= above < (math.inf if to is None else to):
            return Group(above, to)
    return None


def fault_of_group(bounds: object) -> str | None:
    good = bounds is None or _group(bounds)
    return None if good else "use [10, 20] for (10,20], [50, null] for (50,∞)"


@dataclass(frozen=True)
class Column:
    name: str  # its key in the table's file, and in the names of runs
    title: str  # for display
    score: str  # which of a run's scores it shows: bleu, tokenised_bleu, ...
    raw: RawSettings  # on top of those of all its rows
    run: str  # the column whose runs it measures too; its own name if it has its own runs
    curve: bool = False  # it shows the score of each checkpoint of the curve
    # It shows the score of test sentences with more and at most so many words in the source.
    source_words: Annotated[object, fault_of_group] = None
    planned: str | None = None  # what is missing to measure it, if anything

    @property
    def group(self) -> Group | None:
        return _group(self.source_words)


@dataclass(frozen=True)
class Row:
    name: str  # as in the paper's table
    raw: RawSettings  # its own
    system: str = ""  # for display
    # Reported numbers by column; None: not in the paper.
    paper: dict[str, float | None] = field(default_factory=dict)
    # By column, the score that it shows in place of the column's.
    scores: dict[str, str] = field(default_factory=dict)
    run: str | None = None  # the row (paper/table/row) whose run it uses, if the system is the same
    cited: bool = False  # a system that the paper quotes from others; it is not run
    planned: str | None = None  # what is missing to run it, if anything
    notes: str = ""  # for readers of the file
    # Why it cannot be read; the other rows of its table can.
    fault: str | None = field(default=None, metadata=BY_PROGRAM)


@dataclass(frozen=True)
class Table:
    """A table (or figure) of a paper.

    ``baseline``: the row that others are compared with, if any: its name, or paper/table/row of
    another table with columns of the same names.
    """

    name: str  # paper/table
    title: str  # for display
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    raw: RawSettings  # that all its rows share
    configs: Path  # the folder it was read from
    baseline: str | None = None
    transposed: bool = False  # printed with one line per column, for many columns of few rows
    notes: str = ""  # differences from the paper, for display

    @property
    def is_own(self) -> bool:
        """Whether it is of your own systems, and in no file."""
        return self.name.startswith(f"{OWN_PAPER}/")

    def row(self, name: str) -> Row:
        return self._named("row", self.rows, name)

    def column(self, name: str) -> Column:
        return self._named("column", self.columns, name)

    def _named(self, kind: str, items: tuple, name: str):
        for item in items:
            if item.name == name:
                return item
        known = " ".join(item.name for item in items)
        raise UserError(f"{self.name} has no {kind} {name}; its {kind}s are: {known}")

    def baseline_cell(self, column: Column) -> Cell | None:
        if self.baseline is None:
            return None
        table, _, row = self.baseline.rpartition("/")
        if not table:
            return Cell(self, self.row(row), column)
        other = _read_table(table, self.configs)
        return Cell(other, other.row(row), other.column(column.name))

    def cells(self) -> list[Cell]:
        """Row by row, the cells whose number the paper reports; all cells of a row without any."""
        return [
            Cell(self, row, column)
            for row in self.rows
            for column in self.columns
            if column.name in row.paper or not row.paper
        ]


class CellName(NamedTuple):
    """Where a number stands in the tables; so is called what is trained for it."""

    paper: str
    table: str
    row: str
    column: str

    def __str__(self) -> str:
        return "/".join(self)

    @property
    def table_name(self) -> str:
        """What :func:`load_table` takes."""
        return f"{self.paper}/{self.table}"

    @property
    def is_own(self) -> bool:
        """Whether it is of the user's systems, and of no table in a file."""
        return self.paper == OWN_PAPER

    def location(self, configs: Path) -> str:
        """Where a user finds its row, for messages."""
        return (
            self.row if self.is_own else f"{table_file(self.table_name, configs)}: rows: {self.row}"
        )


@dataclass(frozen=True)
class Cell:
    table: Table
    row: Row
    column: Column

    @property
    def name(self) -> CellName:
        paper, table = self.table.name.split("/")
        return CellName(paper, table, self.row.name, self.column.name)

    @property
    def paper(self) -> float | None:
        return self.row.paper.get(self.column.name)

    @property
    def score(self) -> str:
        """Which of its run's scores it shows."""
        return self.row.scores.get(self.column.name, self.column.score)

    @property
    def planned(self) -> str | None:
        """What is missing to measure it; None if nothing is."""
        owner = self.owner
        return self.row.planned or self.column.planned or (None if owner is self else owner.planned)

    @property
    def trainable(self) -> bool:
        """Whether its run can be trained, even if its own number cannot be measured."""
        return not (self.row.cited or self.owner.row.planned or self.owner.column.planned)

    @cached_property
    def owner(self) -> Cell:
        """The cell whose run gives this number: itself, or the one that ``run`` names."""
        cell, passed = self, []
        while (following := cell._run_of()) is not None:
            passed.append(str(cell.name))
            if len(passed) > len(set(passed)):
                path = table_file(self.table.name, self.table.configs)
                circle = " -> ".join(passed)
                raise UserError(f"{path}: rows: {self.row.name}: run: goes in a circle: {circle}")
            cell = following
        return cell

    def _run_of(self) -> Cell | None:
        """The cell that ``run`` of its row or column names."""
        table, row, column = self.table, self.row, self.column
        if row.fault:
            raise UserError(row.fault)
        if row.run is not None:
            name, _, other = row.run.rpartition("/")
            try:
                table = load_table(name, table.configs)
                return Cell(table, table.row(other), table.column(column.run))
            except UserError as error:
                path = table_file(self.table.name, self.table.configs)
                raise UserError(f"{path}: rows: {row.name}: run: {row.run}: {error}") from None
        return None if column.run == column.name else Cell(table, row, table.column(column.run))

    @property
    def run_name(self) -> CellName:
        """The cell whose run gives this number."""
        return self.owner.name

    def settings(self, profile: Profile) -> Settings:
        """The settings of its run: the table's, with those of row, column and profile on top.

        The own keys of row and column are what the table is about, so no profile overrides them.
        """
        owner = self.owner
        row, column = owner.row.raw, owner.column.raw
        raw = owner.table.raw.merged
        for layer in (row.shared, column.shared, profile.settings, row.own, column.own):
            raw = merge(raw, layer)
        of_cell = {**row.own.get("train", {}), **column.own.get("train", {})}
        flags = raw.get("train", {})  # an inherited one that another has made useless is left out
        raw["train"] = {k: v for k, v in flags.items() if k in of_cell or not no_effect(k, flags)}
        where = owner.name.location(owner.table.configs)
        return resolve(raw, f"{where} (column {owner.column.name})")


def table_file(name: str, configs: Path) -> Path:
    return config_file(f"{name}.yaml", configs)


def table_names(configs: Path) -> list[str]:
    return sorted(
        f"{path.parent.name}/{path.stem}"
        for path in configs.glob("*/*.yaml")
        if path.parent.name not in NOT_TABLES
    )


def load_table(name: str, configs: Path) -> Table:
    """Read a table.  A row that cannot be read says why in its ``fault``."""
    table, path = _read_table(name, configs), table_file(name, configs)
    if table.transposed and any(column.curve for column in table.columns):
        raise UserError(f"{path}: transposed: a curve has one line per checkpoint, not per column")
    for column in table.columns:
        base = table.baseline_cell(column)
        if base is not None and base.column.group != column.group:
            raise UserError(
                f"{path}: columns: {column.name}: the baseline's column of this name is not for "
                "the same sentences (source-words)"
            )
    for cell in table.cells():
        whole = cell.score.partition(".")[0] in NAMES and not cell.column.curve
        if cell.column.group is not None and not whole:
            raise UserError(
                f"{path}: columns: {cell.column.name}: source-words: only scores of a whole "
                f"translation can have it, not {cell.score} of row {cell.row.name}"
            )
    return table


def _read_table(name: str, configs: Path) -> Table:
    path = table_file(name, configs)
    if name not in (*table_names(configs), *table_names(CONFIGS)):
        known = "\n  ".join(table_names(configs))
        raise UserError(f"{name}: there is no such table in {configs}. There are:\n  {known}")
    read(PathWithin, name, f"{path}: the table's name")
    content = read_mapping(path)
    given, content = _settings_of(content, configs, str(path))
    missing = [key for key in ("columns", "rows") if key not in content]
    if missing:
        raise UserError(f"{path}: no {', '.join(missing)}")
    columns = tuple(
        _column(column, one, configs, f"{path}: columns: {column}")
        for column, one in _named(content.pop("columns"), f"{path}: columns").items()
    )
    rows = []
    for row, one in _named(content.pop("rows"), f"{path}: rows").items():
        try:
            rows.append(_row(row, one, columns, configs, f"{path}: rows: {row}"))
        except UserError as error:
            rows.append(Row(row, given, fault=str(error)))
    more = {"name": name, "columns": columns, "rows": tuple(rows), "raw": given, "configs": configs}
    return read(Table, content, str(path), **more)


def _settings_of(content: object, configs: Path, where: str) -> tuple[RawSettings, dict]:
    """The settings that a mapping has, and its other keys."""
    keys = read(dict[str, object], content, where)
    others = {key: value for key, value in keys.items() if key not in (*KEYS, "extends")}
    return load_raw(keys, configs, where), others


def _named(entries: object, where: str) -> dict[str, object]:
    """Columns or rows by their names, which also name folders of runs."""
    found = read(dict[Name, object], entries, where)
    if len({name.casefold() for name in found}) < len(found):
        raise UserError(f"{where}: names must differ by more than capitals, as folders do on a Mac")
    return {name: {} if one is None else one for name, one in found.items()}


def _column(name: str, content: object, configs: Path, where: str) -> Column:
    raw, content = _settings_of(content, configs, where)
    content = {"title": name, "score": "bleu", "run": name, **content}
    column = read(Column, content, where, name=name, raw=raw)
    if column.run != name and column.raw.merged:
        raise UserError(
            f"{where}: a column that takes the runs of {column.run} must not have settings"
        )
    return column


def _row(name: str, content: object, columns: tuple[Column, ...], configs: Path, where: str) -> Row:
    raw, content = _settings_of(content, configs, where)
    row = read(Row, content, where, name=name, raw=raw)
    for key, named in {"paper": row.paper, "scores": row.scores}.items():
        stray = named.keys() - {column.name for column in columns}
        if stray:
            raise UserError(f"{where}: {key}: the table has no column {', '.join(sorted(stray))}")
    if row.run is not None and (raw.merged or row.cited):
        raise UserError(f"{where}: a row that takes the run of {row.run} must not have settings")
    return row
