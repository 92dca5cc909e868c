"""Sums and differences of several systems' scores, with intervals.

Whether one system loses less than another when something is taken away is a difference of two
differences.  Its interval comes from the bootstrap of ``significance.py``: the same sentences
are drawn for all systems, and the sum is computed for each draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .metrics import build_metric, check_parallel
from .significance import QUANTILES, SAMPLES, draw


@dataclass(frozen=True)
class Combined:
    """A weighted sum of scores, with the ends of its 95 % interval."""

    value: float
    low: float
    high: float


def combined(
    metric_name: str,
    terms: Sequence[tuple[float, list[str]]],
    references: list[str],
    target_lang: str,
    lowercase: bool = False,
    samples: int = SAMPLES,
) -> Combined:
    """Add up scores of one test set; ``terms`` are weights and translations of systems."""
    check_parallel({f"term {n}": lines for n, (_, lines) in enumerate(terms, 1)}, references)
    metric = build_metric(metric_name, target_lang, lowercase)
    prepared = metric.prepare(references)
    drawn = draw(len(references), samples)
    value, sums = 0.0, np.zeros(samples)
    for weight, lines in terms:
        # sacrebleu's public functions compare no more than two systems.
        counts = np.array(
            metric.bleu._extract_corpus_statistics(metric.prepare(lines), [prepared]), dtype=float
        )
        value += weight * _score(metric, counts.sum(axis=0))
        sums += [weight * _score(metric, counts[chosen].sum(axis=0)) for chosen in drawn]
    low, high = np.quantile(sums, QUANTILES)
    return Combined(value, float(low), float(high))


def _score(metric, counts: np.ndarray) -> float:
    return metric.bleu._compute_score_from_stats(counts.tolist()).score
