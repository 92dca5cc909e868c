"""Printing a table: for the terminal, as Markdown, as CSV, or as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import asdict

from . import claim_texts
from .comparison import Comparison, Verdict
from .grids import curves, footnotes, grid, transposed


def as_terminal(comparison: Comparison) -> str:
    """For people at a terminal."""
    return _document(comparison, heading=str, fmt="simple", claims=claim_texts.as_grid)


def as_markdown(comparison: Comparison) -> str:
    """For a document."""
    return _document(
        comparison,
        heading=lambda text: f"### {text}",
        fmt="github",
        claims=claim_texts.as_sentences,
    )


def as_csv(comparison: Comparison) -> str:
    """For programs: a line a cell, empty where there is no number."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(
        "table row column label system at score paper ours interval interval_over seeds by_seed "
        "paper_difference our_difference p_values parameters updates signature state".split()
    )
    for section in comparison.sections:
        for line in section.lines:
            ours = line.ours
            writer.writerow(
                [
                    comparison.table,
                    line.row,
                    section.name,
                    comparison.label,
                    line.system,
                    "" if line.at is None else line.at,
                    ours.score if ours else section.score,
                    _plain(line.paper),
                    _plain(ours and ours.value),
                    _plain(ours and ours.interval),
                    ours.over if ours and ours.interval is not None else "",
                    " ".join(map(str, ours.seeds)) if ours else "",
                    " ".join(map(_plain, ours.by_seed)) if ours else "",
                    _plain(section.paper_difference(line)),
                    _plain(section.our_difference(line)),
                    " ".join(_plain(p) or "-" for p in ours.p_values) if ours else "",
                    ours.parameters if ours else "",
                    f"{ours.updates:.0f}" if ours else "",
                    ours.signature if ours else "",
                    (ours.stale or "done") if ours else line.why_not,
                ]
            )
    return file.getvalue()


def as_json(comparison: Comparison) -> str:
    """All there is, claims and their intervals included."""
    return json.dumps(asdict(comparison), indent=1, ensure_ascii=False) + "\n"


FORMATS: dict[str, Callable[[Comparison], str]] = {
    "terminal": as_terminal,
    "markdown": as_markdown,
    "csv": as_csv,
    "json": as_json,
}


def _document(
    comparison: Comparison,
    heading: Callable[[str], str],
    fmt: str,
    claims: Callable[[tuple[Verdict, ...]], list[str]],
) -> str:
    blocks = [heading(comparison.title)]
    if not comparison.is_papers:
        blocks.append(
            f"{_scale(comparison)}: levels cannot be compared with the paper's; differences "
            "between rows can."
        )
    if comparison.transposed:
        blocks.append(transposed(comparison.sections, fmt))
        blocks += footnotes(*comparison.sections)
    else:
        for section in comparison.sections:
            if comparison.columns > 1:
                blocks.append(f"{section.title}:")
            show = curves(section, fmt) if section.curve else grid(comparison, section, fmt)
            blocks += [show, *footnotes(section)]
    if comparison.verdicts:
        blocks += ["Claims:", *claims(comparison.verdicts), claim_texts.HOW_JUDGED]
    if comparison.notes:
        blocks.append(f"Note: {comparison.notes}")
    return "\n\n".join(blocks) + "\n"


def _scale(comparison: Comparison) -> str:
    """On what text and at what scale, where it is not the paper's."""
    text = f"own text ({comparison.text})" if comparison.text else "its corpus"
    # The full profile leaves a table's own sizes as they are.
    if comparison.profile == "full":
        return f"On {text}"
    return f"Profile {comparison.profile} on {text}"


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
