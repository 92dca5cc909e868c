"""A table's numbers as output: for a terminal, as Markdown, as CSV, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict

from ..files.tabular import Grid
from ..scoring.significance import SAMPLES
from .claims import HOW_JUDGED, in_words
from .numbers import ACCEPTED, STALE, Line, Section, TableNumbers

INTERVALS = {
    "seeds": "over seeds (Student's t)",
    "test set": "by resampling the test set (bootstrap), with fewer than three seeds; it does not "
    "cover how much other trainings would differ",
}


def as_terminal(numbers: TableNumbers) -> str:
    return _text(numbers, numbers.title, Grid.terminal, emphasis="")


def as_markdown(numbers: TableNumbers) -> str:
    return _text(numbers, f"### {numbers.title}", Grid.markdown, emphasis="**")


def as_csv(numbers: TableNumbers) -> str:
    """For programs: one line per cell, empty where there is no number."""
    cells = [(section, line) for section in numbers.sections for line in section.lines]
    return Grid.of([_record(numbers, section, line) for section, line in cells]).csv()


def _record(numbers: TableNumbers, section: Section, line: Line) -> dict[str, object]:
    ours = line.ours
    has = {} if ours is None else asdict(ours)
    return {
        "table": numbers.table,
        "row": line.row,
        "column": section.name,
        "label": numbers.label,
        "system": line.system,
        "at": line.at,
        "score": has.get("score", section.score),
        "paper": _digits(line.paper),
        "ours": _digits(has.get("value")),
        "interval": _digits(has.get("interval")),
        "interval_over": ours.over if ours and ours.interval is not None else "",
        "seeds": " ".join(map(str, has.get("seeds", ()))),
        "by_seed": " ".join(map(_digits, has.get("by_seed", ()))),
        "paper_difference": _digits(section.paper_difference(line)),
        "our_difference": _digits(section.our_difference(line)),
        "p_values": " ".join(_digits(p) or "-" for p in has.get("p_values", ())),
        "parameters": has.get("parameters"),
        "updates": f"{ours.updates:.0f}" if ours else "",
        "signature": has.get("signature"),
        "state": (ours.stale or ours.accepted or "done") if ours else line.why_not,
    }


def as_json(numbers: TableNumbers) -> str:
    """Everything, including claims and their intervals."""
    return json.dumps(asdict(numbers), indent=1, ensure_ascii=False) + "\n"


FORMATS: dict[str, Callable[[TableNumbers], str]] = {
    "terminal": as_terminal,
    "markdown": as_markdown,
    "csv": as_csv,
    "json": as_json,
}


def _text(numbers: TableNumbers, heading: str, show: Callable[[Grid], str], emphasis: str) -> str:
    blocks = [heading]
    if not numbers.is_papers:
        text = f"another text ({numbers.text})" if numbers.text else "its corpus"
        # The full profile leaves a table's own sizes as they are.
        scale = "On" if numbers.profile == "full" else f"Profile {numbers.profile} on"
        compared = "levels cannot be compared with the paper's; differences between rows can."
        if any(section.has_paper for section in numbers.sections):
            blocks.append(f"{scale} {text}: {compared}")
        else:
            blocks.append(f"{scale} {text}.")
    if numbers.transposed:
        blocks += [show(_transposed_grid(numbers.sections)), *_footnotes(*numbers.sections)]
    else:
        for section in numbers.sections:
            if numbers.columns > 1:
                blocks.append(f"{section.title}:")
            grid = _curves_grid(section) if section.curve else _rows_grid(numbers, section)
            blocks += [show(grid), *_footnotes(section)]
    if numbers.verdicts:
        verdicts = [in_words(verdict, emphasis) for verdict in numbers.verdicts]
        blocks += ["Claims:", "\n".join(verdicts), HOW_JUDGED]
    if numbers.notes:
        blocks.append(f"Note: {numbers.notes}")
    return "\n\n".join(blocks) + "\n"


def _digits(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _rows_grid(numbers: TableNumbers, section: Section) -> Grid:
    """A line for each row: the paper's number, ours, and both beside the baseline."""
    columns: dict[str, Callable[[Line], str]] = {
        "row": lambda line: line.row,
        "system": lambda line: line.system,
        "paper": lambda line: _number(line.paper),
        "ours": _ours,
    }
    if not section.has_paper:
        del columns["paper"]
    elif numbers.is_papers:
        columns["ours - paper"] = lambda line: (
            _signed(line.ours.value - line.paper) if line.ours and line.paper is not None else ""
        )
    if section.baseline is not None:
        name = section.baseline.row
        if section.has_paper:
            columns[f"paper - {name}"] = lambda line: _signed(section.paper_difference(line))
        columns |= {f"ours - {name}": lambda line: _difference(section, line), "p": _p_values}
    columns["seeds"] = _seeds
    rows = [[show(line) for show in columns.values()] for line in section.lines]
    return Grid(list(columns), rows, left=2)


def _curves_grid(section: Section) -> Grid:
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


def _transposed_grid(sections: tuple[Section, ...]) -> Grid:
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


def _footnotes(*sections: Section) -> list[str]:
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
    known = [line for line in lines if line.ours and line.ours.accepted and not line.ours.stale]
    notes += dict.fromkeys(f"{ACCEPTED} {line.row}: {line.ours.accepted}" for line in known)
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
    mark = STALE if ours.stale else ACCEPTED if ours.accepted else ""
    return f"{ours.value:.2f}{interval}{mark}"


def _difference(section: Section, line: Line) -> str:
    difference = section.our_difference(line)
    if difference is None:
        return ""
    base, seeds = section.baseline.ours.seeds, section.shared_seeds(line)
    alone = {tuple(seeds)} != {base, line.ours.seeds}
    return _signed(difference) + (f" (seed {' '.join(map(str, seeds))})" if alone else "")


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


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.2f}"
