"""The papers' tables: their columns, rows and reported numbers, read from ``configs/``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ...errors import UserError
from ..files.yaml_files import CONFIGS, check_keys, check_mappings, config_file, merge, read_mapping
from ..lengths.measure import LENGTH_RATIO, Group
from ..scoring.metrics import METRICS
from .settings import KEYS, Profile, RawSettings, Settings, load_raw, resolve

TABLE_KEYS = (
    *("title", "baseline", "columns", "rows", "transposed", "notes", "claims", "extends"),
    *KEYS,
)
CLAIM_KEYS = ("says", "above-zero")
ROW_KEYS = ("system", "paper", "run", "scores", "cited", "planned", "notes", "extends", *KEYS)
COLUMN_KEYS = (
    *("title", "score", "curve", "source-words", "cut", "run", "planned", "extends"),
    *KEYS,
)
#: Folders of ``configs/`` that hold something other than tables.
NOT_TABLES = ("corpora", "profiles", "settings")


@dataclass(frozen=True)
class Column:
    """A column of numbers.

    ``cut``: it shows the score of translations cut to the length of their reference.  This is not a
    score of the system, which does not know the reference.  It shows the cost of translations
    that do not end.
    """

    name: str  # its key in the table's file, and in the names of runs
    title: str  # for display
    score: str  # which of a run's scores it shows: bleu, tokenised_bleu, ...
    curve: bool  # it shows the score of each checkpoint of the curve
    group: Group | None  # it shows the score of test sentences in this range of source length
    cut: bool
    run: str  # the column whose runs it measures too; its own name if it has its own runs
    planned: str | None  # what is missing to measure it, if anything
    raw: RawSettings  # on top of those of all its rows


@dataclass(frozen=True)
class Row:
    """A row: a system, and what the paper reports about it."""

    name: str  # as in the paper's table
    system: str  # for display
    paper: dict[str, float | None]  # reported numbers by column; None: not in the paper
    scores: dict[str, str]  # by column, the score that it shows in place of the column's
    run: str | None  # the row (paper/table/row) whose run it uses, if this is the same system
    cited: bool  # a system that the paper quotes from others; it is not run
    planned: str | None  # what is missing to run it, if anything
    raw: RawSettings  # its own


@dataclass(frozen=True)
class Claim:
    """A paper's claim about a table's numbers: in words, and as a sum (see ``claims.py``)."""

    says: str
    above_zero: str


@dataclass(frozen=True)
class Table:
    """A table (or figure) of a paper.

    ``baseline``: the row that others are compared with, if any: its name, or paper/table/row of
    another table with columns of the same names.
    """

    name: str  # paper/table
    title: str  # for display
    baseline: str | None
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    transposed: bool  # printed with one line per column, for many columns of few rows
    notes: str  # differences from the paper, for display
    claims: tuple[Claim, ...]
    raw: RawSettings  # that all its rows share
    configs: Path  # the folder it was read from

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
        other = load_table(table, self.configs)
        return Cell(other, other.row(row), other.column(column.name))

    def cells(self) -> list[Cell]:
        """Row by row, the cells whose number the paper reports; all cells of a row without any."""
        return [
            Cell(self, row, column)
            for row in self.rows
            for column in self.columns
            if column.name in row.paper or not row.paper
        ]


@dataclass(frozen=True)
class Cell:
    """A number of a table: a row in a column."""

    table: Table
    row: Row
    column: Column

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
        if self.row.run is not None:
            table, _, row = self.row.run.rpartition("/")
            try:
                other = load_table(table, self.table.configs)
                return Cell(other, other.row(row), other.column(self.column.run)).owner
            except UserError as error:
                path = table_file(self.table.name, self.table.configs)
                where = f"{path}: rows: {self.row.name}"
                raise UserError(f"{where}: run: {self.row.run}: {error}") from None
        if self.column.run != self.column.name:
            return Cell(self.table, self.row, self.table.column(self.column.run)).owner
        return self

    @property
    def run_name(self) -> str:
        """``paper/table/row/column`` of the run that gives this number."""
        owner = self.owner
        return f"{owner.table.name}/{owner.row.name}/{owner.column.name}"

    def settings(self, profile: Profile) -> Settings:
        """The settings of its run: the table's, with those of row, column and profile on top.

        The own keys of row and column are what the table is about, so no profile overrides them.
        """
        owner = self.owner
        row, column = owner.row.raw, owner.column.raw
        raw = owner.table.raw.merged
        for layer in (row.shared, column.shared, profile.settings, row.own, column.own):
            raw = merge(raw, layer)
        return resolve(raw, self.run_name)


def table_file(name: str, configs: Path) -> Path:
    return config_file(f"{name}.yaml", configs)


def table_names(configs: Path) -> list[str]:
    """The names (``paper/table``) of all tables."""
    return sorted(
        f"{path.parent.name}/{path.stem}"
        for path in configs.glob("*/*.yaml")
        if path.parent.name not in NOT_TABLES
    )


def load_table(name: str, configs: Path) -> Table:
    path = table_file(name, configs)
    if name.count("/") == 1 and any((configs / name).glob("*.yaml")):  # else silently ignored
        raise UserError(
            f"{configs / name}: a folder of rows is the format of an earlier version; put the rows "
            f"under rows: in {path} (see configs/README.md), and delete the folder"
        )
    if name not in (*table_names(configs), *table_names(CONFIGS)):
        known = "\n  ".join(table_names(configs))
        raise UserError(f"{name}: there is no such table in {configs}. There are:\n  {known}")
    content = read_mapping(path, TABLE_KEYS)
    for key in ("title", "columns", "rows"):
        if key not in content:
            raise UserError(f"{path}: no {key}")
    columns = tuple(
        _column(key, value, configs, where)
        for key, value, where in _entries(content, "columns", path)
    )
    names = [column.name for column in columns]
    table = Table(
        name=name,
        title=content["title"],
        baseline=content.get("baseline"),
        columns=columns,
        rows=tuple(
            _row(key, value, names, configs, where)
            for key, value, where in _entries(content, "rows", path)
        ),
        transposed=bool(content.get("transposed")),
        notes=content.get("notes", ""),
        claims=tuple(_claim(item, str(path)) for item in content.get("claims", ())),
        raw=load_raw(content, configs, str(path)),
        configs=configs,
    )
    _check(table, path)
    return table


def _entries(content: dict, key: str, path: Path) -> list[tuple[str, dict, str]]:
    if not isinstance(content[key], dict):
        raise UserError(f"{path}: {key}: use a mapping from names to settings")
    entries = []
    for name, value in content[key].items():
        where = f"{path}: {key}: {name}"
        # It also names a folder of runs.
        if not isinstance(name, str) or "/" in name or not name.strip("."):
            raise UserError(f"{where}: use a name without a slash, in quotes if YAML needs them")
        if not isinstance(value, dict | None):
            raise UserError(f"{where}: use a mapping from keys to values")
        entries.append((name, value or {}, where))
    return entries


def _check(table: Table, path: Path) -> None:
    if table.transposed and any(column.curve for column in table.columns):
        raise UserError(f"{path}: transposed: a curve has one line per checkpoint, not per column")
    for column in table.columns:
        base = table.baseline_cell(column)
        if base is not None and (base.column.group, base.column.cut) != (column.group, column.cut):
            raise UserError(
                f"{path}: columns: {column.name}: the baseline's column of this name is not for "
                "the same sentences (source-words, cut)"
            )
    for cell in (Cell(table, row, column) for row in table.rows for column in table.columns):
        views = cell.column.group is not None or cell.column.cut
        if views and not _of_translations(cell.score):
            raise UserError(
                f"{path}: rows: {cell.row.name}: scores: {cell.column.name}: only scores of a "
                "whole translation can have source-words or cut"
            )


def _claim(content: dict, where: str) -> Claim:
    check_keys(content, CLAIM_KEYS, f"{where}: claims")
    missing = [key for key in CLAIM_KEYS if key not in content]
    if missing:
        raise UserError(f"{where}: claims: no {', '.join(missing)}")
    return Claim(content["says"], content["above-zero"])


def _column(name: str, content: dict, configs: Path, where: str) -> Column:
    check_keys(content, COLUMN_KEYS, where)
    column = Column(
        name=name,
        title=content.get("title", name),
        score=content.get("score", "bleu"),
        curve=bool(content.get("curve")),
        group=_group(content.get("source-words"), where),
        cut=bool(content.get("cut")),
        run=content.get("run", name),
        planned=content.get("planned"),
        raw=load_raw(content, configs, where),
    )
    if column.run != name and column.raw.merged:
        raise UserError(
            f"{where}: a column that takes the runs of {column.run} must not have settings"
        )
    views = {"source-words": column.group is not None, "cut": column.cut}
    for key in (key for key, wanted in views.items() if wanted):
        if column.curve or not _of_translations(column.score):
            raise UserError(f"{where}: {key}: only scores of a whole translation can have it")
    if column.curve and column.score.startswith(LENGTH_RATIO):
        raise UserError(f"{where}: curve: checkpoints have no {column.score}")
    return column


def _of_translations(score: str) -> bool:
    """Whether a score is computed from translations; a test set may follow after a dot."""
    return score.partition(".")[0] in (*METRICS, LENGTH_RATIO)


def _group(content: object, where: str) -> Group | None:
    if content is None:
        return None
    match content:
        case [int(above), int(to)] if 0 <= above < to:
            return Group(above, to)
        case [int(above), None] if above >= 0:
            return Group(above, None)
    raise UserError(f"{where}: source-words: use [10, 20] for (10,20], [50, null] for (50,∞)")


def _row(name: str, content: dict, columns: list[str], configs: Path, where: str) -> Row:
    check_keys(content, ROW_KEYS, where)
    check_mappings(content, ("paper", "scores"), where)
    paper = content.get("paper", {})
    scores = content.get("scores", {})
    for key, named in {"paper": paper, "scores": scores}.items():
        stray = [column for column in named if column not in columns]
        if stray:
            raise UserError(f"{where}: {key}: the table has no column {', '.join(stray)}")
    raw = load_raw(content, configs, where)
    run = content.get("run")
    if run is not None and (raw.merged or content.get("cited")):
        raise UserError(f"{where}: a row that takes the run of {run} must not have settings")
    return Row(
        name=name,
        system=content.get("system", ""),
        paper=paper,
        scores=scores,
        run=run,
        cited=bool(content.get("cited")),
        planned=content.get("planned"),
        raw=raw,
    )
