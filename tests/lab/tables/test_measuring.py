"""The numbers of a table, measured from existing runs: values, intervals, claims, figures."""

import json
import math
import re
from types import SimpleNamespace

import numpy as np
import pytest
from made_runs import REFERENCES, SOURCES, read_lines, score, sentences, worse, write_lines
from refusals import check_refusals

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.alignment.error_rate import Counts, p_value
from fairseq_hybrid_attn.lab.files.json_files import read_json, write_json
from fairseq_hybrid_attn.lab.scores.significance import draw
from fairseq_hybrid_attn.lab.tables.measuring import measure
from fairseq_hybrid_attn.lab.tables.numbers import over_seeds
from fairseq_hybrid_attn.lab.tables.run_results import (
    RunResults,
    ScoredLengths,
    ScoredTranslations,
    source_lengths,
)

CURVE = [{"updates": 60, "scores": {"bleu": {"value": 61.0, "signature": "x"}}}]


def near(value):
    return pytest.approx(value, abs=1e-4)


def test_a_number_is_the_mean_over_seeds_beside_the_papers(shared):
    cells = shared.cells("toy/table1", "--seeds", "2")
    plain, ours = (
        [score(read_lines(shared.run(row, seed=s).folder.hypotheses), REFERENCES) for s in (1, 2)]
        for row in ("plain", "ours")
    )
    base, cell = cells["plain", "bleu"], cells["ours", "bleu"]
    assert float(cell["ours"]) == near(np.mean(ours))
    assert cell["paper_difference"] == "1.0000" and base["paper_difference"] == ""
    assert float(cell["our_difference"]) == near(np.mean(ours) - np.mean(plain))
    assert base["interval_over"] == "test set" and base["p_values"] == ""
    assert all(0 < float(p) <= 1 for p in cell["p_values"].split()) and base["seeds"] == "1 2"
    third = shared.cells("toy/table1", "--seeds", "2,3")["ours", "bleu"]
    assert third["seeds"] == "2" and len(third["p_values"].split()) == 1
    none = shared.cells("toy/table1", "--no-significance")["ours", "bleu"]
    assert none["interval"] == none["p_values"] == "" and none["ours"]


def test_three_seeds_have_both_intervals(made):
    found = [worse(REFERENCES, 0.2, f"seed {seed}") for seed in (1, 2, 3)]
    for seed, translations in enumerate(found, start=1):
        made.finish(made.run("plain", seed=seed), translations)
    cell = made.cells("toy/table1", "--seeds", "3")["plain", "bleu"]
    assert cell["interval_over"] == "seeds"
    assert float(cell["interval"]) == near(over_seeds([score(one, REFERENCES) for one in found]))
    first, *others = (ScoredTranslations("bleu", one, REFERENCES, "en", False) for one in found)
    assert float(cell["over_sentences"]) == near(first.interval(*others))


def test_length_ratios_have_intervals():
    """Against sums of words on the same draws."""
    ours, other = (worse(REFERENCES, 0.3, seed) for seed in "ab")
    ours = [line.partition(" ")[2] if n % 3 else line for n, line in enumerate(ours)]
    first, second = (ScoredLengths("given_bleu", x, REFERENCES, "en", False) for x in (ours, other))
    drawn = draw(len(REFERENCES), 1000)
    words, theirs, of = (
        np.array([len(x.split()) for x in y])[drawn].sum(1) for y in (ours, other, REFERENCES)
    )
    low, high = np.quantile(words / of, (0.025, 0.975))
    assert first.interval() == pytest.approx((high - low) / 2) and high > low
    low, high = np.quantile((words + theirs) / (2 * of), (0.025, 0.975))
    assert first.interval(second) == pytest.approx((high - low) / 2)
    one, empty = ["a b", "c"], ["a b", ""]  # some draws have no word in the references
    assert ScoredLengths("given_bleu", one, empty, "en", False).interval() is None


def test_interval_over_seeds_is_students():
    # t(0.975) is 4.30265 with two degrees of freedom, and 12.7 with one, which says nothing.
    assert over_seeds([30.0]) is over_seeds([30.0, 31.0]) is None
    assert over_seeds([1.0, 2.0, 3.0]) == pytest.approx(4.30265 / math.sqrt(3), 1e-5)


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


