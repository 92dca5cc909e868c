"""The numbers of a table, measured from existing runs: values, intervals, states, figures."""

import gzip
import json

import pytest
from made_runs import REFERENCES, SOURCES, read_lines, score, worse
from refusals import check_refusals

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.run.run_scores import read_counts
from fairseq_hybrid_attn.lab.scores import Group, statistics
from fairseq_hybrid_attn.lab.scores.metrics import build_metric
from fairseq_hybrid_attn.lab.tables.measuring import measure


def scores_by_seed(made, row, seeds=(1, 2), metric="bleu"):
    return {
        seed: build_metric(metric, "en").score(
            read_lines(made.run(row, seed=seed).folder.hypotheses), REFERENCES
        )
        for seed in seeds
    }


def near(value):
    return pytest.approx(value, abs=1e-4)


def test_a_number_is_the_mean_over_seeds_beside_the_papers_and_the_baseline(shared):
    cells = shared.cells("toy/table1", "--seeds", "2")
    plain, ours = (scores_by_seed(shared, row) for row in ("plain", "ours"))
    base, cell = cells["plain", "bleu"], cells["ours", "bleu"]
    mean, gain = statistics.estimate((1, ours)), statistics.difference(ours, plain)
    assert (float(cell["ours"]), float(cell["half"])) == (near(mean.value), near(mean.half))
    assert cell["paper_difference"] == "1.0000" and base["paper_difference"] == ""
    shown = (float(cell[key]) for key in ("our_difference", "difference_half", "p"))
    assert tuple(shown) == (near(gain.value), near(gain.half), near(gain.p))
    assert base["p"] == base["our_difference"] == "" and base["seeds"] == "1 2"
    third = shared.cells("toy/table1", "--seeds", "2,3")["ours", "bleu"]
    assert third["seeds"] == "2" and float(third["our_difference"]) == near(gain.by_seed[2])


def test_groups_are_scored_as_separate_corpora(made):
    cells = made.cells("toy/lengths", "--write", "f.png")
    bounds = {"short": (0, 5), "middle": (5, 9), "long": (9, 99), "all": (0, 99)}
    for row in ("plain", "ours"):
        hypotheses = read_lines(made.run(row).folder.hypotheses)
        for column, (low, high) in bounds.items():
            chosen = [n for n, line in enumerate(SOURCES) if low < len(line.split()) <= high]
            expected = score([hypotheses[n] for n in chosen], [REFERENCES[n] for n in chosen])
            cell = cells[row, column]
            assert float(cell["ours"]) == near(expected) and float(cell["half"]) > 0
            assert cell["signature"].endswith(f"|sentences:{len(chosen)}")
        assert cells[row, "longer"]["ours"] == ""
        assert cells[row, "longer"]["state"] == "no such sentences"
    assert (made.folder / "f.png").read_bytes().startswith(b"\x89PNG")
    # Of a source without spaces, words are not counted.
    content = json.loads(gzip.decompress(made.run("ours").folder.counts.read_bytes()))
    content["source_words"] = None
    path = made.folder / "counts"
    path.write_bytes(gzip.compress(json.dumps(content).encode()))
    with pytest.raises(UserError, match="does not split the source into words"):
        read_counts(path).of("bleu", Group(0, 5))


def test_a_curve_is_of_the_checkpoints_that_all_seeds_have(shared):
    one, both = (measure(shared.plan("toy/curves", seeds)) for seeds in ((1,), (1, 2)))
    for numbers, column, points in [
        (one, "bleu_curve", [(30, [31]), (60, [61])]),
        (one, "loss_curve", [(30, [5]), (60, [2])]),
        (both, "bleu_curve", [(60, [61, 62])]),  # seed 2 has no point at 30
    ]:
        found = [number for number in numbers.of(column) if number.row == "plain"]
        assert [(n.at, list(n.ours.by_seed.values())) for n in found] == points
    assert found[0].ours.value == 61.5
    cells = shared.cells("toy/curves")
    assert cells["plain", "bleu_curve"]["ours"] == "61.0000"
    assert cells["ours", "bleu_curve"]["state"] == "its run has no curve"
    assert cells["plain", "final_loss"]["state"].endswith("has no valid_loss")


