"""The stored runs of a plan: their results, and the counts behind their scores."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...errors import UserError
from ..config.paper_tables import Cell
from ..files.provenance import differences
from ..runs.plan import Plan
from ..runs.results import read_result
from ..runs.run_counts import RunCounts, read_counts
from ..runs.status import changes
from ..runs.workspace import Run
from ..scores import Group
from ..scores.counts import SentenceCounts

#: Scores of a result and of its counts that differ by more are of different translations.
VISIBLE = 0.005


@dataclass(frozen=True)
class StoredRuns:
    """The runs of a plan, each of whose files is read once."""

    plan: Plan
    _results: dict[str, dict | None] = field(default_factory=dict)
    _counts: dict[str, RunCounts] = field(default_factory=dict)
    _of_scores: dict[tuple, SentenceCounts | None] = field(default_factory=dict)

    def result(self, run: Run) -> dict | None:
        if run.name not in self._results:
            self._results[run.name] = read_result(run.folder.result)
        return self._results[run.name]

    def runs(self, cell: Cell) -> list[Run]:
        """The run of each seed that gives a cell's number."""
        return [self.plan.workspace.run(cell, seed) for seed in self.plan.seeds]

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
        counts, stored = self._of_scores[run.name, score, None, None], self.result(run)["scores"]
        if counts is None or score not in stored:
            return
        value = stored[score]["value"]
        if not abs(value - counts.value) < VISIBLE:
            raise UserError(
                f"{run.name}: its result says {value:.2f}, but its counts {counts.value:.2f}; if "
                f"{run.folder.result} was changed, do the run again"
            )

    def score(self, cell: Cell, has: dict[str, dict]) -> str:
        """The score that a cell shows of a run that ``has`` these.

        A BLEU of the paper may not exist for the language of the user's text; sacrebleu's stands
        for it.
        """
        metric, dot, test_set = cell.score.partition(".")
        if self.plan.workspace.own is None or cell.score in has or not metric.endswith("bleu"):
            return cell.score
        return f"bleu{dot}{test_set}"

    def changed(self, cell: Cell) -> str:
        """What has changed since a cell's runs were made, for display; "" if nothing."""
        found = {changes(run, result["identity"]) for run, result in self.of_cell(cell)}
        return "; ".join(f"{parts} changed" for parts in sorted(found - {""}))

    def made_by(self) -> str:
        """How the runs that were read differ in code and versions; empty if they do not."""
        return differences(filter(None, self._results.values()))
