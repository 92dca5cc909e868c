"""Systems trained on one text, beside the first of them: scores, differences, size and time.

An interval is over seeds and sentences together.  A mean over n seeds varies by the variance of
the seeds' scores over n, and by the variance of the mean over draws of the sentences (the
bootstrap, see ``scores/counts.py``).  Both are added, and Student's t has Satterthwaite's degrees
of freedom (1946): with two seeds that differ, few.  Of one seed, there is only the second.  A
difference is taken within each seed and each draw.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, variance

import numpy as np
from scipy.stats import t as student

from ...errors import UserError
from ..config.paper_tables import Cell
from ..files.tabular import Grid
from ..runs.dry_run import hours
from ..runs.plan import Plan
from ..runs.workspace import Run
from ..scores.counts import SAMPLES, SentenceCounts, mean_drawn
from .measuring import state_of
from .numbers import STALE
from .stored_runs import StoredRuns

#: BLEU below which a difference says nothing.
LOW = 5.0
WHY_LOW = (
    f"BLEU below {LOW:g}: hardly a phrase of four words is right, so a difference tells how long "
    "translations are and how common their words, not which system translates better. Train "
    "longer, or on more text."
)


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds, with the half of its 95 % interval and the p that it is not zero.

    None: the sentences cannot be resampled, or the value is no difference.
    """

    value: float
    by_seed: dict[int, float]
    half: float | None = None
    p: float | None = None

    @property
    def ends(self) -> str:
        if self.half is None:
            return ""
        return f" ({self.value - self.half:+.2f} to {self.value + self.half:+.2f})"


def estimate(by_seed: Mapping[int, float], drawn: np.ndarray | None, sentences: int) -> Estimate:
    """The mean over seeds; ``drawn``: its value for each draw of the sentences, ``[SAMPLES]``."""
    values = list(by_seed.values())
    value, count = fmean(values), len(values)
    if drawn is None:
        return Estimate(value, dict(by_seed))
    of_seeds = variance(values) / count if count > 1 else 0.0
    of_sentences = float(np.var(drawn, ddof=1))
    total = of_seeds + of_sentences
    if total == 0:  # the same translations
        return Estimate(value, dict(by_seed), 0.0, 1.0)
    freedom = total**2 / (of_seeds**2 / max(1, count - 1) + of_sentences**2 / max(1, sentences - 1))
    spread = math.sqrt(total)
    half = float(student.ppf(0.975, freedom)) * spread
    return Estimate(value, dict(by_seed), half, 2 * float(student.sf(abs(value) / spread, freedom)))


@dataclass(frozen=True)
class SystemNumbers:
    """A system's numbers, by score (``bleu``); without any, ``state`` says why."""

    system: str
    state: str
    seeds: tuple[int, ...] = ()
    scores: dict[str, Estimate] = field(default_factory=dict)
    differences: dict[str, Estimate] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)
    parameters: int | None = None
    updates: float | None = None
    training_seconds: float | None = None


@dataclass(frozen=True)
class Comparison:
    """Systems, the first of which is the one that others are compared with."""

    text: str
    profile: str
    titles: Mapping[str, str]  # of the scores
    systems: tuple[SystemNumbers, ...]
    made_by: str

    def terminal(self) -> str:
        return self._page(Grid.terminal)

    def written(self, ending: str) -> str:
        """The content of a file that ends in .md, .csv or .json."""
        match ending:
            case ".csv":
                return Grid.of([self._record(system) for system in self.systems]).csv()
            case ".json":
                content = {**asdict(self), "notes": self.notes}
                return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        return self._page(Grid.markdown)

    def _page(self, shown) -> str:
        head = f"Systems trained on {self.text}, profile {self.profile}"
        notes = "\n".join(f"- {note}" for note in self.notes)
        return f"{head}\n\n{shown(self._grid())}\n\n{notes}\n"

    def _grid(self) -> Grid:
        first, *others = self.systems
        headings = ["system"]
        for title in self.titles.values():
            headings += [title, f"{title} - {first.system}", "p"] if others else [title]
        headings += ["seeds", "parameters", "training"]
        rows = []
        for system in self.systems:
            cells = [system.system]
            for score in self.titles:
                cells += _shown(system, score) if others else _shown(system, score)[:1]
            stale = STALE if system.seeds and system.state != "done" else ""
            time = system.training_seconds
            cells += [
                " ".join(map(str, system.seeds)) + stale,
                "" if system.parameters is None else f"{system.parameters / 1e6:.2f} M",
                "" if time is None else hours(time),
            ]
            rows.append(cells)
        return Grid(headings, rows, left=1)

    def _record(self, system: SystemNumbers) -> dict[str, object]:
        record: dict[str, object] = {"system": system.system, "text": self.text}
        record |= {"profile": self.profile, "seeds": " ".join(map(str, system.seeds))}
        for score in self.titles:
            for name, estimates in (
                (score, system.scores),
                (f"{score}_difference", system.differences),
            ):
                found = estimates.get(score)
                by_seed = found.by_seed.values() if found else ()
                record[name] = found and found.value
                record[f"{name}_half"] = found and found.half
                record[f"{name}_by_seed"] = " ".join(f"{value:.4f}" for value in by_seed)
            record[f"{score}_p"] = found and found.p  # of the difference
            record[f"{score}_signature"] = system.signatures.get(score)
        record |= {"parameters": system.parameters, "updates": system.updates}
        return record | {"training_seconds": system.training_seconds, "state": system.state}

    @property
    def notes(self) -> list[str]:
        measured = [system for system in self.systems if system.seeds]
        notes = list(
            dict.fromkeys(
                f"{self.titles[score]}: {signature}" + "; lower is better" * (score == "ter")
                for system in measured
                for score, signature in system.signatures.items()
            )
        )
        if any(len(system.seeds) == 1 for system in measured):
            notes.append(
                "Of one seed, intervals and p are over sentences alone: how much trainings differ "
                "is not in them. Use --seeds 3 or more."
            )
        if any(len(system.seeds) == 2 for system in measured):
            notes.append("Of two seeds that differ much, intervals are too narrow. Use --seeds 3.")
        if measured:
            notes.append(
                f"±, and in brackets: 95 % intervals over seeds (Student's t) and sentences "
                f"(bootstrap, {SAMPLES:,} draws) together, and p of the difference, two-sided; not "
                "corrected for the number of systems. Differences are of the same seeds."
            )
        if any("bleu" in s.scores and s.scores["bleu"].value < LOW for s in measured):
            notes.append(WHY_LOW)
        stale = [system for system in measured if system.state != "done"]
        notes += [f"{STALE} {system.system}: {system.state}" for system in stale]
        if self.made_by:
            notes.append(f"Its runs differ in {self.made_by}.")
        return notes


