"""Means over seeds and their intervals: against simulations and known distributions."""

import math

import numpy as np
import pytest

from fairseq_hybrid_attn.lab.scores.counts import Score, SentenceCounts
from fairseq_hybrid_attn.lab.scores.statistics import combined, difference, estimate

SENTENCES = 300


def score(values, text=""):
    """A mean over sentences."""
    rows = np.stack([values, np.ones(len(values))], axis=1)
    return Score.of(SentenceCounts("loss", rows, text))


def test_intervals_cover_seeds_and_sentences_together():
    """Made scores: their parts by seed and by sentence are known, and so is the true mean, 0."""
    random = np.random.default_rng(0)
    covered = significant = 0
    for _ in range(300):
        of_sentences = random.normal(0, 1, SENTENCES)
        by_seed = {seed: of_sentences.mean() + random.normal(0, 0.1) for seed in (1, 2, 3)}
        found = combined(by_seed, float(np.var(of_sentences) / SENTENCES), SENTENCES)
        covered += abs(found.value) <= found.half
        significant += found.p < 0.05
    assert 0.92 < covered / 300 < 1 and significant == 300 - covered


def test_a_difference_is_of_the_same_seeds_and_sentences():
    """What both have in common is not in its interval: that of a mean of normal numbers."""
    random = np.random.default_rng(1)
    common, noise = random.normal(5, 3, SENTENCES), random.normal(0.2, 1, SENTENCES)
    noise = (noise - noise.mean()) / noise.std() + 0.2
    theirs = {seed: score(common) for seed in (1, 2)}
    ours = {seed: score(common + noise) for seed in (2, 3)}
    found = difference(ours, theirs)
    assert found.by_seed == {2: pytest.approx(0.2)} and found.covers == "sentences"
    assert found.half == pytest.approx(1.968 / math.sqrt(SENTENCES), rel=0.03)  # t, 299 degrees
    # 0.2 is 3.464 errors from zero: t with 299 degrees of freedom.
    assert found.p == pytest.approx(0.0006, rel=0.25)
    assert difference({1: score(common, "other")}, theirs) is None
    assert difference({3: score(common)}, theirs) is None


def test_sums_of_scores_are_taken_within_each_draw():
    random = np.random.default_rng(2)
    one, two = random.normal(0, 1, (2, SENTENCES))
    found = estimate((1, {1: score(one)}), (-1, {1: score(two)}), (-1, {1: score(one)}))
    assert found.value == pytest.approx(-two.mean())
    assert found.half == pytest.approx(estimate((1, {1: score(two)})).half)


def test_what_an_interval_covers():
    sentences = np.random.default_rng(3).normal(0, 1, SENTENCES)
    of_one = estimate((1, {1: score(sentences)}))
    of_two = estimate((1, {1: score(sentences), 2: score(sentences + 1)}))
    assert (of_one.covers, of_two.covers) == ("sentences", "seeds and sentences")
    # Two seeds that differ by 1, and one degree of freedom: 12.7 standard errors of 0.5.
    assert of_two.half == pytest.approx(12.7 * 0.5, rel=0.15)
    plain = {seed: Score(float(seed), "") for seed in (1, 2, 3)}
    found = estimate((1, plain))
    assert found.covers == "seeds" and found.half == pytest.approx(4.30265 / math.sqrt(3), 1e-5)
    assert estimate((1, {1: plain[1], 2: plain[2]})).half is None
    assert estimate((1, {1: score(sentences[:1])})).half is None
    same = difference({1: score(sentences)}, {1: score(sentences)})
    assert (same.value, same.half, same.p) == (0, 0, 1)
    mixed = estimate((1, {1: score(sentences, "a"), 2: score(sentences, "b")}))
    assert mixed.half is None  # of two texts


def test_an_estimate_for_display():
    found = combined({1: 30.0, 2: 31.0, 3: 32.0}, None)
    assert found.text() == "31.00 ± 2.48"
    assert found.signed(1) == "+31.0 (+28.5 to +33.5)"
    assert combined({1: 30.0}, None).signed() == "+30.00"
