"""Scores as functions of counts, and their resampling: against sacrebleu and full scores."""

import random

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.scores.counts import (
    SAMPLES,
    SEED,
    SentenceCounts,
    draws,
    ends,
    half_width,
    mean_drawn,
    p_value,
)
from fairseq_hybrid_attn.lab.scores.metrics import METRICS, build_metric

WORDS = "the a cat dog well-known sat on mat, mat. It's isn't 5.3".split()


def noisy(lines, errors, seed):
    choose = random.Random(seed)
    return [
        " ".join(choose.choice(WORDS) if choose.random() < errors else word for word in li.split())
        for li in lines
    ]


CHOOSE = random.Random(0)
REFERENCES = [" ".join(CHOOSE.choices(WORDS, k=CHOOSE.randint(3, 15))) for _ in range(120)]
OURS, THEIRS = noisy(REFERENCES, 0.4, seed=1), noisy(REFERENCES, 0.2, seed=2)


def bleu(lines, references=REFERENCES):
    return build_metric("bleu", "en").counts(lines, references)


def test_scores_of_counts_are_sacrebleus_to_the_last_digit():
    """Of every metric, of all sentences and of some, which are a corpus of their own."""
    some = range(7, 50)
    references = [REFERENCES[n] for n in some]
    for name in METRICS.keys() - {"word_bleu"}:  # which is for Chinese
        for lowercase in (False, True):
            metric = build_metric(name, "en", lowercase)
            counts, score = metric.counts(OURS, REFERENCES), metric.score(OURS, REFERENCES)
            assert counts.value == score.value and counts.signature == score.signature
            part = metric.score([OURS[n] for n in some], references).value
            assert counts.of(some, "some").value == part, name
    with pytest.raises(UserError, match="119 lines, but the reference has 120"):
        bleu(OURS[1:])


def test_scores_and_intervals_are_sacrebleus(monkeypatch):
    """It takes the nearest draw where ours are interpolated."""
    monkeypatch.setenv("SACREBLEU_SEED", str(SEED))
    for name, sacrebleu in (("bleu", BLEU()), ("chrf", CHRF()), ("ter", TER())):
        for references in ([REFERENCES], [REFERENCES, THEIRS]):
            counts = build_metric(name, "en").counts(OURS, *references)
            theirs = sacrebleu.corpus_score(OURS, references, n_bootstrap=SAMPLES)
            assert counts.value == theirs.score
            assert counts.drawn.mean() == pytest.approx(theirs._mean)  # of the same draws
            assert half_width(counts.drawn) == pytest.approx(theirs._ci, rel=0.02)


def test_the_interval_of_a_mean_has_the_same_sentences_of_all_systems():
    ours, theirs = bleu(OURS), bleu(THEIRS)
    assert half_width(mean_drawn([ours, ours])) == half_width(ours.drawn)
    both = (ours.drawn + theirs.drawn) / 2
    assert ends(mean_drawn([ours, theirs])) == tuple(np.quantile(both, (0.025, 0.975)))
    elsewhere = bleu(OURS, REFERENCES[::-1])
    other_words = build_metric("tokenised_bleu", "en").counts(OURS, REFERENCES)
    for other in (elsewhere, other_words):
        assert mean_drawn([ours, other]) is None and p_value(ours, other) is None
    single = bleu(["a b c d"], ["a b c d"])
    assert single.value and single.drawn is None and half_width(single.drawn) is None


def alignments(rows):
    return SentenceCounts("aer", np.array(rows, float), "gold")


def sentences(right, wrong):
    """Sentences of one sure link each: ``right`` of them found, in the others a wrong one."""
    return alignments([[1, 1, 1, 1, 1]] * right + [[1, 1, 1, 0, 0]] * wrong)


def test_an_error_rate_is_that_of_added_counts():
    """A sentence of many links weighs more; the interval of a proportion is known."""
    rows = [[10, 8, 9, 6, 7], [2, 2, 2, 0, 0]]
    assert alignments(rows).value == pytest.approx(100 - 100 * (6 + 7) / (10 + 2 + 8 + 2))
    # 40 of 400 is 10 % ± 1.96 * 1.5 %.
    assert half_width(sentences(360, 40).drawn) == pytest.approx(100 * 1.96 * 0.015, rel=0.1)
    for undefined in ([[0] * 5] * 5, [[0] * 5] * 19 + [[1] * 5]):  # or in some draws
        assert alignments(undefined).drawn is None


def test_a_length_ratio_is_of_the_words_that_bleu_counts():
    counts = bleu(["a cat, it sat", "", "a"], ["a cat", "it sat.", "a"])
    ratio = SentenceCounts("length_ratio", counts.rows, "")
    assert ratio.value == 6 / 6  # the comma and the full stop are words
    words, theirs = (draws(3) @ counts.rows)[:, :2].T
    assert ratio.drawn == pytest.approx(words / theirs)
    assert SentenceCounts("length_ratio", np.zeros((2, 10)), "").drawn is None


def test_parts_of_a_set_are_drawn_independently():
    ours = bleu(OURS)
    first, second = (ours.of(range(n, n + 60), "", part=n) for n in (0, 60))
    assert sorted(first.drawn) == sorted(ours.of(range(60), "").drawn)
    assert not np.array_equal(draws(60, part=0), draws(60, part=60))
    spread = np.var(first.drawn + second.drawn) / (np.var(first.drawn) + np.var(second.drawn))
    assert spread == pytest.approx(1, abs=0.15)


def test_p_values():
    # Sentences that differ far more than the systems, one of which never is the worse one.
    uneven = [[10, 10, 10, n % 9 + 1, n % 9 + 1] for n in range(36)]
    better = [[10, 10, 10, k + n % 2, k + n % 2] for n, (*_, k) in enumerate(uneven)]
    right, wrong = [1, 1, 1, 1, 1], [1, 1, 1, 0, 0]
    in_turn = [right, wrong] * 20 + [right], [wrong, right] * 20 + [wrong]
    for case, ours, theirs, low, high in (
        ("the same", sentences(7, 3), sentences(7, 3), 1, 1),
        ("the smallest", sentences(100, 0), sentences(0, 100), 1 / 1001, 1 / 1001),
        ("clear", sentences(90, 10), sentences(60, 40), 0, 0.01),
        ("on the same sentences", alignments(better), alignments(uneven), 0, 0.01),
        ("they win in turn", *map(alignments, in_turn), 0.5, 1),
        ("BLEU", bleu(OURS), bleu(THEIRS), 1 / 1001, 1 / 1001),
        ("as good", bleu(OURS), bleu(noisy(REFERENCES, 0.4, seed=3)), 0.05, 1),
    ):
        assert low <= p_value(ours, theirs) <= high, case
        assert p_value(theirs, ours) == p_value(ours, theirs), case


def test_p_is_about_a_normal_ones_of_the_same_difference():
    """Two-sided: a difference of 1.96 standard errors has one of about 0.05."""
    noise = np.random.default_rng(1).normal(size=400)
    noise = (noise - noise.mean()) / noise.std()
    tokens = np.ones(400)
    base = SentenceCounts("loss", np.stack([tokens * 5, tokens], axis=1), "")
    for errors, expected in ((1.0, 0.317), (1.96, 0.05), (2.58, 0.01)):
        shifted = 5 + noise + errors / np.sqrt(400)
        ours = SentenceCounts("loss", np.stack([shifted, tokens], axis=1), "")
        assert p_value(ours, base) == pytest.approx(expected, abs=0.03)
