"""What is known of runs: in a workspace, or of what was kept of them in ``results/``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..configuration.tables import Cell, Column
from ..runs.plan import Plan
from ..runs.results import read_result
from ..runs.status import State, Status, status
from ..runs.workspace import Run
from .scored_sentences import ScoredSentences, scored_sentences


@dataclass(frozen=True)
class RunResults:
    """The runs of a plan in its workspace, with their translations and alignments."""

    plan: Plan

    def result(self, run: Run) -> dict | None:
        """The run's result; None if it is not done."""
        return read_result(run.folder.result)

    def status(self, run: Run) -> Status:
        """How far the run is."""
        return status(run)

    def sentences(self, run: Run, score: str, column: Column) -> ScoredSentences | None:
        """The sentences behind a score, if they are there."""
        return scored_sentences(run, score, column)

    def runs(self, cell: Cell) -> list[Run]:
        """The run of each seed that gives a cell's number."""
        return [self.plan.workspace.run(cell, seed) for seed in self.plan.seeds]

    def of_cell(self, cell: Cell) -> list[tuple[Run, dict]]:
        """The runs of a cell that have a result, with it."""
        results = [(run, self.result(run)) for run in self.runs(cell)]
        return [(run, result) for run, result in results if result is not None]


@dataclass(frozen=True)
class KeptResults(RunResults):
    """The results that were kept of some runs: no text, and nothing that could be stale."""

    results: Mapping[str, dict]

    def result(self, run: Run) -> dict | None:
        """The run's result, if it was kept."""
        return self.results.get(result_name(run))

    def status(self, run: Run) -> Status:
        """Done or not begun."""
        return Status(State.DONE if self.result(run) else State.NOT_BEGUN)

    def sentences(self, run: Run, score: str, column: Column) -> None:
        """There are none."""


def result_name(run: Run) -> str:
    """``label/paper/table/row/column/seedN``."""
    return f"{run.workspace.label}/{run.name}"
