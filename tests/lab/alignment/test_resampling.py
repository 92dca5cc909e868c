"""Resampling of alignment error rates, against sums worked out otherwise."""

import random

import numpy as np
import pytest

from fairseq_hybrid_attn.lab.alignment.error_rate import Counts
from fairseq_hybrid_attn.lab.alignment.resampling import interval, p_value
from fairseq_hybrid_attn.lab.scoring.significance import draw
from fairseq_hybrid_attn.lab.tables.scored_sentences import ScoredAlignments


def sentences(right, wrong, times=1):
    """Sentences of one sure link each: ``right`` of them found, in the others a wrong one."""
    return [Counts(1, 1, 1, 1, 1)] * (right * times) + [Counts(1, 1, 1, 0, 0)] * (wrong * times)


def test_interval_is_that_of_a_proportion():
    # An AER of such sentences is the share of wrong ones; 40 of 400 is 10 % +- 1.96 * 1.5 %.
    assert interval([sentences(360, 40)]) == pytest.approx(100 * 1.96 * 0.015, rel=0.1)


def test_interval_narrows_with_the_root_of_the_sentences():
    wide, narrow = (interval([sentences(3, 2, times)], samples=4000) for times in (10, 160))
    assert wide / narrow == pytest.approx(4, rel=0.1)


def test_rates_are_of_the_added_counts():
    """A sentence of many links weighs more than one of few."""
    choose = random.Random(1)
    sizes = [choose.randint(1, 30) for _ in range(30)]
    counts = [Counts(n, n, n + 5, n // 3, n // 2) for n in sizes]
    drawn = draw(30, 50)
    rates = [sum((counts[i] for i in draw), start=Counts()).aer for draw in drawn]
    low, high = np.quantile(rates, (0.025, 0.975))
    assert interval([counts], samples=50) == pytest.approx((high - low) / 2)


def test_the_interval_of_a_mean_is_that_of_the_mean_of_each_draw():
    choose = random.Random(2)
    sizes = [choose.randint(1, 9) for _ in range(20)]
    systems = [[Counts(n, n, n, choose.randint(0, n), n) for n in sizes] for _ in range(3)]
    drawn = draw(20, 50)
    means = [
        np.mean([sum((counts[i] for i in draw), start=Counts()).aer for counts in systems])
        for draw in drawn
    ]
    low, high = np.quantile(means, (0.025, 0.975))
    assert interval(systems, samples=50) == pytest.approx((high - low) / 2)
    assert interval([systems[0]] * 2) == interval([systems[0]])
    first, *others = map(ScoredAlignments, systems)
    assert first.interval(*others) == interval(systems)
    other_gold = [Counts(n + 1, n + 1, n, n, n) for n in sizes]
    assert first.interval(ScoredAlignments(other_gold)) is None


def test_equal_systems_do_not_differ():
    counts = sentences(7, 3)
    assert p_value(counts, list(counts)) == 1


def test_clear_differences_have_the_smallest_p():
    assert p_value(sentences(100, 0), sentences(0, 100)) == pytest.approx(1 / 1001)
    better, worse = sentences(90, 10), sentences(60, 40)
    assert p_value(better, worse) < 0.01
    assert p_value(worse, better) == p_value(better, worse)


def test_systems_are_compared_on_the_same_sentences():
    """Sentences differ far more than the systems, one of which never is the worse one."""
    found = [number % 9 + 1 for number in range(36)]
    counts = [Counts(10, 10, 10, k, k) for k in found]
    better = [Counts(10, 10, 10, k + n % 2, k + n % 2) for n, k in enumerate(found)]
    assert p_value(better, counts) < 0.01


def test_systems_that_win_in_turn_do_not_differ():
    right, wrong = Counts(1, 1, 1, 1, 1), Counts(1, 1, 1, 0, 0)
    assert p_value([right, wrong] * 20 + [right], [wrong, right] * 20 + [wrong]) > 0.5


@pytest.mark.parametrize("counts", [[], sentences(1, 0), [Counts()] * 5])
def test_what_cannot_be_resampled(counts):
    assert interval([counts]) is None
    assert p_value(counts, counts) is None
