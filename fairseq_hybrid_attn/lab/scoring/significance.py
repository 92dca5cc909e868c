"""Is a system better than a baseline, or was it this test set?  By bootstrap resampling.

Both are sacrebleu's: sentences are drawn with replacement as often as there are, the same ones
for both systems, and the score of each draw is computed anew (Koehn 2004).  Beyond
sacrebleu's command line, the metric may be any of ours: what is resampled is what it scores.

This is the uncertainty that comes from the choice of the test sentences.  How much a score varies
between trainings with other seeds, it cannot tell.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sacrebleu.significance import PairedTest, Result

from ...errors import UserError
from .metrics import Metric, build_metric, check_parallel

SAMPLES = 1000

#: sacrebleu's own default, so that its command line gives the same numbers.
SEED = 12345


@dataclass(frozen=True)
class Comparison:
    """A system's score on resampled test sets.

    Args:
        value: its score on the test set itself.
        mean: its mean score over the samples.
        interval: half the width of the 95 % interval: mean ± interval.
        p_value: how likely a difference from the baseline as large as this one (to
            either side) would be if there were none; None if there is no baseline.
        samples: number of resampled test sets.
        seed: of the random numbers.
        signature: how it was computed.
    """

    value: float
    mean: float
    interval: float
    p_value: float | None
    samples: int
    seed: int
    signature: str


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
    """Compare systems with a baseline.

    Args:
        metric_name: one of :data:`.metrics.METRICS`.
        baseline: translations of the baseline, as text.
        systems: translations of each system, by its name.
        references: parallel to all of them.
        target_lang: two or three letters, lower case.
        lowercase: ignore case.
        samples: number of resampled test sets.
        kytea_model: see :func:`.metrics.build_metric`.

    Returns:
        each system's comparison, by its name.

    Raises:
        UserError: if the lists are not of one length or too short, the number of samples
            makes no sense, or the metric cannot be built.
    """
    check_parallel({"the baseline": baseline, **systems}, references)
    metric = build_metric(metric_name, target_lang, lowercase, kytea_model)
    base, *others = _resample(metric, [baseline, *systems.values()], references, samples)
    comparisons = {}
    for name, result in zip(systems, others, strict=True):
        p_value = result.p_value
        # If no sample tells two systems apart, sacrebleu counts no chance event and gives the
        # smallest p there is, that of the clearest difference.  There is none.
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
    """The 95 % interval of one system's score; arguments as of :func:`paired_bootstrap`.

    Raises:
        UserError: as :func:`paired_bootstrap`.
    """
    check_parallel({"translations": translations}, references)
    metric = build_metric(metric_name, target_lang, lowercase, kytea_model)
    (result,) = _resample(metric, [translations], references, samples)
    return _comparison(metric, result, None, samples)


def _resample(
    metric: Metric, systems: list[list[str]], references: list[str], samples: int
) -> list[Result]:
    """sacrebleu's results, the first system being the baseline."""
    if samples < 1:
        raise UserError(f"{samples} samples: use 1 or more")
    if len(references) < 2:
        raise UserError("one sentence cannot be resampled: bootstrap needs a test set")
    named = [(str(number), metric.prepare(lines)) for number, lines in enumerate(systems)]
    with _seed(SEED):
        test = PairedTest(
            named, {"BLEU": metric.bleu}, [metric.prepare(references)], "bs", n_samples=samples
        )
        _, results = test()
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


@contextmanager
def _seed(seed: int) -> Iterator[None]:
    """sacrebleu takes its seed from the environment and from nowhere else."""
    name = "SACREBLEU_SEED"
    before = os.environ.get(name)
    os.environ[name] = str(seed)
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
