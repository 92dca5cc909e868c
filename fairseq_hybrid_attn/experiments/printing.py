"""Printing a table: for the terminal, as Markdown, or as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

from tabulate import tabulate

from .claims import judge
from .comparing import Line, Section
from .planning import Plan

STALE = "†"


def as_terminal(plan: Plan, sections: list[Section]) -> str:
    """For people at a terminal."""
    return _document(plan, sections, heading=str, fmt="simple")


def as_markdown(plan: Plan, sections: list[Section]) -> str:
    """For a document."""
    return _document(plan, sections, heading=lambda text: f"### {text}", fmt="github")


def as_csv(plan: Plan, sections: list[Section]) -> str:
    """For programs: a line a cell, empty where there is no number."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(
        "table row column label system at score paper ours interval interval_over seeds "
        "paper_difference our_difference p_values parameters updates signature state".split()
    )
    for section in sections:
        for line in section.lines:
            ours = line.ours
            writer.writerow(
                [
                    plan.table.name,
                    line.row,
                    section.column.name,
                    plan.workspace.label,
                    line.system,
                    "" if line.at is None else line.at,
                    ours.score if ours else section.column.score,
                    _plain(line.paper),
                    _plain(ours and ours.value),
                    _plain(ours and ours.interval),
                    ours.over if ours and ours.interval is not None else "",
                    " ".join(map(str, ours.seeds)) if ours else "",
                    _plain(paper_difference(section, line)),
                    _plain(our_difference(section, line)),
                    " ".join(f"{p:.4f}" for p in ours.p_values) if ours else "",
                    ours.parameters if ours else "",
                    f"{ours.updates:.0f}" if ours else "",
                    ours.signature if ours else "",
                    (ours.stale or "done") if ours else line.why_not,
                ]
            )
    return file.getvalue()


FORMATS: dict[str, Callable[[Plan, list[Section]], str]] = {
    "terminal": as_terminal,
    "markdown": as_markdown,
    "csv": as_csv,
}


def paper_difference(section: Section, line: Line) -> float | None:
    """The paper's number less its baseline's."""
    base = section.baseline
    if base is None or base is line or base.paper is None or line.paper is None:
        return None
    return line.paper - base.paper


def our_difference(section: Section, line: Line) -> float | None:
    """Our number less our baseline's, over the same seeds."""
    base = section.baseline
    if base is None or base is line or base.ours is None or line.ours is None:
        return None
    # Means over other seeds, or other points of a curve, differ by that as well.
    if (base.ours.seeds, base.at) != (line.ours.seeds, line.at):
        return None
    return line.ours.value - base.ours.value


def _document(plan: Plan, sections: list[Section], heading: Callable[[str], str], fmt: str) -> str:
    blocks = [heading(plan.table.title)]
    workspace = plan.workspace
    if not workspace.is_papers:
        text = f"own text {workspace.own.folder.resolve().name}" if workspace.own else "its corpus"
        blocks.append(
            f"Profile {workspace.profile.name} on {text}: levels cannot be compared with the "
            "paper's; differences between rows can."
        )
    for section in sections:
        if len(plan.table.columns) > 1:
            blocks.append(f"{section.column.title}:")
        blocks.append(_grid(plan, section, fmt))
        blocks += _footnotes(section)
    blocks += _verdicts(plan, fmt)
    if plan.table.notes:
        blocks.append(f"Note: {' '.join(plan.table.notes.split())}")
    return "\n\n".join(blocks) + "\n"


def _grid(plan: Plan, section: Section, fmt: str) -> str:
    columns: list[tuple[str, Callable[[Line], str]]] = [
        ("row", lambda line: line.row),
        ("system", lambda line: line.system),
        *([("updates", lambda line: _count(line.at))] if section.column.curve else []),
        ("paper", lambda line: _number(line.paper)),
        ("ours", _ours),
    ]
    if plan.workspace.is_papers:
        columns.append(("ours - paper", lambda line: _signed(_from_paper(line))))
    if section.baseline is not None:
        name = section.baseline.row
        columns += [
            (f"paper - {name}", lambda line: _signed(paper_difference(section, line))),
            (f"ours - {name}", lambda line: _signed(our_difference(section, line))),
            ("p", lambda line: _p(line)),
        ]
    columns.append(("seeds", lambda line: str(len(line.ours.seeds)) if line.ours else ""))
    rows = [[show(line) for _, show in columns] for line in section.lines]
    headers = [title for title, _ in columns]
    return tabulate(rows, headers, tablefmt=fmt, disable_numparse=True)


def _verdicts(plan: Plan, fmt: str) -> list[str]:
    """What became of the paper's claims, if the table has any."""
    rows = [
        [
            one.claim,
            _signed(one.paper),
            f"{one.ours.value:+.2f} ({one.ours.low:+.2f} to {one.ours.high:+.2f})"
            if one.ours
            else "",
            " ".join(f"{value:+.2f}" for value in one.by_seed),
            one.verdict,
        ]
        for one in judge(plan)
    ]
    if not rows:
        return []
    headers = ["claim", "paper", "ours (95 %)", "by seed", ""]
    grid = tabulate(rows, headers, tablefmt=fmt, disable_numparse=True)
    how = (
        "Differences of BLEU; in brackets the interval by resampling the test set, the same "
        "sentences for all systems. Held: all of it is above zero, and every seed; did not hold: "
        "all below."
    )
    return ["Claims:", grid, how]


def _footnotes(section: Section) -> list[str]:
    measured = [line.ours for line in section.lines if line.ours]
    notes = []
    for score, signature in dict.fromkeys((ours.score, ours.signature) for ours in measured):
        notes.append(f"{score}: {signature}")
    overs = sorted({ours.over for ours in measured if ours.interval is not None})
    if overs:
        how = {
            "seeds": "over seeds (Student's t)",
            "test set": "by resampling the test set (bootstrap), where there is one seed",
        }
        notes.append(f"± is half the 95 % interval, {'; '.join(how[over] for over in overs)}.")
    if any(ours.p_values for ours in measured):
        notes.append("p: paired bootstrap against the baseline's run of the same seed, by seed.")
    stale = [line for line in section.lines if line.ours and line.ours.stale]
    notes += dict.fromkeys(f"{STALE} {line.row}: {line.ours.stale}" for line in stale)
    return ["\n".join(notes)] if notes else []


def _ours(line: Line) -> str:
    ours = line.ours
    if ours is None:
        return line.why_not
    interval = "" if ours.interval is None else f" ± {ours.interval:.2f}"
    return f"{ours.value:.2f}{interval}{STALE if ours.stale else ''}"


def _from_paper(line: Line) -> float | None:
    return None if line.ours is None or line.paper is None else line.ours.value - line.paper


def _p(line: Line) -> str:
    return " ".join(f"{p:.3f}" for p in line.ours.p_values) if line.ours else ""


def _count(value: int | None) -> str:
    return "" if value is None else str(value)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.2f}"


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
