"""Printing a table: for the terminal, as Markdown, as CSV, or as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import asdict
from statistics import fmean

from tabulate import tabulate

from ..scoring.combining import Combined
from .comparison import Comparison, Line, Section, Verdict

STALE = "†"


def as_terminal(comparison: Comparison) -> str:
    """For people at a terminal."""
    return _document(comparison, heading=str, fmt="simple", claims=_claims_as_grid)


def as_markdown(comparison: Comparison) -> str:
    """For a document."""
    return _document(
        comparison, heading=lambda text: f"### {text}", fmt="github", claims=_claims_as_sentences
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


def as_json(comparison: Comparison) -> str:
    """All there is, claims and their intervals included."""
    return json.dumps(asdict(comparison), indent=1, ensure_ascii=False) + "\n"


FORMATS: dict[str, Callable[[Comparison], str]] = {
    "terminal": as_terminal,
    "markdown": as_markdown,
    "csv": as_csv,
    "json": as_json,
}


def paper_difference(section: Section, line: Line) -> float | None:
    """The paper's number less its baseline's."""
    base = section.baseline
    if base is None or base == line or base.paper is None or line.paper is None:
        return None
    return line.paper - base.paper


def our_difference(section: Section, line: Line) -> float | None:
    """Our number less our baseline's, over the seeds that both have."""
    base = section.baseline
    if base is None or base == line or base.ours is None or line.ours is None:
        return None
    seeds = shared_seeds(section, line)
    # Another point of a curve differs by that as well.
    if not seeds or base.at != line.at:
        return None
    ours, theirs = (
        dict(zip(one.seeds, one.by_seed, strict=True)) for one in (line.ours, base.ours)
    )
    return fmean(ours[seed] - theirs[seed] for seed in seeds)


def shared_seeds(section: Section, line: Line) -> list[int]:
    """The seeds of a measured line that its measured baseline has as well."""
    return [seed for seed in line.ours.seeds if seed in section.baseline.ours.seeds]


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
        blocks.append(_transposed(comparison.sections, fmt))
        blocks += _footnotes(*comparison.sections)
    else:
        for section in comparison.sections:
            if comparison.columns > 1:
                blocks.append(f"{section.title}:")
            show = _curves(section, fmt) if section.curve else _grid(comparison, section, fmt)
            blocks += [show, *_footnotes(section)]
    if comparison.verdicts:
        blocks += ["Claims:", *claims(comparison.verdicts), HOW_JUDGED]
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


def _grid(comparison: Comparison, section: Section, fmt: str) -> str:
    columns: list[tuple[str, Callable[[Line], str]]] = [
        ("row", lambda line: line.row),
        ("system", lambda line: line.system),
        ("paper", lambda line: _number(line.paper)),
        ("ours", _ours),
    ]
    if comparison.is_papers:
        columns.append(("ours - paper", lambda line: _signed(_from_paper(line))))
    if section.baseline is not None:
        name = section.baseline.row
        columns += [
            (f"paper - {name}", lambda line: _signed(paper_difference(section, line))),
            (f"ours - {name}", lambda line: _difference(section, line)),
            ("p", lambda line: _p(line)),
        ]
    columns.append(("seeds", _seeds))
    rows = [[show(line) for _, show in columns] for line in section.lines]
    headers = [title for title, _ in columns]
    return tabulate(rows, headers, tablefmt=fmt, disable_numparse=True)


def _curves(section: Section, fmt: str) -> str:
    """A line for each checkpoint, a column for each row that has them."""
    curves: dict[str, dict[int, Line]] = {}
    for line in section.lines:
        curves.setdefault(f"{line.row}: {line.system}".removesuffix(": "), {})[line.at] = line
    points = sorted({at for curve in curves.values() for at in curve if at is not None})
    rows = [
        [at, *(_ours(curve[at]) if at in curve else "" for curve in curves.values())]
        for at in points
    ]
    lacking = [next(iter(curve.values())).why_not for curve in curves.values()]
    if any(lacking):
        rows.append(["", *lacking])
    return tabulate(rows, ["updates", *curves], tablefmt=fmt, disable_numparse=True)


