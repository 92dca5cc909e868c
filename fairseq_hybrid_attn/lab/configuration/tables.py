"""The papers' tables: their rows, columns and reported numbers, read from ``configs/``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ...errors import UserError
from ..files.yaml_files import check_keys, merge, read_mapping
from ..lengths.measure import LENGTH_RATIO, Group
from ..scoring.metrics import METRICS
from .settings import KEYS, Layer, Profile, Settings, load_layer, resolve

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


@dataclass(frozen=True)
class Column:
    """A column of numbers.

    Attributes:
        name: its key in the table's file, and in the names of runs.
        title: for people.
        score: which of a run's scores stands in it (``bleu``, ``tokenised_bleu``, ...).
        curve: it shows the score of each checkpoint of the curve.
        group: it shows the score of the test sentences whose source has so many words, if any.
        cut: it shows the score of translations that end where the reference does, at the latest.
            That is no score of a system, which does not know the reference; it tells what comes of
            translations that do not end.
        run: the column whose runs it measures once more; its own name if it has runs of its own.
        planned: what it lacks to be measured, if anything.
        layer: settings that all its rows have on top.
    """

    name: str
    title: str
    score: str
    curve: bool
    group: Group | None
    cut: bool
    run: str
    planned: str | None
    layer: Layer


@dataclass(frozen=True)
class Row:
    """A row: a system, and what the paper reports of it.

    Attributes:
        name: as in the paper's table.
        system: for people.
        paper: reported numbers by column.
        scores: by column, which of a run's scores stands there in place of the column's.
        run: the row (paper/table/row) whose run serves, if this is the same system.
        cited: a system of others that the paper quotes, which is not run.
        planned: what it lacks to be run, if anything.
        layer: settings of its own.
    """

    name: str
    system: str
    paper: dict[str, float]
    scores: dict[str, str]
    run: str | None
    cited: bool
    planned: str | None
    layer: Layer


@dataclass(frozen=True)
class Claim:
    """What a paper says of a table's numbers: in words, and as a sum of them (``claims.py``)."""

    says: str
    above_zero: str


@dataclass(frozen=True)
class Table:
    """A table (or figure) of a paper.

    Attributes:
        name: ``paper/table``.
        title: for people.
        baseline: the row that the others are compared with, if any: its name, or that of another
            table's row as paper/table/row, whose columns have the same names.
        columns: in order.
        rows: in order.
        transposed: for many columns of few rows: printed as one table with a line a column.
        notes: differences from the paper, for people.
        claims: what the paper says of the numbers (see ``claims.py``).
        layer: settings that all its rows share.
        configs: the folder it was read from.
    """

    name: str
    title: str
    baseline: str | None
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    transposed: bool
    notes: str
    claims: tuple[Claim, ...]
    layer: Layer
    configs: Path

    def row(self, name: str) -> Row:
        """The row of that name.

        Raises:
            UserError: if there is none, naming those that there are.
        """
        return self._named("row", self.rows, name)

    def baseline_cell(self, column: Column) -> Cell | None:
        """What the numbers of a column are compared with.

        Raises:
            UserError: if there is no such row or column.
        """
        if self.baseline is None:
            return None
        table, _, row = self.baseline.rpartition("/")
        if not table:
            return Cell(self, self.row(row), column)
        other = load_table(table, self.configs)
        return Cell(other, other.row(row), other.column(column.name))

    def column(self, name: str) -> Column:
        """The column of that name.

        Raises:
            UserError: if there is none, naming those that there are.
        """
        return self._named("column", self.columns, name)

    def _named(self, kind: str, items: tuple, name: str):
        for item in items:
            if item.name == name:
                return item
        known = " ".join(item.name for item in items)
        raise UserError(f"{self.name} has no {kind} {name}; its {kind}s are: {known}")

    def cells(self) -> list[Cell]:
        """All cells that have a place in the table, row by row.

        A row has a cell in a column if the paper reports a number there, or if the row
        reports none at all (a row of one's own).
        """
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
        """The number that the paper reports."""
        return self.row.paper.get(self.column.name)

    @property
    def score(self) -> str:
        """Which of its run's scores stands in it."""
        return self.row.scores.get(self.column.name, self.column.score)

    @property
    def planned(self) -> str | None:
        """What lacks for measuring it; None if nothing does."""
        owner = self.owner
        return self.row.planned or self.column.planned or (None if owner is self else owner.planned)

    @property
    def trainable(self) -> bool:
        """Whether its run can be made, even if its own number cannot be measured."""
        return not (self.row.cited or self.owner.row.planned or self.owner.column.planned)

    @cached_property
    def owner(self) -> Cell:
        """The cell whose run gives this number: itself, or the one that ``run`` names.

        Raises:
            UserError: if that does not exist.
        """
        if self.row.run is not None:
            table, _, row = self.row.run.rpartition("/")
            try:
                other = load_table(table, self.table.configs)
                return Cell(other, other.row(row), other.column(self.column.run)).owner
            except UserError as error:
                place = self.table.configs / self.table.name / f"{self.row.name}.yaml"
                raise UserError(f"{place}: run: {self.row.run}: {error}") from None
        if self.column.run != self.column.name:
            return Cell(self.table, self.row, self.table.column(self.column.run)).owner
        return self

    @property
    def run_name(self) -> str:
        """``paper/table/row/column`` of the run that gives this number."""
        owner = self.owner
        return f"{owner.table.name}/{owner.row.name}/{owner.column.name}"

    def settings(self, profile: Profile) -> Settings:
        """The settings of its run.

        From below: the table's, the files that row and column extend, the profile, and what
        row and column say themselves.  That is what the table is about, so no profile scales
        it away.

        Raises:
            UserError: if they are not complete.
        """
        owner = self.owner
        row, column = owner.row.layer, owner.column.layer
        raw = owner.table.layer.merged
        for layer in (row.shared, column.shared, profile.settings, row.own, column.own):
            raw = merge(raw, layer)
        return resolve(raw, self.run_name)