def test_groups_are_scored_as_separate_corpora(made):
    cells = made.cells("toy/lengths", "--figure", "f.png")
    bounds = {"short": (0, 5), "middle": (5, 9), "long": (9, 99), "all": (0, 99)}
    for row in ("plain", "ours"):
        hypotheses = read_lines(made.run(row).folder.hypotheses)
        for column, (low, high) in bounds.items():
            chosen = [n for n, line in enumerate(SOURCES) if low < len(line.split()) <= high]
            expected = score([hypotheses[n] for n in chosen], [REFERENCES[n] for n in chosen])
            cell = cells[row, column]
            assert float(cell["ours"]) == near(expected)
            assert cell["signature"].endswith(f"|sentences:{len(chosen)}")
            assert cell["interval_over"] == "test set" and float(cell["interval"]) > 0
        assert cells[row, "longer"]["ours"] == ""
        assert cells[row, "longer"]["state"] == "no such sentences"
    assert cells["plain", "all"]["p_values"] == ""
    assert 0 < float(cells["ours", "all"]["p_values"]) <= 1
    assert (made.folder / "f.png").read_bytes().startswith(b"\x89PNG")
    recipe = SimpleNamespace(tokenizer={"zh": "none"})
    chinese = SimpleNamespace(prepared_corpus=SimpleNamespace(source="zh"), recipe=recipe)
    check_refusals([(chinese, "does not split zh into words")], source_lengths)


def test_lengths_of_translations_and_what_they_cost(made):
    """For translations that are too long: sacrebleu's own count, and scores without the surplus."""
    before = read_lines(made.run("ours").folder.hypotheses)
    longer = [line + " and on" * 20 if n % 3 else line for n, line in enumerate(before)]
    made.finish(made.run("ours"), longer)
    cells = made.cells("toy/cut")
    shown = made.hybrid("table", "toy/cut")
    claims = shown.partition("Claims:")[2]
    long = [n for n, line in enumerate(SOURCES) if len(line.split()) > 9]
    for name, numbers in {"": range(len(SOURCES)), "_long": long}.items():
        theirs = [longer[n] for n in numbers], [REFERENCES[n] for n in numbers]
        ratio, cut = cells["ours", f"ratio{name}"], cells["ours", f"cut{name}"]
        words, expected = (sum(len(line.split()) for line in side) for side in theirs)
        assert float(ratio["ours"]) == near(words / expected) and float(ratio["interval"]) > 0
        assert f" {words / expected:.3f} " in shown
        short = [" ".join(a.split()[: len(b.split())]) for a, b in zip(*theirs, strict=True)]
        assert float(cut["ours"]) == near(score(short, theirs[1]))
        assert cut["signature"].endswith(f"|sentences:{len(numbers)}|cut:reference")
        assert float(cut["interval"]) > 0 and float(cut["p_values"]) <= 1
    ours, plain = (float(cells[row, "cut"]["ours"]) for row in ("ours", "plain"))
    assert f" {ours - plain:+.2f} (" in claims
    assert "so it is on what is not there" in claims and "fewer than two sentences" in claims


def test_a_curve_is_of_the_checkpoints_that_all_seeds_have(shared):
    one, both = (measure(RunResults(shared.plan("toy/curves", seeds))) for seeds in ((1,), (1, 2)))
    for numbers, section, points in [
        (one, 1, [(30, (31,)), (60, (61,))]),
        (one, 2, [(30, (5,)), (60, (2,))]),
        (both, 1, [(60, (61, 62))]),  # seed 2 has no point at 30
    ]:
        lines = [line for line in numbers.sections[section].lines if line.row == "plain"]
        assert [(line.at, line.ours.by_seed) for line in lines] == points
    assert lines[0].ours.value == 61.5
    cells = shared.cells("toy/curves")
    assert cells["plain", "bleu_curve"]["ours"] == "61.0000"
    assert cells["ours", "bleu_curve"]["state"] == "its run has no curve"
    assert cells["plain", "final_loss"]["state"].endswith("has no valid_loss")


