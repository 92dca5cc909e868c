"""Resampling of alignment error rates, against results computed in another way."""

import random

import numpy as np
import pytest

from fairseq_hybrid_attn.lab.alignment.error_rate import Counts, interval, p_value
from fairseq_hybrid_attn.lab.scores.significance import draw
from fairseq_hybrid_attn.lab.tables.run_results import ScoredAlignments


def sentences(right, wrong):
    """Sentences of one sure link each: ``right`` of them found, in the others a wrong one."""
    return [Counts(1, 1, 1, 1, 1)] * right + [Counts(1, 1, 1, 0, 0)] * wrong


def test_interval_is_that_of_a_proportion():
    # An AER of such sentences is the share of wrong ones; 40 of 400 is 10 % +- 1.96 * 1.5 %.
    assert interval([sentences(360, 40)]) == pytest.approx(100 * 1.96 * 0.015, rel=0.1)


def test_interval_is_of_each_draws_mean_rate():
    """A draw's rate comes from its added counts: a sentence of many links weighs more."""
    choose = random.Random(2)
    sizes = [choose.randint(1, 30) for _ in range(20)]
    systems = [[Counts(n, n, n + 5, choose.randint(0, n), n) for n in sizes] for _ in range(3)]
    rates = [
        np.mean([sum((counts[i] for i in drawn), start=Counts()).aer for counts in systems])
        for drawn in draw(20, 50)
    ]
    low, high = np.quantile(rates, (0.025, 0.975))
    assert interval(systems, samples=50) == pytest.approx((high - low) / 2)
    first, *others = map(ScoredAlignments, systems)
    assert first.interval(*others) == interval(systems)
    other_gold = [Counts(n + 1, n + 1, n, n, n) for n in sizes]
    assert first.interval(ScoredAlignments(other_gold)) is None


def test_p_values():
    right, wrong = Counts(1, 1, 1, 1, 1), Counts(1, 1, 1, 0, 0)
    # Sentences that differ far more than the systems, one of which never is the worse one.
    found = [number % 9 + 1 for number in range(36)]
    uneven = [Counts(10, 10, 10, k, k) for k in found]
    better = [Counts(10, 10, 10, k + n % 2, k + n % 2) for n, k in enumerate(found)]
    in_turn = [right, wrong] * 20 + [right], [wrong, right] * 20 + [wrong]
    for case, ours, theirs, low, high in (
        ("the same", sentences(7, 3), sentences(7, 3), 1, 1),
        ("the smallest", sentences(100, 0), sentences(0, 100), 1 / 1001, 1 / 1001),
        ("clear", sentences(90, 10), sentences(60, 40), 0, 0.01),
        ("on the same sentences", better, uneven, 0, 0.01),
        ("they win in turn", *in_turn, 0.5, 1),
    ):
        assert low <= p_value(ours, theirs) <= high, case
        assert p_value(theirs, ours) == p_value(ours, theirs), case


def test_what_cannot_be_resampled():
    for counts in ([], sentences(1, 0), [Counts()] * 5):
        assert interval([counts]) is None and p_value(counts, counts) is None
    with pytest.raises(ValueError, match="different numbers of sentences"):
        p_value(sentences(7, 3), sentences(7, 2))
