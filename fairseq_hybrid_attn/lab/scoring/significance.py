"""Is a system better than a baseline, or is the difference due to this test set?

The answer is sacrebleu's paired bootstrap (Koehn 2004), here for all our metrics.  It draws as
many sentences as there are, with replacement, the same ones for both systems, and scores each draw.

The interval covers the choice of the test sentences, not the choice of the training's seed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
from sacrebleu.significance import PairedTest, Result

from ...errors import UserError
from .metrics import Metric, build_metric, check_parallel

SAMPLES = 1000

#: sacrebleu's default, so that its command line gives the same numbers.
SEED = 12345

#: The ends of a 95 % interval, as shares of the draws.
QUANTILES = (0.025, 0.975)


@dataclass(frozen=True)
class Comparison:
    """A system's score on resampled test sets."""

    value: float  # its score on the test set itself
    mean: float  # its mean score over the samples
    interval: float  # half the width of the 95 % interval: mean ± interval
    p_value: float | None  # of the difference from the baseline, two-sided
    samples: int  # number of resampled test sets
    seed: int
    signature: str  # sacrebleu's


def paired_bootstrap(
    metric_name: str,
    baseline: list[str],
    systems: dict[str, list[str]],
    references: list[str],
    target_lang: str,
    lowercase: bool = False,
    samples: int = SAMPLES,
    kytea_model: Path | None = None,
) -> dict[str, Comparison]:
    """Compare systems, by name, with a baseline; all are text, parallel to the references.

    Metric, language, case and model are for :func:`.metrics.build_metric`.
    """
    check_parallel({"the baseline": baseline, **systems}, references)
    metric = build_metric(metric_name, target_lang, lowercase, kytea_model)
    base, *others = _resample(metric, [baseline, *systems.values()], references, samples)
    comparisons = {}
    for name, result in zip(systems, others, strict=True):
        p_value = result.p_value
        # Of equal scores in all samples, sacrebleu gives the smallest p, that of the clearest
        # difference.
        if result.score == base.score and p_value == 1 / (samples + 1):
            p_value = 1.0
        comparisons[name] = _comparison(metric, result, p_value, samples)
    return comparisons


def confidence_interval(
    metric_name: str,
    translations: list[str],
    references: list[str],
    target_lang: str,
    lowercase: bool = False,
    samples: int = SAMPLES,
    kytea_model: Path | None = None,
) -> Comparison:
    """Return the 95 % interval of one system's score; arguments as of :func:`paired_bootstrap`."""
    check_parallel({"translations": translations}, references)
    metric = build_metric(metric_name, target_lang, lowercase, kytea_model)
    (result,) = _resample(metric, [translations], references, samples)
    return _comparison(metric, result, None, samples)


def draw(sentences: int, samples: int) -> np.ndarray:
    """Draw the sentences of resampled test sets, ``[samples, sentences]``, counted from 0."""
    return np.random.default_rng(SEED).integers(sentences, size=(samples, sentences))


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


def _comparison(metric: Metric, result: Result, p_value: float | None, samples: int) -> Comparison:
    return Comparison(
        value=float(result.score),
        mean=float(result.mean),
        interval=float(result.ci),
        p_value=p_value,
        samples=samples,
        seed=SEED,
        signature=metric.signature(bs=samples, seed=SEED),
    )