def test_the_reason_for_a_missing_number_is_given(made):
    cells = made.cells("toy/gates")
    assert cells["plain", "gate"]["ours"] == "0.2500"
    for column, said in {
        "aer": "its text has no gold alignment",
        "second": "its text has no test set second",
        "wrong": "toy/table1/plain/bleu/seed1 has no gate.encoder.9",
    }.items():
        assert (cells["plain", column]["ours"], cells["plain", column]["state"]) == ("", said)
    for path in (made.run("plain").folder.hypotheses, made.run("ours").folder.result):
        path.unlink()
    cells = made.cells("toy/lengths")
    gone = "its translations or its test set no longer exist"
    assert cells["plain", "all"]["state"] == gone
    assert cells["ours", "all"]["state"] == "seed 1: begun (before its first update)"
    cells = made.cells("toy/table1")
    assert cells["plain", "bleu"]["ours"] and cells["plain", "bleu"]["interval"] == ""
    assert made.cells("toy/table1", "--seeds", "3,4")["plain", "bleu"]["state"] == "not run"


def test_a_score_that_the_users_text_does_not_have_is_replaced_by_bleu(shared):
    found, bleu = shared.cells("toy/gates"), shared.cells("toy/table1")
    for row in ("plain", "ours"):
        cell = found[row, "tokenised"]
        for key in ("ours", "score", "interval", "p_values"):
            assert cell[key] == bleu[row, "bleu"][key]


def test_p_values_of_a_head_are_against_the_baselines_head(made):
    found = {1: [1, 3, 0, 2, 4] * 4, 2: [2, 3, 1, 4, 3] * 4}  # links of each sentence
    counts = {head: [(4, 4, 4, n, n) for n in found[head]] for head in found}
    facts = {"layer": 1, "sure": 80, "possible": 80}
    rates = {head: 100 - 100 * sum(found[head]) / 80 for head in found}
    entries = [
        {**facts, "head": head, "aer": rates[head], "by_sentence": counts[head]} for head in counts
    ]
    how = {"end_symbol": "x", "step": "x", "selected_layer": 1, "sentences": 20, "table": entries}
    scores = {head: {"value": rates[head], "signature": "x"} for head in rates}
    made.finish(made.run("plain"), REFERENCES, {"aer": scores[1], "aer.head2": scores[2]})
    made.run("plain").folder.alignment_score.write_text(json.dumps({**entries[0], **how}))
    plain, head2 = ([Counts(*one) for one in counts[head]] for head in (1, 2))
    shown = made.cells("toy/gates")["head2", "aer"]["p_values"]
    assert float(shown) == near(p_value(head2, plain)) and float(shown) < 1


def test_what_is_not_up_to_date_is_marked(made):
    made.make_stale(made.run("ours"))
    assert made.cells("toy/table1")["ours", "bleu"]["state"].startswith("stale (config")
    printed = made.hybrid("table", "toy/table1")
    assert "† ours: stale (config" in printed and "† (a run is not up to date)" in printed


def test_figures_are_of_tables_that_are_curves_or_lengths(made):
    curves = ("--columns", "bleu_curve,loss_curve", "--figure", "c.svg", "--theme", "dark")
    made.hybrid("table", "toy/curves", *curves)
    assert (made.folder / "c.svg").read_text().startswith("<?xml")
    cases = {
        "toy/curves --figure x.png": "choose others with --columns",
        "toy/cut --columns cut_long,longer --figure x.png": "choose others with",
        "toy/curves toy/lengths --figure x.png": "one table at a time",
        "toy/curves --theme dark": "--figure FILE",
        "toy/curves ours --columns bleu_curve --figure x.png": "is measured yet",
        "toy/curves --columns ter": "its columns are: bleu bleu_curve",
        "plain toy/curves": "name a table first",
        "toy/curves toy/lengths --columns short": "its columns are: bleu bleu_curve",
    }
    check_refusals(cases.items(), lambda words: made.hybrid("table", *words.split()))
    assert not (made.folder / "x.png").exists()


def test_each_test_set_has_its_own_score(made):
    """A test text of two sets, of which the second is worse."""
    for language, lines in (("de", SOURCES), ("en", REFERENCES)):
        write_lines(made.folder / f"text/test.{language}", lines[:40])
        write_lines(made.folder / f"text/test.second.{language}", lines[40:])
    run = made.run("plain")
    translations = worse(REFERENCES[:40], 0.1, "a") + worse(REFERENCES[40:], 0.4, "a")
    parts = {"bleu": slice(0, 40), "bleu.second": slice(40, 60)}
    scores = {
        name: {"value": score(translations[part], REFERENCES[part]), "signature": "x"}
        for name, part in parts.items()
    }
    made.finish(run, translations, scores)
    (run.corpus_folder / "raw/tests.json").write_text('{"test": 40, "second": 20}')
    cells = made.cells("toy/gates")
    first, second = (cells["plain", column] for column in ("bleu", "second"))
    assert float(second["interval"]) > float(first["interval"]) > 0
    assert second["score"] == "bleu.second"
    # A point of a curve is of the first.
    point = run.folder.point(60)
    point.path.mkdir(parents=True)
    write_lines(point.hypotheses, translations)
    write_json(run.folder.result, {**read_json(run.folder.result), "curve": CURVE})
    cell = made.cells("toy/curves", "--columns", "bleu_curve")["plain", "bleu_curve"]
    assert cell["at"] == "60" and cell["interval"] == first["interval"]


