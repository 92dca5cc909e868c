"""A table's numbers as output: for a terminal, as Markdown, as CSV, or as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ..files.tabular import Grid
from ..files.writing import write_text
from ..run.status import FAILED
from ..run.training_log import duration
from ..scores import digits, lower_is_better
from ..scores.statistics import FEW_SEEDS, HOW, Estimate, p_value
from .measuring import GIVEN, ColumnHead, Number, TableNumbers

#: Marks numbers of runs whose configuration or data have changed since.
STALE = "†"
#: Marks means over seeds of unlike devices, and times that cannot be compared.
UNLIKE = "‡"
#: BLEU below which a difference says nothing.
LOW = 5.0
WHY_LOW = (
    f"BLEU below {LOW:g}: hardly a phrase of four words is right, so a difference tells how long "
    "translations are and how common their words, not which system translates better. Train "
    "longer, or on more text."
)

#: The columns of a grid: a heading, and what it shows of a number.
_Columns = list[tuple[str, Callable[[Number], str]]]


def as_terminal(numbers: TableNumbers) -> str:
    return _page(numbers, numbers.title, Grid.terminal)


def as_markdown(numbers: TableNumbers) -> str:
    return _page(numbers, f"# {numbers.title} (`{numbers.table}`)", Grid.markdown)


def as_csv(numbers: TableNumbers) -> str:
    """For programs: one line per number, empty where there is none."""
    return Grid.of([_record(numbers, one) for one in (*numbers.numbers, *numbers.pairs)]).csv()


def as_json(numbers: TableNumbers, **about: object) -> str:
    """Everything; and what is printed: grids and notes."""
    shown = [
        {"title": title, "headings": grid.headings, "rows": grid.rows, "left": grid.left}
        for title, grid in grids(numbers)
    ]
    printed = {"grids": shown, "notes": [*notes(numbers), numbers.notes]}
    content = {**numbers.as_dict(), **printed, **about}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


_BY_ENDING = {".md": as_markdown, ".csv": as_csv}


def write_table(path: Path, numbers: TableNumbers, **about: object) -> None:
    """Write a .md, .csv or .json; only that has what else is said ``about`` the numbers."""
    ending = path.suffix.lower()
    text = as_json(numbers, **about) if ending == ".json" else _BY_ENDING[ending](numbers)
    write_text(path, text)


def _page(numbers: TableNumbers, title: str, shown: Callable[[Grid], str]) -> str:
    blocks = [title, _scale(numbers)]
    for heading, grid in grids(numbers):
        blocks += [f"{heading}:" if heading else "", shown(grid)]
    blocks.append("\n".join(f"- {note}" for note in notes(numbers)))
    if numbers.notes:
        blocks.append(f"Note: {numbers.notes}")
    return "\n\n".join(filter(None, blocks)) + "\n"


def _scale(numbers: TableNumbers) -> str:
    """What the numbers are of, unless they are at the papers' scale."""
    if numbers.is_papers:
        return ""
    text = f"another text ({numbers.text})" if numbers.text else "its corpus"
    if numbers.is_own:
        return f"Trained on {numbers.text}, profile {numbers.profile}."
    # The full profile leaves a table's own sizes as they are.
    scale = "On" if numbers.profile == "full" else f"Profile {numbers.profile} on"
    if all(number.paper is None for number in numbers.numbers):
        return f"{scale} {text}."
    return f"{scale} {text}: levels cannot be compared with the paper's; differences can."


def grids(numbers: TableNumbers) -> list[tuple[str, Grid]]:
    """The grids of a table, each with a heading, which may be empty.

    One for each column; one for all, of your own systems, or with a line for each column.
    """
    failed = _failures(numbers)
    found = _grids(numbers)
    if by_length := numbers.by_length:
        found.append((by_length.title, by_column(by_length)))
    return [
        (title, replace(grid, rows=[[failed.get(cell, cell) for cell in row] for row in grid.rows]))
        for title, grid in found
    ]


def _failures(numbers: TableNumbers) -> dict[object, str]:
    """By the states of runs that failed, what cells say of them; a note says the rest."""
    states = dict.fromkeys(number.state for number in numbers.numbers if FAILED in number.state)
    return {state: f"failed ({count})" for count, state in enumerate(states, 1)}


def _grids(numbers: TableNumbers) -> list[tuple[str, Grid]]:
    if numbers.transposed:
        return [("", _transposed(numbers))]
    if numbers.is_own:
        pairs = [("Differences of all pairs", _pairs(numbers))] if numbers.pairs else []
        return [("", _together(numbers)), *pairs]
    several = len(numbers.columns) > 1
    return [
        (
            column.title if several else "",
            _curves(numbers.of(column.name)) if column.curve else _rows(numbers, column),
        )
        for column in numbers.columns
    ]


