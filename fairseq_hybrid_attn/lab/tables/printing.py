"""A table's numbers as output: for a terminal, as Markdown, as CSV, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict

from ..files.tabular import Grid
from ..scores.counts import SAMPLES
from .claims import HOW_JUDGED, in_words
from .grids import curves_grid, rows_grid, transposed_grid
from .numbers import STALE, Line, RankAgreement, Section, TableNumbers

HALF = (
    "± is half the 95 % interval: over seeds (Student's t) where there are three or more; a second "
    "±, or one of fewer seeds: over sentences (bootstrap), which does not cover how much other "
    "trainings differ."
)
P_VALUES = (
    f"p, for each seed: two-sided paired bootstrap ({SAMPLES:,} draws, so {1 / (SAMPLES + 1):.3f} "
    "at least) against the baseline's run of the same seed; -: that is not there, or of another "
    "text. Differences are taken before rounding."
)


def as_terminal(numbers: TableNumbers) -> str:
    return _page(numbers, numbers.title, Grid.terminal)


def as_markdown(numbers: TableNumbers) -> str:
    return _page(numbers, f"# {numbers.title} (`{numbers.table}`)", Grid.markdown)


def _page(numbers: TableNumbers, title: str, shown: Callable[[Grid], str]) -> str:
    """A grid for each column, notes on all of them, and the claims."""
    blocks = [title, *_scale(numbers)]
    if numbers.transposed:
        blocks.append(shown(transposed_grid(numbers.sections)))
    for section in () if numbers.transposed else numbers.sections:
        blocks += [f"{section.title}:"] * (numbers.columns > 1)
        blocks.append(shown(curves_grid(section) if section.curve else rows_grid(section)))
    blocks.append("\n".join(f"- {note}" for note in _footnotes(numbers.sections)))
    if numbers.verdicts:
        claims = "\n".join(map(in_words, numbers.verdicts))
        blocks += ["Claims:", claims, HOW_JUDGED]
    if numbers.made_by:
        blocks.append(f"Its runs differ in {numbers.made_by}.")
    if numbers.not_used:
        blocks.append(f"Not used: {'; '.join(numbers.not_used)}.")
    if numbers.notes:
        blocks.append(f"Note: {numbers.notes}")
    return "\n\n".join(filter(None, blocks)) + "\n"


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
        "over_seeds": _digits(has.get("over_seeds")),
        "over_sentences": _digits(has.get("over_sentences")),
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


def _scale(numbers: TableNumbers) -> list[str]:
    """A sentence on what the numbers are of, unless they are at the papers' scale."""
    if numbers.is_papers:
        return []
    text = f"another text ({numbers.text})" if numbers.text else "its corpus"
    # The full profile leaves a table's own sizes as they are.
    scale = "On" if numbers.profile == "full" else f"Profile {numbers.profile} on"
    if not any(section.has_paper for section in numbers.sections):
        return [f"{scale} {text}."]
    compared = "levels cannot be compared with the paper's; differences between rows can."
    return [f"{scale} {text}: {compared}"]


def _digits(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _footnotes(sections: tuple[Section, ...]) -> list[str]:
    """How numbers were computed, and which of them are not up to date."""
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
    if any(ours.interval is not None for ours in measured):
        notes.append(HALF)
    if any(ours.p_values for ours in measured):
        notes.append(P_VALUES)
    notes += [_rank(one, among) for one in sections for among in one.ranks]
    notes += _whose_seeds(sections)
    lines += [s.baseline for s in sections if s.baseline and s.baseline not in lines]
    stale = [line for line in lines if line.ours and line.ours.stale]
    notes += dict.fromkeys(f"{STALE} {line.row}: {line.ours.stale}" for line in stale)
    return notes


def _rank(section: Section, among: str) -> str:
    rank = section.ranks[among]
    return (
        f"Order of {among}, {section.title}: Spearman's rank correlation of the paper's numbers "
        f"and ours is {_interval(rank)}; {rank.rows} rows, {_seeds(rank)}."
    )


def _seeds(rank: RankAgreement) -> str:
    return f"seed{'s' * (len(rank.seeds) > 1)} {' '.join(map(str, rank.seeds))}"


def _interval(rank: RankAgreement) -> str:
    if rank.low is None:
        return f"{rank.value:.2f}"
    ends = f"{rank.low:.2f} to {rank.high:.2f}"
    return f"{rank.value:.2f}, 95 % interval {ends} over sentences (bootstrap)"


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
