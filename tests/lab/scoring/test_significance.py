"""Bootstrap resampling, against sacrebleu's own command line."""

import json
import random
import subprocess
import sys

import pytest

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.scoring.metrics import METRICS, build_metric
from fairseq_hybrid_attn.lab.scoring.significance import confidence_interval, paired_bootstrap

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


def sacrebleu_command(folder, *flags):
    for name, lines in {"ref": REFERENCES, "base": BASELINE, **SYSTEMS}.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    command = [sys.executable, "-m", "sacrebleu", "ref", *flags, "--format", "json", "-w", "12"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_paired_bootstrap_is_sacrebleus(tmp_path, monkeypatch):
    _, *rows = sacrebleu_command(
        tmp_path, *("-lc", "-i", "base", *SYSTEMS, "--paired-bs", "--paired-bs-n", "300")
    )
    monkeypatch.setenv("SACREBLEU_SEED", "7")  # is not ours to obey
    results = paired_bootstrap("bleu", BASELINE, SYSTEMS, REFERENCES, "en", True, samples=300)
    assert list(results) == list(SYSTEMS) == [row["system"] for row in rows]
    for row, (name, result) in zip(rows, results.items(), strict=True):
        expected = row["BLEU"]
        found = {"score": result.value, "mean": result.mean, "ci": result.interval}
        assert found == pytest.approx({key: expected[key] for key in found}, abs=1e-9)
        if name != "the same":
            assert result.p_value == pytest.approx(expected["p_value"], abs=1e-12)
        assert (result.samples, result.seed) == (300, 12345)
        assert result.signature.startswith("nrefs:1|bs:300|seed:12345|case:lc|eff:no|tok:13a|")


def test_confidence_interval_is_sacrebleus(tmp_path):
    expected = sacrebleu_command(tmp_path, "-i", "base", "--confidence")
    result = confidence_interval("bleu", BASELINE, REFERENCES, "en")
    assert result.value == pytest.approx(expected["score"], abs=1e-9)
    assert result.mean == pytest.approx(expected["confidence_mean"], abs=1e-9)
    assert result.interval == pytest.approx(expected["confidence_var"], abs=1e-9)
    assert result.signature == expected["signature"]
    assert (result.p_value, result.samples) == (None, 1000)


@pytest.mark.parametrize("name", METRICS)
def test_verdicts(name):
    results = paired_bootstrap(name, BASELINE, SYSTEMS, REFERENCES, "en", samples=200)
    assert results["better"].p_value == pytest.approx(1 / 201)  # in none of 200 samples
    assert results["as good"].p_value > 0.05
    # sacrebleu itself says 1/201 here, as if identical systems were surely different.
    assert results["the same"].p_value == 1
    for system, result in results.items():
        score = build_metric(name, "en").score(SYSTEMS[system], REFERENCES)
        assert result.value == score.value  # what is resampled is what the metric scores
        assert result.signature == score.signature.replace("nrefs:1|", "nrefs:1|bs:200|seed:12345|")
        assert abs(result.mean - result.value) < result.interval
    alone = confidence_interval(name, SYSTEMS["better"], REFERENCES, "en", samples=200)
    better = results["better"]
    assert (better.mean, better.interval) == (alone.mean, alone.interval)


def test_p_value_counts_samples():
    """Of the 2-sentence test set, the two draws of one sentence twice and the even one."""
    references = ["a b c d", "x y z u"]
    systems = {"worse": ["a b c d", "x y z v"]}
    results = paired_bootstrap("tokenised_bleu", references, systems, references, "en")
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
    with pytest.raises(UserError, match="no score 'blue'"):
        paired_bootstrap("blue", BASELINE, SYSTEMS, REFERENCES, "en")
