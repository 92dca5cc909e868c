"""Is a system better than a baseline, or is the difference due to this test set?

The answer is sacrebleu's paired bootstrap (Koehn 2004), here for all our metrics.  It draws as
many sentences as there are, with replacement, the same ones for all systems, and scores each draw.

Its p compares sizes: the share of draws whose absolute difference is above the mean absolute one by
more than the systems' own.  It is about half of a two-sided p if nearly all draws agree on the
sign, less otherwise, and about 0.4 for systems that do not differ.

The interval covers the choice of the test sentences, not the choice of the training's seed.
"""

from __future__ import annotations

import os
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from sacrebleu.significance import PairedTest, Result

from ...errors import UserError
from .metrics import Metric, build_metric, check_parallel

SAMPLES = 1000
SEED = 12345  # sacrebleu's default, so that its command line gives the same numbers
QUANTILES = (0.025, 0.975)  # the ends of a 95 % interval, as shares of the draws


class Comparison(NamedTuple):
    """A system's score on resampled test sets."""

    value: float  # its score on the test set itself
    mean: float  # its mean score over the samples
    interval: float  # half the width of the 95 % interval: mean ± interval
    p_value: float | None  # sacrebleu's, of the difference from the baseline


def paired_bootstrap(
    metric_name: str,
    baseline: list[str],
    systems: dict[str, list[str]],
    references: list[str],
    target_lang: str,
    lowercase: bool = False,
    samples: int = SAMPLES,
) -> dict[str, Comparison]:
    """Compare systems, by name, with a baseline; all are text, parallel to the references."""
    check_parallel({"the baseline": baseline, **systems}, references)
    metric = build_metric(metric_name, target_lang, lowercase)
    base, *others = _resample(metric, [baseline, *systems.values()], references, samples)
    comparisons = {}
    for name, result in zip(systems, others, strict=True):
        p_value = result.p_value
        # For scores that are equal in all samples, sacrebleu gives the smallest p, as for the
        # clearest difference.
        if result.score == base.score and p_value == 1 / (samples + 1):
            p_value = 1.0
        comparisons[name] = _comparison(result, p_value)
    return comparisons


def confidence_interval(
    metric_name: str,
    translations: list[str],
    references: list[str],
    target_lang: str,
    lowercase: bool = False,
    samples: int = SAMPLES,
) -> Comparison:
    check_parallel({"translations": translations}, references)
    metric = build_metric(metric_name, target_lang, lowercase)
    (result,) = _resample(metric, [translations], references, samples)
    return _comparison(result, None)


def _resample(
    metric: Metric, systems: list[list[str]], references: list[str], samples: int
) -> list[Result]:
    """Return sacrebleu's results; the first system is the baseline."""
    if samples < 1:
        raise UserError(f"{samples} samples: use 1 or more")
    if len(references) < 2:
        raise UserError("one sentence cannot be resampled: bootstrap needs a test set")
    named = [(str(number), metric.prepare(lines)) for number, lines in enumerate(systems)]
    prepared = [metric.prepare(references)]
    with patch.dict(os.environ, SACREBLEU_SEED=str(SEED)):  # sacrebleu has no other way
        _, results = PairedTest(named, {"BLEU": metric.bleu}, prepared, "bs", n_samples=samples)()
    return results["BLEU"]


def _comparison(result: Result, p_value: float | None) -> Comparison:
    return Comparison(float(result.score), float(result.mean), float(result.ci), p_value)


def draw(sentences: int, samples: int) -> np.ndarray:
    """Draw the sentences of resampled test sets, ``[samples, sentences]``, counted from 0."""
    return np.random.default_rng(SEED).integers(sentences, size=(samples, sentences))


def over_draws(
    metric_name: str,
    translations: list[str],
    references: list[str],
    target_lang: str,
    lowercase: bool = False,
    samples: int = SAMPLES,
) -> np.ndarray:
    """Scores of a system on resampled test sets, ``[samples]``; all systems have the same draws.

    Sums of scores, means over seeds and the order of systems are resampled by computing them for
    each draw.  sacrebleu's public functions compare no more than two systems.
    """
    metric = build_metric(metric_name, target_lang, lowercase)
    sums = drawn_counts(metric, translations, references, samples)
    return np.array([metric.bleu._compute_score_from_stats(one.tolist()).score for one in sums])


def drawn_counts(
    metric: Metric, translations: list[str], references: list[str], samples: int = SAMPLES
) -> np.ndarray:
    """What BLEU is computed from on resampled test sets, ``[samples, 2 + 8]``.

    Words of the translations and of the references, then n-grams of length 1 to 4: correct, all.
    """
    check_parallel({"translations": translations}, references)
    counts = metric.bleu._extract_corpus_statistics(
        metric.prepare(translations), [metric.prepare(references)]
    )
    drawn = draw(len(references), samples)
    times = np.array([np.bincount(one, minlength=len(references)) for one in drawn], float)
    return times @ np.array(counts, float)


def ends(drawn: np.ndarray) -> tuple[float, float]:
    """The ends of the 95 % interval of a number, given its values over the draws."""
    low, high = np.quantile(drawn, QUANTILES)
    return float(low), float(high)