def test_the_reason_for_a_missing_number_is_given(made):
    cells = made.cells("toy/gates")
    assert (cells["plain", "gate"]["ours"], cells["plain", "gate"]["half"]) == ("0.2500", "")
    for column, said in {"aer": "gold", "second": "second", "wrong": "gate.encoder.9"}.items():
        assert cells["plain", column]["ours"] == "" and said in cells["plain", column]["state"]
    for path in (made.run("plain").folder.counts, made.run("ours").folder.result):
        path.unlink()
    cells = made.cells("toy/lengths")
    assert cells["plain", "all"]["state"].startswith("the counts")
    assert cells["ours", "all"]["state"].startswith("seed 1: begun")
    cells = made.cells("toy/table1")
    assert cells["plain", "bleu"]["ours"] and cells["plain", "bleu"]["half"] == ""
    assert made.cells("toy/table1", "--seeds", "3,4")["plain", "bleu"]["state"] == "not run"


def test_a_score_that_the_users_text_does_not_have_is_replaced_by_bleu(shared):
    found, bleu = shared.cells("toy/gates"), shared.cells("toy/table1")
    for row in ("plain", "ours"):
        for key in ("ours", "score", "half", "p"):
            assert found[row, "tokenised"][key] == bleu[row, "bleu"][key]


def test_error_rates_of_heads_are_compared_with_the_baselines_head(made):
    found = {"aer": [1, 3, 0, 2, 4] * 4, "aer_head2": [2, 3, 1, 4, 3] * 4}  # links that are right
    made.align(made.run("plain"), **{k: [(4, 4, 4, n, n) for n in v] for k, v in found.items()})
    cell = made.cells("toy/gates")["head2", "aer"]
    assert float(cell["ours"]) == near(100 - 100 * sum(found["aer_head2"]) / 80)
    assert float(cell["our_difference"]) == near(-100 * (52 - 40) / 80)
    assert 0 < float(cell["p"]) < 0.05


def test_what_has_changed_since_is_marked(made):
    """A number is of the settings and the data of its result, not of those of today."""
    made.make_stale(made.run("ours"))
    assert made.cells("toy/table1")["ours", "bleu"]["state"] == "configuration changed"
    assert "† ours: configuration changed" in made.hybrid("table", "toy/table1")
    made.make_stale(made.run("plain"))  # the baseline, even if it is not shown
    assert "† plain: configuration changed" in made.hybrid("table", "toy/table1", "ours")
    made.finish(made.run("plain"), worse(REFERENCES, 0.1, "plain"))
    manifest = made.run("plain").corpus_folder / "manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(content | {"files": {"bin/train.de-en.de.bin": "another"}}))
    assert made.cells("toy/table1")["plain", "bleu"]["state"] == "data changed"
    manifest.unlink()  # the corpus is not needed
    assert made.cells("toy/table1")["plain", "bleu"]["state"] == "done"


def test_runs_of_other_code_or_versions_are_told(made):
    assert "commit" not in made.hybrid("table", "toy/table1")
    made.change(made.run("ours"), versions={"a": 2}, code={"commit": "d", "modified": True})
    assert "commit c, d (modified); a 1, 2." in made.hybrid("table", "toy/table1")


def test_figures_are_of_tables_that_are_curves_or_lengths(made):
    curves = ("--columns", "bleu_curve,loss_curve", "--write", "c.svg", "--theme", "dark")
    made.hybrid("table", "toy/curves", *curves)
    assert (made.folder / "c.svg").read_text().startswith("<?xml")
    cases = {
        "toy/curves --write x.png": "--columns",
        "toy/curves toy/lengths --write x.png": "one table",
        "toy/curves ours --columns bleu_curve --write x.png": "measured",
        "toy/curves toy/lengths --columns short": "its columns are: bleu bleu_curve",
        "plain toy/curves": "name a table first",
    }
    check_refusals(cases.items(), lambda words: made.hybrid("table", *words.split()))
    assert not (made.folder / "x.png").exists()


def test_a_result_that_its_counts_contradict_is_not_believed(made):
    scores = json.loads(made.run("ours").folder.result.read_text())["scores"]
    made.change(made.run("ours"), scores={"bleu": {**scores["bleu"], "value": 99.9}})
    cell = made.cells("toy/table1")["ours", "bleu"]
    assert cell["ours"] == "" and "99.90" in cell["state"]
    made.run("ours").folder.counts.unlink()  # then there is nothing to compare with
    assert float(made.cells("toy/table1")["ours", "bleu"]["ours"]) == near(99.9)


def test_a_file_of_a_run_that_is_not_what_our_commands_write_is_named(made):
    folder = made.run("ours").folder
    for content in (b"", b"{}", gzip.compress(b"{}"), gzip.compress(b'{"counts": 5}')):
        folder.counts.write_bytes(content)
        cell = made.cells("toy/table1")["ours", "bleu"]
        assert cell["ours"] == "" and "counts.json.gz" in cell["state"]
