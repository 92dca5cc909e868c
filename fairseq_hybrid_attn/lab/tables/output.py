"""A table's numbers as output: for a terminal, as Markdown, as CSV, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict

from ..files.tabular import Grid
from .claims import HOW_JUDGED, in_words
from .grids import curves_grid, footnotes, rows_grid, transposed_grid
from .numbers import Line, Section, TableNumbers


def as_terminal(numbers: TableNumbers) -> str:
    return _text(numbers, numbers.title, Grid.terminal, emphasis="")


def as_markdown(numbers: TableNumbers) -> str:
    return _text(numbers, f"### {numbers.title}", Grid.markdown, emphasis="**")


def as_csv(numbers: TableNumbers) -> str:
    """For programs: a line a cell, empty where there is no number."""
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
        "state": (ours.stale or "done") if ours else line.why_not,
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
        blocks.append(
            f"{scale} {text}: levels cannot be compared with the paper's; differences between "
            "rows can."
        )
    if numbers.transposed:
        blocks += [show(transposed_grid(numbers.sections)), *footnotes(*numbers.sections)]
    else:
        for section in numbers.sections:
            if numbers.columns > 1:
                blocks.append(f"{section.title}:")
            grid = curves_grid(section) if section.curve else rows_grid(numbers, section)
            blocks += [show(grid), *footnotes(section)]
    if numbers.verdicts:
        verdicts = [in_words(verdict, emphasis) for verdict in numbers.verdicts]
        blocks += ["Claims:", "\n".join(verdicts), HOW_JUDGED]
    if numbers.notes:
        blocks.append(f"Note: {numbers.notes}")
    return "\n\n".join(blocks) + "\n"


def _digits(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
