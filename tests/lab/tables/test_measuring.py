"""What stands in a table, measured from runs that are there: values, intervals, claims, figures."""

import csv
import io
import json
import math
import re

import numpy as np
import pytest
from made_runs import REFERENCES, SOURCES, score, sentences, worse, write_lines

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.tables.measuring import _over_seeds, measure
from fairseq_hybrid_attn.lab.tables.scored_sentences import ScoredTranslations


def cells_of(made, table, *flags):
    text = made.hybrid("table", table, "--format", "csv", *flags)
    return {(c["row"], c["column"]): c for c in csv.DictReader(io.StringIO(text))}


def lines(path):
    return path.read_text().splitlines()


def test_a_number_is_the_mean_over_seeds_beside_the_papers(shared):
    cells = cells_of(shared, "toy/table1", "--seeds", "2")
    found = {
        row: [score(lines(shared.run(row, seed=s).folder.hypotheses), REFERENCES) for s in (1, 2)]
        for row in ("plain", "ours")
    }
    plain, ours = cells["plain", "bleu"], cells["ours", "bleu"]
    assert float(ours["ours"]) == pytest.approx(np.mean(found["ours"]), abs=1e-4)
    assert ours["paper_difference"] == "1.0000" and plain["paper_difference"] == ""
    difference = np.mean(np.subtract(found["ours"], found["plain"]))
    assert float(ours["our_difference"]) == pytest.approx(difference, abs=1e-4)
    assert plain["interval_over"] == "test set" and plain["p_values"] == ""
    assert all(0 < float(p) <= 1 for p in ours["p_values"].split()) and plain["seeds"] == "1 2"
    third = cells_of(shared, "toy/table1", "--seeds", "2,3")["ours", "bleu"]
    assert third["seeds"] == "2" and len(third["p_values"].split()) == 1
    none = cells_of(shared, "toy/table1", "--no-significance")["ours", "bleu"]
    assert none["interval"] == none["p_values"] == "" and none["ours"]


def test_interval_over_seeds_is_students():
    # t(0.975) is 4.30265 with two degrees of freedom, and 12.7 with one, which is no interval.
    assert _over_seeds([30.0]) is None
    assert _over_seeds([30.0, 31.0]) is None
    assert _over_seeds([1.0, 2.0, 3.0]) == pytest.approx(4.30265 / math.sqrt(3), 1e-5)
    assert _over_seeds([5.0, 5.0, 5.0]) == 0


def test_the_interval_of_a_mean_has_the_same_sentences_of_all_systems():
    first, second = (worse(REFERENCES, 0.3, seed) for seed in "ab")
    ours, other = (
        ScoredTranslations("bleu", found, REFERENCES, "en", False) for found in (first, second)
    )
    assert ours.interval(ours) == pytest.approx(ours.interval(), rel=0.15)
    assert 0 < ours.interval(other) < ours.interval() + other.interval()
    elsewhere = ScoredTranslations("bleu", first, sentences(60, seed=9), "en", False)
    assert ours.interval(elsewhere) is None and ours.p_value(elsewhere) is None
    assert ScoredTranslations("bleu", ["a"], ["a"], "en", False).interval(ours) is None


def test_groups_are_scored_as_corpora_of_their_own(made):
    cells = cells_of(made, "toy/lengths", "--figure", "f.png")
    bounds = {"short": (0, 5), "middle": (5, 9), "long": (9, 99), "all": (0, 99)}
    sizes = {}
    for row in ("plain", "ours"):
        hypotheses = lines(made.run(row).folder.hypotheses)
        for column, (low, high) in bounds.items():
            chosen = [n for n, line in enumerate(SOURCES) if low < len(line.split()) <= high]
            expected = score([hypotheses[n] for n in chosen], [REFERENCES[n] for n in chosen])
            cell = cells[row, column]
            assert float(cell["ours"]) == pytest.approx(expected, abs=1e-4)
            assert cell["signature"].endswith(f"|sentences:{len(chosen)}")
            assert cell["interval_over"] == "test set" and float(cell["interval"]) > 0
            sizes[column] = len(chosen)
        assert cells[row, "longer"]["ours"] == ""
        assert cells[row, "longer"]["state"] == "no such sentences"
    assert sizes["short"] + sizes["middle"] + sizes["long"] == sizes["all"] == len(SOURCES)
    assert cells["plain", "all"]["p_values"] == ""
    assert 0 < float(cells["ours", "all"]["p_values"]) <= 1
    assert (made.folder / "f.png").read_bytes().startswith(b"\x89PNG")


def test_lengths_of_translations_and_what_they_cost(made):
    """Of translations that go on and on: sacrebleu's own count, and scores without the surplus."""
    before = lines(made.run("ours").folder.hypotheses)
    longer = [line + " and on" * 20 if n % 3 else line for n, line in enumerate(before)]
    made.finish(made.run("ours"), longer)
    cells = cells_of(made, "toy/cut")
    claims = made.hybrid("table", "toy/cut").partition("Claims:")[2]
    long = [n for n, line in enumerate(SOURCES) if len(line.split()) > 9]
    for name, numbers in {"": range(len(SOURCES)), "_long": long}.items():
        theirs = [longer[n] for n in numbers], [REFERENCES[n] for n in numbers]
        ratio, cut = cells["ours", f"ratio{name}"], cells["ours", f"cut{name}"]
        words, expected = (sum(len(line.split()) for line in side) for side in theirs)
        assert float(ratio["ours"]) == pytest.approx(words / expected, abs=1e-4)
        short = [" ".join(a.split()[: len(b.split())]) for a, b in zip(*theirs, strict=True)]
        assert float(cut["ours"]) == pytest.approx(score(short, theirs[1]), abs=1e-4)
        assert score(short, theirs[1]) > score(*theirs)
        assert cut["signature"].endswith(f"|sentences:{len(numbers)}|cut:reference")
        assert float(cut["interval"]) > 0 and float(cut["p_values"]) <= 1
    ours, plain = (float(cells[row, "cut"]["ours"]) for row in ("ours", "plain"))
    assert f" {ours - plain:+.2f} (" in claims
    assert "so it is on what is not there" in claims and "fewer than two sentences" in claims


