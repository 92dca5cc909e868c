"""The table of systems trained on your text."""

import json

import numpy as np
import pytest
from made_runs import REFERENCES, MadeWorkspace, worse

from fairseq_hybrid_attn.lab.scores.metrics import build_metric
from fairseq_hybrid_attn.lab.tables.comparison import compared, estimate

SEEDS = (1, 2, 3)


def test_intervals_cover_seeds_and_sentences_together():
    """Made scores: their parts by seed and by sentence are known, and so is the true mean, 0."""
    random = np.random.default_rng(0)
    covered = significant = 0
    for _ in range(300):
        of_sentences = random.normal(0, 1, 200)
        by_seed = {seed: of_sentences.mean() + random.normal(0, 0.1) for seed in SEEDS}
        drawn = random.choice(of_sentences, (1000, 200)).mean(axis=1)
        found = estimate(by_seed, drawn, sentences=200)
        covered += abs(found.value) <= found.half
        significant += found.p < 0.05
    assert 0.93 < covered / 300 < 1 and significant == 300 - covered
    same = estimate({1: 0.0}, np.zeros(1000), sentences=200)
    assert (same.half, same.p) == (0, 1)


@pytest.fixture
def made(tmp_path):
    made = MadeWorkspace(tmp_path)
    for row in ("plain", "mixed"):
        for seed in SEEDS:
            made.finish(made.run(row, seed=seed), translations(row, seed))
    return made


def translations(row, seed):
    return worse(REFERENCES, {"plain": 0.3, "mixed": 0.1}[row], f"{row}{seed}")


def test_a_comparison_has_each_number_once(made):
    plan = made.plan(seeds=SEEDS)
    chosen = tuple(
        cell
        for cell in plan.cells
        if cell.column.name == "bleu" and cell.row.name in ("plain", "mixed", "later")
    )
    plan = type(plan)(plan.table, plan.workspace, chosen, (*SEEDS, 4))
    comparison = compared(plan)
    first, second, missing = json.loads(comparison.written(".json"))["systems"]
    ours, theirs = second["scores"]["bleu"], first["scores"]["bleu"]
    difference = second["differences"]["bleu"]
    assert first["differences"] == {} and missing["state"] == "not run"
    assert difference["value"] == pytest.approx(ours["value"] - theirs["value"])
    assert difference["value"] > difference["half"] > 0 and difference["p"] < 0.05
    # Of the same draws, and within each seed.
    metric = build_metric("bleu", "en")
    drawn = [
        metric.counts(translations("mixed", seed), REFERENCES).drawn
        - metric.counts(translations("plain", seed), REFERENCES).drawn
        for seed in SEEDS
    ]
    wanted = estimate(difference["by_seed"], np.mean(drawn, axis=0), len(REFERENCES))
    assert difference["half"] == pytest.approx(wanted.half)
    shown = comparison.terminal()
    assert f"{ours['value']:.2f} ± {ours['half']:.2f}" in shown
    assert f"{difference['value']:+.2f} (" in shown and "1 2 3" in shown
    assert "BLEU below 5" not in shown
    assert "Transformer" in comparison.written(".md")
    assert comparison.written(".csv").count("\n") == 4