def test_a_result_that_its_translations_contradict_is_not_believed(shared, tmp_path):
    """Whichever file was changed, the table says so instead of the number; nothing is published."""
    changes = {
        "the result": lambda run: change(run.folder.result, value=99.9),
        "both": lambda run: [
            change(run.folder.result, value=99.9),
            write_json(run.folder.score, stored(99.9)),
        ],
        "the score": lambda run: write_json(run.folder.score, stored(12.0)),
        "the translations": lambda run: write_lines(run.folder.hypotheses, SOURCES),
        "some of them": lambda run: write_lines(
            run.folder.hypotheses, read_lines(run.folder.hypotheses)[:50]
        ),
    }

    def stored(value):
        return {"scores": {"bleu": {"value": value, "signature": ""}}, "sentences": 60}

    def change(path, value):
        result = json.loads(path.read_text())
        result["scores"]["bleu"]["value"] = value
        path.write_text(json.dumps(result))

    for name, make in changes.items():
        made = shared.copy(tmp_path / name.replace(" ", "_"))
        run = made.run("ours")
        make(run)
        cell = made.cells("toy/table1")["ours", "bleu"]
        assert cell["ours"] == "", name
        shown = made.hybrid("table", "toy/table1")
        wanted = "has 50 lines" if name == "some of them" else r"its result says \d+\.\d\d, but"
        assert re.search(wanted, " ".join(shown.split())), (name, shown)
        with pytest.raises(UserError, match=wanted):
            made.hybrid("publish", "toy/table1", "--results", made.folder / "results")
        assert not (made.folder / "results").exists()
        # What needs no scoring is looked at even in a hurry.
        quick = made.cells("toy/table1", "--no-significance")["ours", "bleu"]
        assert (quick["ours"] == "") == (name == "the score"), name
    # Without translations, there is nothing to compare with.
    made = shared.copy(tmp_path / "gone")
    change(made.run("ours").folder.result, value=99.9)
    made.run("ours").folder.hypotheses.unlink()
    assert float(made.cells("toy/table1")["ours", "bleu"]["ours"]) == near(99.9)


def test_a_file_of_a_run_that_is_not_what_our_commands_write_is_named(made):
    folder = made.run("ours").folder
    counts = {"by_sentence": [[1, 2, "3", 0, 0]], "layer": 1, "head": 1, "table": []}
    counts |= {"aer": 1.0, "end_symbol": "x", "step": "x", "sentences": 1, "sure": 1, "possible": 1}
    result = json.loads(folder.result.read_text())
    before = folder.result.read_text()
    for path, content in (
        (folder.score, 5),
        (folder.score, {"scores": {}}),
        (folder.score, {"scores": {"bleu": {"value": "high", "signature": "s"}}, "sentences": 60}),
        (folder.alignment_score, {"layer": 1}),
        (folder.alignment_score, counts),
        (folder.gates, {"models": []}),
        (folder.gates, {"models": [{"share": 0.5, "rows": [{}]}]}),
        (folder.result, {**result, "commands": {"train": [5]}}),
        (folder.result, {name: result[name] for name in result if name != "devices"}),
    ):
        path.write_text(json.dumps(content))
        wanted = "value: high: use a number" if "high" in str(content) else path.name
        if path != folder.result:
            cell = made.cells("toy/table1", "--no-significance")["ours", "bleu"]
            assert cell["ours"] == "" and wanted in cell["state"], content
        with pytest.raises(UserError, match=wanted):
            made.hybrid("publish", "toy/table1", "--results", made.folder / "results")
        assert not (made.folder / "results").exists(), content
        path.unlink()
        folder.result.write_text(before)