def _shown(system: SystemNumbers, score: str) -> list[str]:
    if score not in system.scores:
        return [system.state, "", ""]
    level = system.scores[score]
    interval = "" if level.half is None else f" ± {level.half:.2f}"
    cells = [f"{level.value:.2f}{interval}"]
    if score not in system.differences:
        return [*cells, "", ""]
    difference = system.differences[score]
    p = "" if difference.p is None else f"{difference.p:.3f}"
    return [*cells, f"{difference.value:+.2f}{difference.ends}", p]


def compared(plan: Plan) -> Comparison:
    """The comparison of a table of your own systems, of the runs that are done."""
    stored = StoredRuns(plan)
    cells: dict[str, list[Cell]] = {}
    for cell in plan.cells:
        cells.setdefault(cell.row.name, []).append(cell)
    first, *others = [(of_row, _counts(stored, of_row)) for of_row in cells.values()]
    systems = [_measured(stored, *first, None)]
    systems += [_measured(stored, *other, first[1]) for other in others]
    place = plan.workspace
    return Comparison(
        text=place.own.name if place.own else "",
        profile=place.profile.name,
        titles={
            column.score: column.title
            for column in plan.table.columns
            if not any(s.seeds for s in systems) or any(column.score in s.scores for s in systems)
        },
        systems=tuple(systems),
        made_by=stored.made_by(),
    )


#: Score -> seed -> what it is computed from.
Counts = dict[str, dict[int, SentenceCounts]]


def _counts(stored: StoredRuns, cells: Sequence[Cell]) -> Counts:
    return {
        cell.score: {
            run.seed: counts
            for run, result in stored.of_cell(cell)
            if cell.score in result["scores"] and (counts := _of_sentences(stored, run, cell.score))
        }
        for cell in cells
    }


def _of_sentences(stored: StoredRuns, run: Run, score: str) -> SentenceCounts:
    if (counts := stored.counts(run, score)) is None:
        raise UserError(f"{run.name}: the counts of its sentences are gone; --redo makes them")
    return counts


def _measured(
    stored: StoredRuns, cells: Sequence[Cell], counts: Counts, first: Counts | None
) -> SystemNumbers:
    """A system's numbers, and their differences from those of the ``first``, if it is another."""
    name, done = cells[0].row.system, stored.of_cell(cells[0])
    if not done:
        return SystemNumbers(name, state_of(stored.runs(cells[0])))
    levels, differences, signatures = {}, {}, {}
    for score, of_seeds in counts.items():
        if not of_seeds:  # TER of Chinese, Japanese and Korean
            continue
        drawn, sentences = (
            mean_drawn(list(of_seeds.values())),
            len(next(iter(of_seeds.values())).rows),
        )
        values = {seed: counts.value for seed, counts in of_seeds.items()}
        levels[score] = estimate(values, drawn, sentences)
        signatures[score] = "; ".join(dict.fromkeys(c.signature for c in of_seeds.values()))
        theirs = first.get(score, {}) if first else {}
        both = [seed for seed in of_seeds if seed in theirs]
        if not both or len({c[seed].origin for c in (of_seeds, theirs) for seed in both}) > 1:
            continue
        ours, base = (mean_drawn([c[seed] for seed in both]) for c in (of_seeds, theirs))
        drawn = None if ours is None or base is None else ours - base
        values = {seed: of_seeds[seed].value - theirs[seed].value for seed in both}
        differences[score] = estimate(values, drawn, sentences)
    results = [result for _, result in done]
    return SystemNumbers(
        name,
        stored.changed(cells[0]) or "done",
        tuple(run.seed for run, _ in done),
        levels,
        differences,
        signatures,
        results[0]["parameters"],
        fmean(result["updates"] for result in results),
        fmean(result["training_seconds"] for result in results),
    )
