"""What scores are computed from: counts of each sentence, added up; and resampling of sentences.

A score is a function of sums over sentences: BLEU, of the n-grams that match and the lengths; TER,
of edits and words; an alignment error rate, of the sizes of link sets; a loss, of bits and tokens.
With the counts of each sentence, a score needs no text any more, nor does its interval.  This is
the bootstrap (Koehn 2004): as many sentences as there are, drawn with replacement, the same ones
for all systems, give a score for each draw.  Means over seeds, differences of systems, sums of
scores and rank correlations are computed from the scores of each draw; the quantiles of the results
are the ends of an interval.

It covers the choice of the test sentences, not the choice of the training's seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric

SAMPLES = 1000
SEED = 12345  # sacrebleu's default, with which it draws the same sentences
QUANTILES = (0.025, 0.975)  # the ends of a 95 % interval, as shares of the draws

#: A score of sums, ``[..., columns]``: ``[...]``, NaN where it is undefined.
Formula = Callable[[np.ndarray], np.ndarray]


def _sacrebleus(metric: Metric) -> Formula:
    """The score of sacrebleu's own statistics."""

    def score(sums: np.ndarray) -> float:
        return metric._compute_score_from_stats(sums.tolist()).score

    return lambda sums: np.apply_along_axis(score, -1, sums)


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole == 0, np.nan, part / whole)


#: By the kind of counts.
FORMULAS: dict[str, Formula] = {
    # Columns: words of translation and reference, n-grams that match, n-grams.
    "bleu": _sacrebleus(BLEU()),
    "bleu_unsmoothed": _sacrebleus(BLEU(smooth_method="none")),
    "chrf": _sacrebleus(CHRF()),  # for each length, n-grams of both and those that match
    "ter": _sacrebleus(TER()),  # edits, words of the reference
    "length_ratio": lambda sums: _share(sums[..., 0], sums[..., 1]),  # of BLEU's columns
    # Columns: links, sure, possible, sure found, possible found; in per cent.
    "aer": lambda sums: (
        100 - _share(100 * (sums[..., 3] + sums[..., 4]), sums[..., 0] + sums[..., 1])
    ),
    "loss": lambda sums: _share(sums[..., 0], sums[..., 1]),  # bits, tokens
    "comet": lambda sums: _share(sums[..., 0], sums[..., 1]),  # scores, sentences
}


@dataclass(frozen=True, eq=False)
class SentenceCounts:
    """The counts of each sentence behind a score.

    Attributes:
        kind: one of :data:`FORMULAS`.
        rows: ``[sentences, columns]``.
        text: what identifies the sentences, and what they are compared with.
        signature: how they were counted, in sacrebleu's notation; empty if that is clear.
        part: None for a whole test set; parts of a set that do not overlap have numbers that
            differ, with which they are resampled independently.
    """

    kind: str
    rows: np.ndarray
    text: str
    signature: str = ""
    part: int | None = None

    def as_dict(self) -> dict:
        """Plain data for JSON, of a whole test set."""
        how = {"kind": self.kind, "text": self.text, "signature": self.signature}
        return {**how, "rows": self.rows.tolist()}

    @property
    def origin(self) -> tuple[str, str]:
        """Text and signature: scores of one origin may be compared."""
        return self.text, self.signature

    @property
    def value(self) -> float:
        """The score of all sentences; NaN if it is undefined."""
        return float(FORMULAS[self.kind](self.rows.sum(axis=0)))

    @cached_property
    def drawn(self) -> np.ndarray | None:
        """The score of each draw of sentences, ``[SAMPLES]``.

        None if it is undefined for one of them, or if there are fewer than two sentences.
        """
        if len(self.rows) < 2:
            return None
        scores = FORMULAS[self.kind](draws(len(self.rows), self.part) @ self.rows)
        return None if np.isnan(scores).any() else scores

    def of(self, sentences: Sequence[int], text: str, part: int | None = None) -> SentenceCounts:
        """The counts of some of the sentences (from 0)."""
        return replace(self, rows=self.rows[list(sentences)], text=text, part=part)


@lru_cache(maxsize=16)
def draws(sentences: int, part: int | None = None) -> np.ndarray:
    """How often each draw has each sentence, ``[SAMPLES, sentences]``.

    Those of a ``part`` are in another order, so that parts of one size are drawn independently.
    """
    drawn = np.random.default_rng(SEED).integers(sentences, size=(SAMPLES, sentences))
    times = np.array([np.bincount(numbers, minlength=sentences) for numbers in drawn], float)
    return times if part is None else np.random.default_rng([SEED, part]).permutation(times)


def mean_drawn(systems: Sequence[SentenceCounts]) -> np.ndarray | None:
    """The mean over systems, such as the seeds of one, for each draw, ``[SAMPLES]``.

    None if they are of different texts, or one of them cannot be resampled.
    """
    if len({counts.origin for counts in systems}) != 1:
        return None
    drawn = [counts.drawn for counts in systems]
    return None if any(scores is None for scores in drawn) else np.mean(drawn, axis=0)


def ends(drawn: np.ndarray) -> tuple[float, float]:
    """The ends of the 95 % interval of a number, given its values for each draw."""
    low, high = np.quantile(drawn, QUANTILES)
    return float(low), float(high)


def half_width(drawn: np.ndarray | None) -> float | None:
    """Half the width of the 95 % interval; None if there are no draws."""
    if drawn is None:
        return None
    low, high = ends(drawn)
    return (high - low) / 2


def p_value(ours: SentenceCounts, theirs: SentenceCounts) -> float | None:
    """The two-sided p of the difference between two systems.

    It is (c + 1) / (SAMPLES + 1): c draws differ from their mean difference by at least the
    difference of the systems (Riezler & Maxwell 2005).  None if they cannot be compared.
    """
    if ours.origin != theirs.origin or ours.drawn is None or theirs.drawn is None:
        return None
    differences = ours.drawn - theirs.drawn
    by_chance = np.abs(differences - differences.mean()) >= abs(ours.value - theirs.value)
    return (int(by_chance.sum()) + 1) / (SAMPLES + 1)
