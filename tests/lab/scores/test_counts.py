"""Scores as functions of counts, and their resampling: against sacrebleu's public scores."""

import random
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.scores import counts as of_counts
from fairseq_hybrid_attn.lab.scores import sacrebleus
from fairseq_hybrid_attn.lab.scores.counts import SEED, SentenceCounts
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
#: Nothing right, nothing at all, one word, no n-gram of four or two words right.
CORNERS = ("x y z v", ""), ("", ""), ("", "a b"), ("a", "a"), ("a b c x d", "a b c y d"), ("a", "b")


def test_what_is_taken_from_inside_sacrebleu_agrees_with_its_public_scores():
    """The formulas for many sums at once, too, and in corner cases."""
    metrics = {
        "bleu": BLEU(),
        "bleu_unsmoothed": BLEU(smooth_method="none"),
        "chrf": CHRF(),
        "ter": TER(),
    }
    corners = [([one], [[other]]) for one, other in CORNERS]
    for name, metric in metrics.items():
        for lines, references in ((OURS, [REFERENCES]), (OURS, [REFERENCES, THEIRS]), *corners):
            rows = sacrebleus.sentence_counts(metric, lines, references)
            expected = metric.corpus_score(lines, references)
            assert str(sacrebleus.corpus_score(metric, rows)) == str(expected)
            sums = np.stack([rows.sum(axis=0)] * 2)
            found = sacrebleus.FORMULAS[name](sums)
            assert found == pytest.approx([expected.score] * 2, abs=1e-9), (name, lines[:1])


def test_scores_of_some_sentences_are_those_of_a_corpus_of_their_own():
    some = range(7, 50)
    references = [REFERENCES[n] for n in some]
    for name in METRICS.keys() - {"word_bleu"}:  # which is for Chinese
        for lowercase in (False, True):
            metric = build_metric(name, "en", lowercase)
            counts = metric.counts(OURS, REFERENCES)
            part = metric.score([OURS[n] for n in some], references).value
            assert metric.score_of(counts.of(some, "some")).value == part, name
            assert counts.of(some, "some").value == pytest.approx(part, abs=1e-9), name
    with pytest.raises(UserError, match="119 lines, but the reference has 120"):
        build_metric("bleu", "en").counts(OURS[1:], REFERENCES)


def test_draws_are_sacrebleus(monkeypatch):
    """The first of them; in single precision, which is exact for whole numbers, or in double."""
    drawn = np.random.default_rng(SEED).choice(120, size=(1000, 120))  # as sacrebleu draws
    counts = build_metric("bleu", "en").counts(OURS, REFERENCES)
    halves = SentenceCounts("loss", counts.rows[:, :2] + 0.5, "")
    for one in (counts, halves):
        expected = one.rows[drawn].sum(axis=1)
        assert np.array_equal(one._sums()[:1000], expected)


def test_draws_of_many_sentences_are_not_kept(monkeypatch):
    """All at once, they would be 10,000 bytes of each sentence."""
    counts = build_metric("bleu", "en").counts(OURS, REFERENCES)
    kept = counts._sums()
    monkeypatch.setattr(of_counts, "_KEPT", 0)
    monkeypatch.setattr(of_counts, "_AT_ONCE", 1000)
    tracemalloc.start()
    assert np.array_equal(counts._sums(), kept)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < kept.nbytes * 3 + 100_000


def test_an_error_rate_is_that_of_added_counts():
    """A sentence of many links weighs more; it may be undefined."""

    def alignments(rows):
        return SentenceCounts("aer", np.array(rows, float), "gold")

    rows = [[10, 8, 9, 6, 7], [2, 2, 2, 0, 0]]
    assert alignments(rows).value == pytest.approx(100 - 100 * (6 + 7) / (10 + 2 + 8 + 2))
    for undefined in ([[0] * 5] * 5, [[0] * 5] * 19 + [[1] * 5]):  # or in some draws
        assert alignments(undefined).drawn is None


def test_parts_of_a_set_are_drawn_independently():
    ours = build_metric("bleu", "en").counts(OURS, REFERENCES)
    first, second = (ours.of(range(n, n + 60), "", part=n) for n in (0, 60))
    assert sorted(first.drawn) == sorted(ours.of(range(60), "").drawn)
    assert not np.array_equal(first._sums(), replace(first, part=60)._sums())
    spread = np.var(first.drawn + second.drawn) / (np.var(first.drawn) + np.var(second.drawn))
    assert spread == pytest.approx(1, abs=0.1)