def _compared(numbers: Sequence[Number], column: ColumnHead, name: str) -> _Columns:
    """The paper's number and ours, and both beside the baseline.

    Ours minus the paper's is not shown: it means nothing on another text.
    """
    shown: _Columns = []
    has_paper = any(number.paper is not None for number in numbers)
    if has_paper:
        shown.append(("paper", lambda number: _plain(number.paper)))
    shown.append((name, _ours))
    if column.baseline is not None:
        if has_paper:
            gap = f"paper - {column.baseline}"
            shown.append((gap, lambda number: _plain(number.paper_difference, "+")))
        shown.append((f"{name} - {column.baseline}", lambda number: cells(number)[1]))
        shown.append(("p", lambda number: cells(number)[2]))
    return shown


def _rows(numbers: TableNumbers, column: ColumnHead) -> Grid:
    found = numbers.of(column.name)
    shown: _Columns = [("row", lambda number: number.row), ("system", lambda number: number.system)]
    shown += [*_compared(found, column, "ours"), ("seeds", _by_seed)]
    rows = [[show(number) for _, show in shown] for number in found]
    return Grid([heading for heading, _ in shown], rows, left=2)


def _together(numbers: TableNumbers) -> Grid:
    """A line for each system with all of its scores; a score that none has is left out."""
    headings = ["system"]
    rows: dict[str, list[str]] = {}
    for number in numbers.numbers:
        rows.setdefault(number.row, [number.system])
    has = [c for c in numbers.columns if any(number.ours for number in numbers.of(c.name))]
    for column in has or numbers.columns:
        found = numbers.of(column.name)
        shown = _compared(found, column, column.title)[: None if len(rows) > 1 else 1]
        headings += [heading for heading, _ in shown]
        for number in found:
            rows[number.row] += [show(number) for _, show in shown]
    unlike = _unlike_times(numbers)
    trained = any(number.parameters is not None for number in numbers.numbers)
    several = any(len(number.ours.by_seed) > 1 for number in numbers.numbers if number.ours)
    about = slice(3 if trained else int(several))
    for number in numbers.of(numbers.columns[0].name):
        seeds = " ".join(map(str, number.ours.by_seed)) if number.ours else ""
        size = "" if number.parameters is None else f"{number.parameters / 1e6:.2f} M"
        time = "" if number.training_seconds is None else duration(number.training_seconds)
        time += UNLIKE * (number.row in unlike)
        rows[number.row] += [seeds, size, time][about]
    headings += ["seeds", "parameters", "training"][about]
    return Grid(headings, list(rows.values()), left=1)


def _pairs(numbers: TableNumbers) -> Grid:
    """A line for each pair of systems, with the difference of each score."""
    titles = {column.name: column.title for column in numbers.columns}
    shown = dict.fromkeys(number.column for number in numbers.pairs)
    rows: dict[str, list[str]] = {}
    for number in numbers.pairs:
        rows.setdefault(number.row, [number.row]).extend(cells(number)[1:])
    headings = [heading for column in shown for heading in (titles[column], "p")]
    return Grid(["difference", *headings], list(rows.values()), left=1)


def _unlike_times(numbers: TableNumbers) -> dict[str, str]:
    """What each row was trained on, if times of your systems cannot be compared."""
    found = {n.row: "; ".join(n.trained_on) for n in numbers.measured if n.updates}
    return found if numbers.is_own and len(set(found.values())) > 1 else {}


def _curves(numbers: Sequence[Number]) -> Grid:
    """A line for each checkpoint, a column for each row that has them."""
    curves: dict[str, dict[int | None, Number]] = {}
    for number in numbers:
        name = f"{number.row}: {number.system}".removesuffix(": ")
        curves.setdefault(name, {})[number.at] = number
    rows: list[list] = [
        [at, *(_ours(curve[at]) if at in curve else "" for curve in curves.values())]
        for at in sorted({number.at for number in numbers if number.at is not None})
    ]
    why_not = [curve[None].state if None in curve else "" for curve in curves.values()]
    if any(why_not):
        rows.append(["", *why_not])
    return Grid(["updates", *curves], rows, left=0)


def _transposed(numbers: TableNumbers) -> Grid:
    """A line for each column of the table, with the numbers of its rows."""
    names = dict.fromkeys((number.row, number.system) for number in numbers.numbers)
    reported = {number.row for number in numbers.numbers if number.paper is not None}
    headings = [""]
    for row, system in names:
        who = system or row
        headings += [f"paper: {who}", f"ours: {who}"] if row in reported else [who]
    rows = []
    for column in numbers.columns:
        found = {number.row: number for number in numbers.of(column.name)}
        line = [column.title]
        for row, _ in names:
            number = found.get(row)
            line += [_plain(number.paper if number else None)] if row in reported else []
            line.append(_ours(number) if number else "")
        rows.append(line)
    return Grid(headings, rows, left=1)


