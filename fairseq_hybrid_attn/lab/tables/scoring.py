"""Scores of translations as numbers of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..config.own_tables import SCORES
from ..corpora.definition import TestSets
from ..scores.metrics import score_sets
from .measuring import TableNumbers, compared, numbers_of, table_of


def score_table(
    title: str,
    metrics: Sequence[Any],  # of ``scores.metrics``, or COMET
    systems: Mapping[str, Sequence[list[str]]],
    references: Sequence[list[str]],
    sets: TestSets,
    baseline: str | None = None,
    pairs: bool = False,
) -> TableNumbers:
    """Score systems, translations of each seed by name, and compare them with the baseline."""
    numbers = []
    for name, of_seeds in systems.items():
        scored = [score_sets(metrics, lines, references, sets) for lines in of_seeds]
        numbers += numbers_of(name, dict(enumerate(scored, 1)))
    labels = {metric.name: SCORES.get(metric.name, metric.label) for metric in metrics}
    titles = {}
    for number in numbers:
        name, _, test_set = number.score.partition(".")
        titles[number.score] = f"{labels[name]}, {test_set}" if test_set else labels[name]
    return compared(table_of(title, titles, numbers), baseline, pairs)
