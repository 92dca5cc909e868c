"""Sums and differences of several systems' scores, and how sure they are.

Whether one system loses less than another when something is taken away is a difference of two
differences.  Its interval is that of the bootstrap (see ``significance.py``): the same sentences
are drawn for all systems, and the sum is computed anew from each draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .metrics import build_metric, check_parallel
from .significance import SAMPLES, SEED


@dataclass(frozen=True)
class Combined:
    """A sum of scores with factors.

    Attributes:
        value: on the test set itself.
        low, high: the ends of its 95 % interval.
    """

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
    """Add up scores of one test set.

    Args:
        metric_name: one of :data:`.metrics.METRICS`.
        terms: factor and translations of each system, as text.
        references: parallel to all of them.
        target_lang: two or three letters, lower case.
        lowercase: ignore case.
        samples: number of resampled test sets.

    Raises:
        UserError: if the lists are not of one length, or the metric cannot be built.
    """
    check_parallel({f"term {n}": lines for n, (_, lines) in enumerate(terms, 1)}, references)
    metric = build_metric(metric_name, target_lang, lowercase)
    prepared = metric.prepare(references)
    drawn = np.random.default_rng(SEED).integers(len(references), size=(samples, len(references)))
    value, draws = 0.0, np.zeros(samples)
    for factor, lines in terms:
        # sacrebleu compares two systems and no more, so this goes to what its own test is made of.
        counts = np.array(
            metric.bleu._extract_corpus_statistics(metric.prepare(lines), [prepared]), dtype=float
        )
        value += factor * _score(metric, counts.sum(axis=0))
        draws += [factor * _score(metric, counts[chosen].sum(axis=0)) for chosen in drawn]
    low, high = np.quantile(draws, (0.025, 0.975))
    return Combined(value, float(low), float(high))


def _score(metric, counts: np.ndarray) -> float:
    return metric.bleu._compute_score_from_stats(counts.tolist()).score