def _transposed(sections: tuple[Section, ...], fmt: str) -> str:
    """A line for each column of the table, with what its rows have there."""
    names = dict.fromkeys((line.row, line.system) for s in sections for line in s.lines)
    reported = {line.row for s in sections for line in s.lines if line.paper is not None}
    headers = [""]
    for row, system in names:
        who = system or row
        headers += [f"paper: {who}", f"ours: {who}"] if row in reported else [who]
    rows = []
    for section in sections:
        lines = {line.row: line for line in section.lines}
        cells = [section.title]
        for row, _ in names:
            line = lines.get(row)
            cells += [_number(line and line.paper)] if row in reported else []
            cells.append(_ours(line) if line else "")
        rows.append(cells)
    return tabulate(rows, headers, tablefmt=fmt, disable_numparse=True)


HOW_JUDGED = (
    "Differences of BLEU; in brackets the 95 % interval by resampling the test set, the same "
    "sentences for all systems. Held: all of it is above zero, and every seed; did not hold: both "
    "below. The interval knows nothing of how much trainings with other seeds would differ."
)


def _claims_as_grid(verdicts: tuple[Verdict, ...]) -> list[str]:
    """What became of the paper's claims."""
    rows = [
        [
            one.claim,
            _signed(one.paper),
            _with_interval(one.ours) if one.ours else "",
            _by_seed(one),
            one.verdict + (STALE if one.stale else ""),
        ]
        for one in verdicts
    ]
    headers = ["claim", "paper", "ours (95 %)", "by seed", ""]
    return [tabulate(rows, headers, tablefmt="simple", disable_numparse=True)]


def _claims_as_sentences(verdicts: tuple[Verdict, ...]) -> list[str]:
    """The same, a sentence each."""
    sentences = []
    for one in verdicts:
        stale = f"{STALE} (a run is not up to date)" if one.stale else ""
        sentence = f"- **{one.verdict[0].upper()}{one.verdict[1:]}**{stale}: {one.claim}"
        told = [
            *([f"ours {_with_interval(one.ours)}, {_by_seed(one)}"] if one.ours else []),
            *([f"paper {_signed(one.paper)}{_outside(one)}"] if one.paper is not None else []),
        ]
        sentences.append(f"{sentence}: {'; '.join(told)}." if told else f"{sentence}.")
    return ["\n".join(sentences)]


def _by_seed(one: Verdict) -> str:
    """The sum of each seed, and the seeds that have none."""
    told = [f"seed {seed}: {value:+.2f}" for seed, value in one.by_seed.items()]
    if one.lacking and told:
        told.append(f"not all runs with seed {', '.join(map(str, one.lacking))}")
    return ", ".join(told)


def _outside(one: Verdict) -> str:
    """Where the paper's sum is, if it is not within our interval."""
    if one.ours is None or one.ours.low <= one.paper <= one.ours.high:
        return ""
    return f" ({'above' if one.paper > one.ours.high else 'below'} our interval)"


def _with_interval(sum_of_ours: Combined) -> str:
    ours = sum_of_ours
    return f"{ours.value:+.2f} ({ours.low:+.2f} to {ours.high:+.2f})"


def _footnotes(*sections: Section) -> list[str]:
    """What the numbers of one grid are, and what is to be known of them."""
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
        how = {
            "seeds": "over seeds (Student's t)",
            "test set": "by resampling the test set (bootstrap), with fewer than three seeds",
        }
        notes.append(f"± is half the 95 % interval, {'; '.join(how[over] for over in overs)}.")
    if any(ours.p_values for ours in measured):
        notes.append("p: paired bootstrap against the baseline's run of the same seed, by seed.")
    stale = [line for line in lines if line.ours.stale]
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


def _difference(section: Section, line: Line) -> str:
    difference = our_difference(section, line)
    if difference is None:
        return ""
    base, seeds = section.baseline.ours.seeds, shared_seeds(section, line)
    alone = {tuple(seeds)} != {base, line.ours.seeds}
    return _signed(difference) + (f" (seed {' '.join(map(str, seeds))})" if alone else "")


def _seeds(line: Line) -> str:
    """How many, and the number of each."""
    if line.ours is None:
        return ""
    count = len(line.ours.seeds)
    return str(count) if count == 1 else f"{count}: {' '.join(map(_number, line.ours.by_seed))}"


def _p(line: Line) -> str:
    return " ".join(f"{p:.3f}" for p in line.ours.p_values) if line.ours else ""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.2f}"


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
