"""What is taken from inside sacrebleu, and its formulas for many sums at once.

sacrebleu has no public way to count each sentence, or to score counts.  Its private methods are
used here alone, and a test compares each function with its public scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from sacrebleu.metrics.base import Score
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

Metric = BLEU | CHRF | TER


def sentence_counts(
    metric: Metric, translations: Sequence[str], references: Sequence[Sequence[str]]
) -> np.ndarray:
    """What a score adds up, of each sentence: ``[sentences, columns]``."""
    return np.array(metric._extract_corpus_statistics(translations, references))


def corpus_score(metric: Metric, rows: np.ndarray) -> Score:
    """sacrebleu's own score of these sentences, which it can print."""
    return metric._aggregate_and_compute(rows.tolist())


def _bleu(smooth: bool, sums: np.ndarray) -> np.ndarray:
    """BLEU; ``[..., columns]``: words of translation and reference, n-grams that match, n-grams.

    With ``smooth``, the k-th length of n-grams without a match counts as 2^-k matches.
    """
    sums = np.asarray(sums, float)
    ours, theirs, right, all_ = sums[..., 0], sums[..., 1], sums[..., 2:6], sums[..., 6:]
    wrong = (right == 0) & (all_ > 0)
    if smooth:
        right = np.where(wrong, 0.5 ** np.cumsum(wrong, axis=-1), right)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(right / all_).mean(axis=-1)
        score = 100 * np.exp(logs + np.minimum(0, 1 - theirs / ours))
    undefined = (sums[..., 2:6] == 0).all(axis=-1) | (all_ == 0).any(axis=-1)
    return np.where(undefined, 0.0, score)


def _chrf(sums: np.ndarray) -> np.ndarray:
    """chrF2; ``[..., columns]``: of each length, n-grams of both sides and those that match."""
    sums = np.asarray(sums, float)
    ours, theirs, right = (sums[..., n::3] for n in range(3))
    both = (ours > 0) & (theirs > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = (
            np.where(both, right / all_, 0).sum(axis=-1) / both.sum(axis=-1)
            for all_ in (ours, theirs)
        )
        return np.nan_to_num(100 * 5 * precision * recall / (4 * precision + recall))


def _ter(sums: np.ndarray) -> np.ndarray:
    """TER; ``[..., 2]``: edits, words of the reference."""
    edits, words = sums[..., 0], sums[..., 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        return 100 * np.where(words > 0, edits / words, edits > 0)


#: Scores of sums, by the kind of counts.
FORMULAS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "bleu": partial(_bleu, True),
    "bleu_unsmoothed": partial(_bleu, False),
    "chrf": _chrf,
    "ter": _ter,
}
