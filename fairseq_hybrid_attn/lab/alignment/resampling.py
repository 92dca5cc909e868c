"""Is an alignment error rate better than another, or is the difference due to these sentences?

Bootstrap resampling answers, as for BLEU (see :mod:`..scoring.significance`): it draws sentences
with replacement, the same ones for all systems, and computes each draw's rate from its counts.  Two
details differ from sacrebleu's, since this rate is coarser.  A draw that differs exactly as much
counts as chance, and quantiles are interpolated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..scoring.significance import QUANTILES, SAMPLES, draw
from .error_rate import Counts


def interval(systems: Sequence[Sequence[Counts]], samples: int = SAMPLES) -> float | None:
    """Return half the width of the 95 % interval of the systems' mean error rate.

    ``systems`` are the counts of each sentence, the same sentences for all: one system, or the
    seeds of one.  None if a rate is undefined.
    """
    rates = _draws(systems, samples)
    if rates is None:
        return None
    low, high = np.quantile(rates.mean(axis=0), QUANTILES)
    return float(high - low) / 2


def p_value(
    counts: Sequence[Counts], baseline: Sequence[Counts], samples: int = SAMPLES
) -> float | None:
    """Return the two-sided p of the difference between two systems' alignments of sentences.

    It is (c + 1) / (samples + 1), where c draws differ from their mean difference by at least the
    difference of the systems (Riezler & Maxwell 2005); None if a rate is undefined.
    """
    rates = _draws([counts, baseline], samples)
    if rates is None:
        return None
    ours, theirs = (sum(side, start=Counts()).aer for side in (counts, baseline))
    differences = rates[0] - rates[1]
    by_chance = np.abs(differences - differences.mean()) >= abs(ours - theirs)
    return (int(by_chance.sum()) + 1) / (samples + 1)


def _draws(systems: Sequence[Sequence[Counts]], samples: int) -> np.ndarray | None:
    """Return the error rates of each system on the same draws, ``[systems, samples]``."""
    found = [[one.sure_found + one.possible_found for one in counts] for counts in systems]
    size = [[one.links + one.sure for one in counts] for counts in systems]
    if len(size[0]) < 2:
        return None
    chosen = draw(len(size[0]), samples)
    found, size = (np.array(part, float)[:, chosen].sum(axis=-1) for part in (found, size))
    return 100 - 100 * found / size if size.all() else None
