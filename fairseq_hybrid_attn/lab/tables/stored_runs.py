"""The stored runs of a plan: their results, and the counts behind their scores."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...errors import UserError
from ..config.paper_tables import AER, Cell
from ..files.provenance import differences
from ..plan.plan import Plan
from ..run.results import read_result
from ..run.run_scores import RunCounts, read_counts
from ..run.status import State, changes, status
from ..run.workspace import Run
from ..scores import NAMES, Group
from ..scores.counts import Score, SentenceCounts

#: Scores of a result and of its counts that differ by more are of different translations.
VISIBLE = 0.005


@dataclass(frozen=True)
class StoredRuns:
    """The runs of a plan, each of whose files is read once."""

    plan: Plan
    _runs: dict[tuple[str, str, str], list[Run]] = field(default_factory=dict)
    _results: dict[str, dict | None] = field(default_factory=dict)
    _counts: dict[str, RunCounts] = field(default_factory=dict)
    _of_scores: dict[tuple, SentenceCounts | None] = field(default_factory=dict)

    def result(self, run: Run) -> dict | None:
        if run.name not in self._results:
            self._results[run.name] = read_result(run.folder.result)
        return self._results[run.name]

    def runs(self, cell: Cell) -> list[Run]:
        """The run of each seed that gives a cell's number."""
        name = cell.table.name, cell.row.name, cell.column.name
        if name not in self._runs:
            self._runs[name] = [self.plan.workspace.run(cell, seed) for seed in self.plan.seeds]
        return self._runs[name]

    def of_cell(self, cell: Cell) -> list[tuple[Run, dict]]:
        """The runs of a cell that have a result, with it."""
        results = [(run, self.result(run)) for run in self.runs(cell)]
        return [(run, result) for run, result in results if result is not None]

    def counts(
        self, run: Run, score: str, group: Group | None = None, at: int | None = None
    ) -> SentenceCounts | None:
        """The counts behind a score of a run, or of a point of its curve; None if there are none.

        They are checked against the result, if this has the score.
        """
        key = run.name, score, group, at
        if key not in self._of_scores:
            if run.name not in self._counts:
                self._counts[run.name] = read_counts(run.folder.counts)
            counts = self._counts[run.name]
            if at is not None:
                counts = counts.curve.get(at, RunCounts())
            self._of_scores[key] = counts.of(score, group)
            if at is None and group is None:
                self._check(run, score)
        return self._of_scores[key]

    def _check(self, run: Run, score: str) -> None:
        counts = self._of_scores[run.name, score, None, None]
        stored = (self.result(run) or {"scores": {}})["scores"]
        if counts is None or score not in stored:
            return
        value = stored[score]["value"]
        if not abs(value - counts.value) < VISIBLE:
            raise UserError(
                f"{run.name}: its result says {value:.2f}, but its counts {counts.value:.2f}; if "
                f"{run.folder.result} was changed, do the run again"
            )

    def scores(self, cell: Cell) -> tuple[str, dict[int | None, dict[int, Score]]]:
        """Which score a cell shows, and that of each seed, under None; a UserError says why not.

        Of a curve, under the updates at which all seeds have it.
        """
        done = [(run, _points(cell, result)) for run, result in self.of_cell(cell)]
        if not done:
            raise UserError(self.state(cell))
        common = [at for at in done[0][1] if all(at in points for _, points in done)]
        if not common:
            raise UserError("its runs have no checkpoint in common")
        name = self.score_name(cell, done[0][1][common[-1]])
        complete = [at for at in common if all(name in points[at] for _, points in done)]
        return name, {
            at: {run.seed: self._score(cell, run, points[at], name, at) for run, points in done}
            for at in complete or common
        }

    def _score(self, cell: Cell, run: Run, has: dict, name: str, at: int | None) -> Score:
        group = cell.column.group
        counts = self.counts(run, name, group, at)
        if group is not None:
            if counts is None:
                raise UserError("the counts of its sentences are not here")
            if not len(counts.rows):
                raise UserError("no such sentences")
            how = f"{counts.signature}|source:{group}|sentences:{len(counts.rows)}"
            return Score(counts.value, how, counts)
        if name in has:
            return replace(Score.of_dict(has[name]), counts=counts)
        metric, _, test_set = name.partition(".")
        if metric == AER and (self.result(run) or {})["corpus"].get("gold") is None:
            raise UserError("its text has no gold alignment")
        if test_set and metric in NAMES:
            raise UserError(f"its text has no test set {test_set}")
        raise UserError(f"{run.name} has no {name}")

    def score_name(self, cell: Cell, has: dict[str, dict]) -> str:
        """The score that a cell shows of a run that ``has`` these.

        A BLEU of the paper may not exist for the language of the user's text; sacrebleu's stands
        for it.
        """
        metric, dot, test_set = cell.score.partition(".")
        if self.plan.workspace.own is None or cell.score in has or not metric.endswith("bleu"):
            return cell.score
        return f"bleu{dot}{test_set}"

    def state(self, cell: Cell) -> str:
        """How far the runs of a cell are of which none has a result."""
        for run in self.runs(cell):
            if run.folder.path.exists() and (state := status(run)).state is not State.NOT_BEGUN:
                return f"seed {run.seed}: {state}"
        return "not run"

    def changed(self, cell: Cell) -> str:
        """What has changed since a cell's runs were made, for display; "" if nothing."""
        found = {changes(run, result) for run, result in self.of_cell(cell)}
        return "; ".join(f"{parts} changed" for parts in sorted(found - {""}))

    def made_by(self) -> str:
        """How the runs that were read differ in code and versions; empty if they do not."""
        return differences(filter(None, self._results.values()))


def _points(cell: Cell, result: dict) -> dict[int | None, dict[str, dict]]:
    """The stored scores of a run, under None, or those of its curve by updates."""
    if not cell.column.curve:
        return {None: result["scores"]}
    points = {point["updates"]: point["scores"] for point in result.get("curve", ())}
    if not points:
        raise UserError("its run has no curve")
    return dict(sorted(points.items()))
