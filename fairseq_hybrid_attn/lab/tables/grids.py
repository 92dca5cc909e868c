"""A table's numbers as grids of text."""

from __future__ import annotations

from collections.abc import Callable

from ..files.tabular import Grid
from ..scores import LENGTH_RATIO
from .numbers import STALE, Line, Section


def rows_grid(section: Section) -> Grid:
    """A line for each row: the paper's number, ours, and both beside the baseline.

    Ours minus the paper's is not shown: it means nothing on another text.
    """
    columns: dict[str, Callable[[Line], str]] = {
        "row": lambda line: line.row,
        "system": lambda line: line.system,
        "paper": lambda line: _number(line.paper, section.score),
        "ours": _ours,
    }
    if not section.has_paper:
        del columns["paper"]
    if section.baseline is not None:
        name = section.baseline.row
        if section.has_paper:
            columns[f"paper - {name}"] = lambda line: _paper_difference(section, line)
        columns |= {f"ours - {name}": lambda line: _difference(section, line), "p": _p_values}
    columns["seeds"] = _seeds
    rows = [[show(line) for show in columns.values()] for line in section.lines]
    return Grid(list(columns), rows, left=2)


def curves_grid(section: Section) -> Grid:
    """A line for each checkpoint, a column for each row that has them."""
    curves: dict[str, dict[int | None, Line]] = {}
    for line in section.lines:
        curves.setdefault(f"{line.row}: {line.system}".removesuffix(": "), {})[line.at] = line
    points = sorted({at for curve in curves.values() for at in curve if at is not None})
    rows: list[list] = [
        [at, *(_ours(curve[at]) if at in curve else "" for curve in curves.values())]
        for at in points
    ]
    why_not = [next(iter(curve.values())).why_not for curve in curves.values()]
    if any(why_not):
        rows.append(["", *why_not])
    return Grid(["updates", *curves], rows, left=0)


def transposed_grid(sections: tuple[Section, ...]) -> Grid:
    """A line for each column of the table, with the numbers of its rows."""
    names = dict.fromkeys((line.row, line.system) for s in sections for line in s.lines)
    reported = {line.row for s in sections for line in s.lines if line.paper is not None}
    headings = [""]
    for row, system in names:
        who = system or row
        headings += [f"paper: {who}", f"ours: {who}"] if row in reported else [who]
    rows = []
    for section in sections:
        lines = {line.row: line for line in section.lines}
        cells = [section.title]
        for row, _ in names:
            line = lines.get(row)
            cells += [_number(line and line.paper, section.score)] if row in reported else []
            cells.append(_ours(line) if line else "")
        rows.append(cells)
    return Grid(headings, rows, left=1)


def _ours(line: Line) -> str:
    ours = line.ours
    if ours is None:
        return line.why_not
    intervals = [half for half in (ours.over_seeds, ours.over_sentences) if half is not None]
    interval = "".join(f" ± {_number(half, ours.score)}" for half in intervals)
    return f"{_number(ours.value, ours.score)}{interval}{STALE * bool(ours.stale)}"


def _difference(section: Section, line: Line) -> str:
    difference = section.our_difference(line)
    if difference is None:
        return ""
    base, seeds = section.baseline.ours.seeds, section.shared_seeds(line)
    alone = {tuple(seeds)} != {base, line.ours.seeds}
    seed = f" (seed {' '.join(map(str, seeds))})" if alone else ""
    return _signed(difference, section.score) + seed


def _paper_difference(section: Section, line: Line) -> str:
    return _signed(section.paper_difference(line), section.score)


def _seeds(line: Line) -> str:
    """How many, and the number of each."""
    if line.ours is None:
        return ""
    count = len(line.ours.seeds)
    by_seed = (_number(value, line.ours.score) for value in line.ours.by_seed)
    return str(count) if count == 1 else f"{count}: {' '.join(by_seed)}"


def _p_values(line: Line) -> str:
    p_values = line.ours.p_values if line.ours else ()
    return " ".join("-" if p is None else f"{p:.3f}" for p in p_values)


def _number(value: float | None, score: str = "", sign: str = "") -> str:
    """Two decimals; three of a length ratio, which is close to 1."""
    digits = 3 if score.startswith(LENGTH_RATIO) else 2
    return "" if value is None else f"{value:{sign}.{digits}f}"


def _signed(value: float | None, score: str = "") -> str:
    return _number(value, score, "+")
