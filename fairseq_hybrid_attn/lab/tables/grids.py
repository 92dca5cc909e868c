"""The grids of a printed table: rows beside the baseline, curves, or a line a column."""

from __future__ import annotations

from collections.abc import Callable

from ..files.tabular import Grid
from ..scoring.significance import SAMPLES
from .numbers import Line, Section, TableNumbers

#: Marks what is not up to date.
STALE = "†"

INTERVALS = {
    "seeds": "over seeds (Student's t)",
    "test set": "by resampling the test set (bootstrap), with fewer than three seeds; it does not "
    "cover how much other trainings would differ",
}


def rows_grid(numbers: TableNumbers, section: Section) -> Grid:
    """A line for each row: the paper's number, ours, and both beside the baseline."""
    columns: dict[str, Callable[[Line], str]] = {
        "row": lambda line: line.row,
        "system": lambda line: line.system,
        "paper": lambda line: _number(line.paper),
        "ours": _ours,
    }
    if numbers.is_papers:
        columns["ours - paper"] = lambda line: (
            signed(line.ours.value - line.paper) if line.ours and line.paper is not None else ""
        )
    if section.baseline is not None:
        name = section.baseline.row
        columns |= {
            f"paper - {name}": lambda line: signed(section.paper_difference(line)),
            f"ours - {name}": lambda line: _difference(section, line),
            "p": _p_values,
        }
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
            cells += [_number(line and line.paper)] if row in reported else []
            cells.append(_ours(line) if line else "")
        rows.append(cells)
    return Grid(headings, rows, left=1)


def footnotes(*sections: Section) -> list[str]:
    """How the numbers of one grid were computed, and which of them are not up to date."""
    lines = [line for section in sections for line in section.measured]
    measured = [line.ours for line in lines]
    notes = []
    by_signature: dict[str, dict[str, None]] = {}
    for ours in measured:
        by_signature.setdefault(ours.signature, {})[ours.score] = None
    for signature, scores in by_signature.items():
        names = list(scores)
        told = ", ".join(names) if len(names) < 4 else f"{names[0]} to {names[-1]}"
        notes.append(f"{told}: {signature}")
    overs = sorted({ours.over for ours in measured if ours.interval is not None})
    if overs:
        notes.append(f"± is half the 95 % interval, {'; '.join(map(INTERVALS.get, overs))}.")
    if any(ours.p_values for ours in measured):
        how = f"paired bootstrap ({SAMPLES:,} draws)"
        notes.append(f"p, for each seed: {how} against the baseline's run of the same seed.")
    notes += _whose_seeds(sections)
    lines += [s.baseline for s in sections if s.baseline and s.baseline not in lines]
    stale = [line for line in lines if line.ours and line.ours.stale]
    notes += dict.fromkeys(f"{STALE} {line.row}: {line.ours.stale}" for line in stale)
    return ["\n".join(notes)] if notes else []


def _whose_seeds(sections: tuple[Section, ...]) -> list[str]:
    """The seeds that numbers are means of; where they differ, those of each row and column."""
    rows: dict[str, dict[str, list[str]]] = {}
    for section in sections:
        for line in section.measured:
            by_seeds = rows.setdefault(line.row, {})
            by_seeds.setdefault(" ".join(map(str, line.ours.seeds)), []).append(section.title)
    whose: dict[str, list[str]] = {}
    for row, by_seeds in rows.items():
        for seeds, titles in by_seeds.items():
            who = row if len(by_seeds) == 1 else f"{row}: {', '.join(titles)}"
            whose.setdefault(seeds, []).append(who)
    if len(whose) == 1:
        return [f"Seeds: {next(iter(whose))}."]
    told = "; ".join(f"{seeds} ({'; '.join(who)})" for seeds, who in whose.items())
    return [f"Seeds: {told}."] if whose else []


def _ours(line: Line) -> str:
    ours = line.ours
    if ours is None:
        return line.why_not
    interval = "" if ours.interval is None else f" ± {ours.interval:.2f}"
    return f"{ours.value:.2f}{interval}{STALE if ours.stale else ''}"


def _difference(section: Section, line: Line) -> str:
    difference = section.our_difference(line)
    if difference is None:
        return ""
    base, seeds = section.baseline.ours.seeds, section.shared_seeds(line)
    alone = {tuple(seeds)} != {base, line.ours.seeds}
    return signed(difference) + (f" (seed {' '.join(map(str, seeds))})" if alone else "")


def _seeds(line: Line) -> str:
    """How many, and the number of each."""
    if line.ours is None:
        return ""
    count = len(line.ours.seeds)
    return str(count) if count == 1 else f"{count}: {' '.join(map(_number, line.ours.by_seed))}"


def _p_values(line: Line) -> str:
    p_values = line.ours.p_values if line.ours else ()
    return " ".join("-" if p is None else f"{p:.3f}" for p in p_values)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.2f}"
