"""Is an alignment error rate better than another, or was it these sentences?  By bootstrap.

Sentences are drawn with replacement as often as there are, the same ones for all systems, and the
rate of each draw is computed anew from its counts.  Interval and p-value are those of sacrebleu for
BLEU (see :mod:`..scoring.significance`), to stand beside them, but for details that matter to so
coarse a number: a draw that differs just as much counts as chance, and quantiles are interpolated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .error_rate import Counts

SAMPLES = 1000
SEED = 12345


def interval(systems: Sequence[Sequence[Counts]], samples: int = SAMPLES) -> float | None:
    """Half the width of the 95 % interval of systems' mean error rate; None if it has none.

    Args:
        systems: the counts of each sentence, the same sentences for all; one system, or the seeds
            of one.
        samples: how many draws.
    """
    rates = _draws(systems, samples)
    if rates is None:
        return None
    low, high = np.quantile(rates.mean(axis=0), (0.025, 0.975))
    return float(high - low) / 2


def p_value(
    counts: Sequence[Counts], baseline: Sequence[Counts], samples: int = SAMPLES
) -> float | None:
    """How likely a difference as large as this one (to either side) would be if there were none.

    Args:
        counts: of each sentence.
        baseline: of the same sentences, aligned by another system.
        samples: how many draws.

    Returns:
        (c + 1) / (samples + 1), of which c draws differ from their mean difference by no less
        than the systems differ (Riezler & Maxwell 2005); None if a rate is undefined.
    """
    rates = _draws([counts, baseline], samples)
    if rates is None:
        return None
    ours, theirs = (sum(side, start=Counts()).aer for side in (counts, baseline))
    differences = rates[0] - rates[1]
    by_chance = np.abs(differences - differences.mean()) >= abs(ours - theirs)
    return (int(by_chance.sum()) + 1) / (samples + 1)


def _draws(systems: Sequence[Sequence[Counts]], samples: int) -> np.ndarray | None:
    """The error rates of each system on the same draws, ``[systems, samples]``."""
    found, size = (
        np.array([[part(one) for one in counts] for counts in systems], dtype=float)
        for part in (
            lambda one: one.sure_found + one.possible_found,
            lambda one: one.links + one.sure,
        )
    )
    sentences = found.shape[1]
    if sentences < 2:
        return None
    chosen = np.random.default_rng(SEED).integers(sentences, size=(samples, sentences))
    sizes = size[:, chosen].sum(axis=-1)
    if not sizes.all():
        return None
    return 100 - 100 * found[:, chosen].sum(axis=-1) / sizes