def test_a_curve_is_of_the_checkpoints_that_all_seeds_have(shared):
    text = shared.hybrid("table", "toy/curves", "--format", "csv")
    found = [(c["row"], c["column"], c["at"], c["ours"]) for c in csv.DictReader(io.StringIO(text))]
    assert found[1:4] == [
        ("ours", "bleu", "", found[1][3]),
        ("plain", "bleu_curve", "30", "31.0000"),
        ("plain", "bleu_curve", "60", "61.0000"),
    ]
    assert ("plain", "loss_curve", "60", "2.0000") in found
    both = measure(shared.plan("toy/curves")).sections[1].lines[0]  # seed 2 has no point at 30
    assert (both.at, both.ours.value, both.ours.by_seed) == (60, 61.5, (61, 62))
    states = {c: cell["state"] for c, cell in cells_of(shared, "toy/curves").items()}
    assert states["ours", "bleu_curve"] == "its run has no curve"
    assert states["plain", "final_loss"].endswith("has no valid_loss")


def test_it_is_told_why_there_is_no_number(made):
    cells = cells_of(made, "toy/gates")
    assert cells["plain", "gate"]["ours"] == "0.2500"
    for column, said in {
        "aer": "its text has no gold alignment",
        "second": "its text has no test set second",
        "wrong": "toy/table1/plain/bleu/seed1 has no gate.encoder.9",
    }.items():
        assert (cells["plain", column]["ours"], cells["plain", column]["state"]) == ("", said)
    for path in (made.run("plain").folder.hypotheses, made.run("ours").folder.result):
        path.unlink()
    cells = cells_of(made, "toy/lengths")
    gone = "its translations or its test set are not here any more"
    assert cells["plain", "all"]["state"] == gone
    assert cells["ours", "all"]["state"] == "seed 1: begun (before its first update)"
    cells = cells_of(made, "toy/table1")
    assert cells["plain", "bleu"]["ours"] and cells["plain", "bleu"]["interval"] == ""
    assert cells_of(made, "toy/table1", "--seeds", "3,4")["plain", "bleu"]["state"] == "not run"


def test_what_is_not_up_to_date_is_marked(made):
    path = made.run("ours").folder.result
    result = json.loads(path.read_text())
    result["identity"]["code"] = "other"
    path.write_text(json.dumps(result))
    assert cells_of(made, "toy/table1")["ours", "bleu"]["state"].startswith("stale (code changed")
    printed = made.hybrid("table", "toy/table1")
    assert "† ours: stale (code changed" in printed and "† (a run is not up to date)" in printed


def test_figures_are_of_tables_that_are_curves_or_lengths(made):
    curves = ("--columns", "bleu_curve,loss_curve", "--figure", "c.svg", "--theme", "dark")
    made.hybrid("table", "toy/curves", *curves)
    assert (made.folder / "c.svg").read_text().startswith("<?xml")
    for arguments, said in {
        ("toy/curves", "--figure", "x.png"): "choose others by --columns",
        ("toy/cut", "--columns", "cut_long,longer", "--figure", "x.png"): "choose others by",
        ("toy/curves", "toy/lengths", "--figure", "x.png"): "one table at a time",
        ("toy/curves", "--theme", "dark"): "--figure FILE",
        ("toy/curves", "ours", "--columns", "bleu_curve", "--figure", "x.png"): "is measured yet",
        ("toy/curves", "--columns", "ter"): "its columns are: bleu bleu_curve",
        ("plain", "toy/curves"): "name a table first",
        ("toy/curves", "toy/lengths", "--columns", "short"): "its columns are: bleu bleu_curve",
    }.items():
        with pytest.raises(UserError, match=re.escape(said)):
            made.hybrid("table", *arguments)
    assert not (made.folder / "x.png").exists()


def test_test_sets_have_scores_of_their_own(made):
    """A test text of two sets, of which the second is worse."""
    for row in ("plain", "ours"):
        run = made.run(row)
        translations = worse(REFERENCES[:40], 0.1, row) + worse(REFERENCES[40:], 0.4, row)
        scores = {
            "bleu": {"value": score(translations[:40], REFERENCES[:40]), "signature": "x"},
            "bleu.second": {"value": score(translations[40:], REFERENCES[40:]), "signature": "x"},
        }
        for language, all_lines in (("de", SOURCES), ("en", REFERENCES)):
            write_lines(made.folder / f"text/test.{language}", all_lines[:40])
            write_lines(made.folder / f"text/test.second.{language}", all_lines[40:])
        made.finish(made.run(row), translations, scores)
        (run.corpus_folder / "raw/tests.json").write_text('{"test": 40, "second": 20}')
    cells = cells_of(made, "toy/gates")
    for column in ("bleu", "second"):
        assert float(cells["plain", column]["interval"]) > 0
    assert float(cells["plain", "second"]["interval"]) > float(cells["plain", "bleu"]["interval"])
    assert cells["plain", "second"]["score"] == "bleu.second"