def by_column(numbers: TableNumbers) -> Grid:
    """A line for each column, with its sentences; the scores of rows, beside the first one's."""
    first, *others = dict.fromkeys(number.row for number in numbers.numbers)
    headings = [heading for name in others for heading in (name, f"{name} - {first}", "p")]
    rows = []
    for column in numbers.columns:
        found = numbers.of(column.name)
        ours, _, _, *beside = (cell for number in found for cell in cells(number))
        rows.append([column.title, f"{found[0].sentences:,}", ours, *beside])
    return Grid([numbers.label, "sentences", first, *headings], rows, left=1)


def cells(number: Number) -> tuple[str, str, str]:
    """A number of ours, its difference and its p, for display."""
    places, other = digits(number.score), number.difference
    ours = number.ours.text(places) if number.ours else ""
    return (ours, other.signed(places), p_value(other.p)) if other else (ours, "", "")


def _ours(number: Number) -> str:
    if not number.ours:
        return number.state
    return cells(number)[0] + STALE * number.is_stale + UNLIKE * (len(number.trained_on) > 1)


def _by_seed(number: Number) -> str:
    if number.ours is None:
        return ""
    places = digits(number.score)
    return ", ".join(f"{seed}: {value:.{places}f}" for seed, value in number.ours.by_seed.items())


def _plain(value: float | None, sign: str = "") -> str:
    return "" if value is None else f"{value:{sign}.2f}"


def _record(numbers: TableNumbers, number: Number) -> dict[str, object]:
    none = Estimate(math.nan, {})
    ours, other = number.ours or none, number.difference or none
    return {
        "table": numbers.table,
        "row": number.row,
        "column": number.column,
        "label": numbers.label,
        "system": number.system,
        "at": number.at,
        "score": number.score,
        "paper": _digits(number.paper),
        "ours": _digits(ours.value),
        "half": _digits(ours.half),
        "seeds": " ".join(map(str, ours.by_seed)),
        "by_seed": " ".join(map(_digits, ours.by_seed.values())),
        "paper_difference": _digits(number.paper_difference),
        "our_difference": _digits(other.value),
        "difference_half": _digits(other.half),
        "p": _digits(other.p),
        "parameters": number.parameters,
        "updates": "" if number.updates is None else f"{number.updates:.0f}",
        "training_seconds": number.training_seconds,
        "trained_on": "; ".join(number.trained_on),
        "signature": number.signature,
        "state": number.state,
    }


def _digits(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.4f}"


def notes(numbers: TableNumbers) -> list[str]:
    """How numbers were computed, and which of them are not up to date."""
    measured, found = numbers.measured, []
    scores: dict[str, dict[str, None]] = {}
    for number in measured:
        scores.setdefault(number.signature, {})[number.score] = None
    for signature, named in scores.items():
        names = list(named)
        listed = ", ".join(names) if len(names) < 4 else f"{names[0]} to {names[-1]}"
        less = all(map(lower_is_better, names))
        found.append(f"{listed}: {signature}" + "; lower is better" * less)
    if any(number.ours.half is not None for number in measured if number.ours):
        found.append(HOW)
    alone = dict.fromkeys(n.score for n in measured if n.ours and n.ours.covers == "seeds")
    if alone:
        found.append(f"Over seeds alone, since sentences are not resampled: {', '.join(alone)}.")
    if any(number.state == GIVEN for number in measured):
        found.append("Given: made elsewhere, and scored here as the others are.")
    counts = {len(number.ours.by_seed) for number in measured if number.ours}
    found += [note for count, note in FEW_SEEDS.items() if count in counts]
    bleu = [number.ours.value for number in measured if number.ours and number.score == "bleu"]
    if numbers.is_own and any(value < LOW for value in bleu):
        found.append(WHY_LOW)
    for state, cell in _failures(numbers).items():
        found.append(f"{cell.removeprefix('failed ')} {state}")
    stale = [(number.row, number.state) for number in measured if number.is_stale]
    stale += [(c.baseline or "", c.baseline_changed) for c in numbers.columns if c.baseline_changed]
    found += dict.fromkeys(f"{STALE} {row}: {changed}" for row, changed in stale)
    mixed = [(n.row, "; ".join(n.trained_on)) for n in measured if len(n.trained_on) > 1]
    found += dict.fromkeys(f"{UNLIKE} {row}: seeds trained on {on}" for row, on in mixed)
    if times := _unlike_times(numbers):
        trained = "; ".join(f"{row} on {on}" for row, on in times.items())
        found.append(f"{UNLIKE} times are not comparable: {trained}")
    if numbers.by_length and numbers.by_length.notes:
        found.append(numbers.by_length.notes)
    if numbers.made_by:
        found.append(f"Its runs differ in {numbers.made_by}.")
    return found