def table_names(configs: Path) -> list[str]:
    """The names (``paper/table``) of all tables."""
    return sorted(
        f"{path.parent.parent.name}/{path.parent.name}" for path in configs.glob("*/*/table.yaml")
    )


def load_table(name: str, configs: Path) -> Table:
    """Read ``configs/<paper>/<table>/``.

    Raises:
        UserError: if there is none, or a file of it is wrong.
    """
    folder = configs / name
    if name.count("/") != 1 or not (folder / "table.yaml").is_file():
        known = "\n  ".join(table_names(configs))
        raise UserError(f"{name}: there is no such table in {configs}. There are:\n  {known}")
    path = folder / "table.yaml"
    content = read_mapping(path, TABLE_KEYS)
    for key in ("title", "columns", "rows"):
        if key not in content:
            raise UserError(f"{path}: no {key}")
    columns = tuple(
        _column(key, value or {}, configs, f"{path}: columns: {key}")
        for key, value in content["columns"].items()
    )
    rows = tuple(
        _row(folder / f"{row}.yaml", [c.name for c in columns], configs) for row in content["rows"]
    )
    listed = {f"{row}.yaml" for row in content["rows"]} | {"table.yaml"}
    stray = sorted(p.name for p in folder.glob("*.yaml") if p.name not in listed)
    if stray:
        raise UserError(f"{path}: rows does not list {', '.join(stray)}")
    table = Table(
        name=name,
        title=content["title"],
        baseline=content.get("baseline"),
        columns=columns,
        rows=rows,
        transposed=bool(content.get("transposed")),
        notes=content.get("notes", ""),
        claims=tuple(_claim(item, str(path)) for item in content.get("claims", ())),
        layer=load_layer(content, configs, str(path)),
        configs=configs,
    )
    if table.transposed and any(column.curve for column in columns):
        raise UserError(f"{path}: transposed: a curve has a line a checkpoint, not a line a column")
    for column in table.columns:
        base = table.baseline_cell(column)
        if base is not None and (base.column.group, base.column.cut) != (column.group, column.cut):
            raise UserError(
                f"{path}: columns: {column.name}: the baseline's column of this name is not of the "
                "same sentences (source-words, cut)"
            )
    for cell in (Cell(table, row, column) for row in rows for column in columns):
        views = cell.column.group is not None or cell.column.cut
        if views and not _of_translations(cell.score):
            raise UserError(
                f"{folder / cell.row.name}.yaml: scores: {cell.column.name}: only scores of a "
                "whole translation can have source-words or cut"
            )
    return table


def _claim(content: dict, where: str) -> Claim:
    check_keys(content, CLAIM_KEYS, f"{where}: claims")
    lacking = [key for key in CLAIM_KEYS if key not in content]
    if lacking:
        raise UserError(f"{where}: claims: no {', '.join(lacking)}")
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
        layer=load_layer(content, configs, where),
    )
    if column.run != name and column.layer.merged:
        raise UserError(
            f"{where}: a column that takes the runs of {column.run} has no settings of its own"
        )
    views = {"source-words": column.group is not None, "cut": column.cut}
    for key in (key for key, wanted in views.items() if wanted):
        if column.curve or not _of_translations(column.score):
            raise UserError(f"{where}: {key}: only scores of a whole translation can have it")
    if column.curve and column.score.startswith(LENGTH_RATIO):
        raise UserError(f"{where}: curve: checkpoints have no {column.score}")
    return column


def _of_translations(score: str) -> bool:
    """Whether a score is one of translations; what follows its dot is a test set."""
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


def _row(path: Path, columns: list[str], configs: Path) -> Row:
    content = read_mapping(path, ROW_KEYS)
    paper = content.get("paper", {})
    scores = content.get("scores", {})
    for key, named in {"paper": paper, "scores": scores}.items():
        stray = [column for column in named if column not in columns]
        if stray:
            raise UserError(f"{path}: {key}: the table has no column {', '.join(stray)}")
    layer = load_layer(content, configs, str(path))
    run = content.get("run")
    if run is not None and (layer.merged or content.get("cited")):
        raise UserError(f"{path}: a row that takes the run of {run} has no settings of its own")
    return Row(
        name=path.stem,
        system=content.get("system", ""),
        paper=paper,
        scores=scores,
        run=run,
        cited=bool(content.get("cited")),
        planned=content.get("planned"),
        layer=layer,
    )
