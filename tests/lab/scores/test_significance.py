"""Bootstrap resampling, against sacrebleu's own command line."""

import random

import pytest
from sacrebleu_command import sacrebleu_command

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.scores.metrics import METRICS, build_metric
from fairseq_hybrid_attn.lab.scores.significance import confidence_interval, paired_bootstrap

WORDS = "the a cat dog well-known sat on mat, mat. It's isn't 5.3".split()


def noisy(lines, errors, seed):
    choose = random.Random(seed)
    return [
        " ".join(choose.choice(WORDS) if choose.random() < errors else word for word in li.split())
        for li in lines
    ]


CHOOSE = random.Random(0)
REFERENCES = [" ".join(CHOOSE.choices(WORDS, k=CHOOSE.randint(3, 15))) for _ in range(120)]
BASELINE = noisy(REFERENCES, 0.4, seed=1)
SYSTEMS = {
    "better": noisy(REFERENCES, 0.2, seed=2),
    "as good": noisy(REFERENCES, 0.4, seed=3),
    "the same": BASELINE,
}


def test_resampling_is_sacrebleus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, lines in {"ref": REFERENCES, "base": BASELINE, **SYSTEMS}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    flags = ("-lc", "--paired-bs", "--paired-bs-n", "300")
    _, *rows = sacrebleu_command("ref", "-i", "base", *SYSTEMS, *flags)
    alone = sacrebleu_command("ref", "-i", "base", "--confidence")

    monkeypatch.setenv("SACREBLEU_SEED", "7")  # must be ignored
    results = paired_bootstrap("bleu", BASELINE, SYSTEMS, REFERENCES, "en", True, samples=300)
    assert list(results) == list(SYSTEMS) == [row["system"] for row in rows]
    for row, (name, result) in zip(rows, results.items(), strict=True):
        expected = [row["BLEU"][key] for key in ("score", "mean", "ci", "p_value")]
        if name == "the same":
            # sacrebleu itself gives 1/301, as if identical systems differed for certain.
            expected[-1] = 1
        assert result == pytest.approx(tuple(expected), abs=1e-9)
    *found, p_value = confidence_interval("bleu", BASELINE, REFERENCES, "en")
    expected = [alone[key] for key in ("score", "confidence_mean", "confidence_var")]
    assert found == pytest.approx(expected, abs=1e-9) and p_value is None


def test_verdicts_of_every_metric():
    for name in METRICS.keys() - {"word_bleu"}:  # which is for Chinese
        results = paired_bootstrap(name, BASELINE, SYSTEMS, REFERENCES, "en", samples=200)
        assert results["better"].p_value == pytest.approx(1 / 201)  # in none of 200 samples
        assert results["as good"].p_value > 0.05 and results["the same"].p_value == 1
        for system, result in results.items():
            # What is resampled is what the metric scores.
            score = build_metric(name, "en").score(SYSTEMS[system], REFERENCES)
            assert result.value == score.value, name
            assert abs(result.mean - result.value) < result.interval
            alone = confidence_interval(name, SYSTEMS[system], REFERENCES, "en", samples=200)
            assert result[:3] == alone[:3]


def test_p_value_counts_samples():
    """Of the 2-sentence test set, the two draws of one sentence twice and the even one."""
    references, worse = ["a b c d", "x y z u"], ["a b c d", "x y z v"]
    results = paired_bootstrap("tokenised_bleu", references, {"worse": worse}, references, "en")
    # 7/8, 5/6, 3/4, 1/2: 71.9 against 100.  Twice the second sentence has no four-gram: 0.  So
    # |difference| is 0, 28.1 or 100 in 1/4, 1/2, 1/4 of samples, 39.05 in the mean; less the
    # mean, it exceeds 28.1 when it is 100: a quarter of the time.
    assert results["worse"].value == pytest.approx(100 * (7 / 8 * 5 / 6 * 3 / 4 * 1 / 2) ** 0.25)
    assert results["worse"].p_value == pytest.approx(0.25, abs=0.05)


def test_refusals():
    for baseline, system, references, message in (
        (["a"], ["a", "b"], ["a", "b"], "the baseline: 1 lines, but the reference has 2"),
        (["a", "b"], ["a", "b", "c"], ["a", "b"], "new: 3 lines, but the reference has 2"),
        ([], [], [], "the reference has no lines"),
        (["a"], ["a"], ["a"], "one sentence cannot be resampled"),
    ):
        with pytest.raises(UserError, match=message):
            paired_bootstrap("bleu", baseline, {"new": system}, references, "en")
    with pytest.raises(UserError, match="translations: 1 lines, but the reference has 2"):
        confidence_interval("bleu", ["a"], ["a", "b"], "en")
    with pytest.raises(UserError, match="0 samples: use 1 or more"):
        confidence_interval("bleu", ["a", "b"], ["a", "b"], "en", samples=0)
