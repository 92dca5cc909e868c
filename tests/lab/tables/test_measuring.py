"""The numbers of a table, measured from existing runs: values, intervals, claims, figures."""

import gzip
import json
import math
import shutil

import numpy as np
import pytest
import yaml
from made_runs import REFERENCES, SOURCES, read_lines, score, worse
from refusals import check_refusals
from scipy.stats import spearmanr
from workspaces import write_yaml

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.config.paper_tables import load_table
from fairseq_hybrid_attn.lab.runs.run_counts import read_counts
from fairseq_hybrid_attn.lab.runs.run_scores import scores_of
from fairseq_hybrid_attn.lab.scores.counts import (
    SentenceCounts,
    draws,
    half_width,
    mean_drawn,
    p_value,
)
from fairseq_hybrid_attn.lab.scores.lengths_measure import Group
from fairseq_hybrid_attn.lab.scores.metrics import build_metric
from fairseq_hybrid_attn.lab.tables.measuring import measure
from fairseq_hybrid_attn.lab.tables.numbers import over_seeds


def counts_of(translations, references=REFERENCES):
    return build_metric("bleu", "en").counts(translations, references)


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
    assert base["over_seeds"] == base["p_values"] == "" and float(base["over_sentences"]) > 0
    assert all(0 < float(p) <= 1 for p in cell["p_values"].split()) and base["seeds"] == "1 2"
    third = shared.cells("toy/table1", "--seeds", "2,3")["ours", "bleu"]
    assert third["seeds"] == "2" and len(third["p_values"].split()) == 1
    none = shared.cells("toy/table1", "--no-significance")["ours", "bleu"]
    assert none["over_sentences"] == none["p_values"] == "" and none["ours"]


def test_three_seeds_have_both_intervals(made):
    found = [worse(REFERENCES, 0.2, f"seed {seed}") for seed in (1, 2, 3)]
    for seed, translations in enumerate(found, start=1):
        made.finish(made.run("plain", seed=seed), translations)
    cell = made.cells("toy/table1", "--seeds", "3")["plain", "bleu"]
    assert float(cell["over_seeds"]) == near(over_seeds([score(one, REFERENCES) for one in found]))
    assert float(cell["over_sentences"]) == near(
        half_width(mean_drawn(list(map(counts_of, found))))
    )


def test_columns_of_chrf_and_ter(made):
    """As those of BLEU; runs of before have neither."""
    table = yaml.safe_load((made.configs / "toy/ratios.yaml").read_text())
    columns = {n: {**table["columns"]["ratio"], "score": n} for n in ("chrf", "ter")}
    claims = [{"says": "TER falls", "above-zero": "plain/ter - ours/ter"}]
    table |= {"columns": columns, "claims": claims}
    write_yaml(made.configs / "toy/modern.yaml", table)
    texts = {row: read_lines(made.run(row).folder.hypotheses) for row in ("plain", "ours")}
    made.finish(made.run("plain"), texts["plain"], metrics=("bleu", "chrf", "ter"))
    assert made.cells("toy/modern")["ours", "chrf"]["state"].endswith("has no chrf")
    made.finish(made.run("ours"), texts["ours"], metrics=("bleu", "chrf", "ter"))
    cells = made.cells("toy/modern")
    for name in columns:
        plain, ours = (build_metric(name, "en").counts(text, REFERENCES) for text in texts.values())
        cell = cells["ours", name]
        assert float(cell["ours"]) == near(ours.value)
        assert float(cell["our_difference"]) == near(ours.value - plain.value)
        assert float(cell["over_sentences"]) == near(half_width(ours.drawn))
        assert float(cell["p_values"]) == near(p_value(ours, plain))
    numbers = json.loads(made.hybrid("table", "toy/modern", "--format", "json"))
    assert numbers["verdicts"][0]["by_seed"]["1"] == near(plain.value - ours.value)


def test_interval_over_seeds_is_students():
    # t(0.975) is 4.30265 with two degrees of freedom, and 12.7 with one, which says nothing.
    assert over_seeds([30.0]) is over_seeds([30.0, 31.0]) is None
    assert over_seeds([1.0, 2.0, 3.0]) == pytest.approx(4.30265 / math.sqrt(3), 1e-5)


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
            assert float(cell["over_sentences"]) > 0
        assert cells[row, "longer"]["ours"] == ""
        assert cells[row, "longer"]["state"] == "no such sentences"
    assert cells["plain", "all"]["p_values"] == ""
    assert 0 < float(cells["ours", "all"]["p_values"]) <= 1
    assert (made.folder / "f.png").read_bytes().startswith(b"\x89PNG")
    # Of a source without spaces, words are not counted.
    content = json.loads(gzip.decompress(made.run("ours").folder.counts.read_bytes()))
    content["source_words"] = None
    path = made.folder / "counts"
    path.write_bytes(gzip.compress(json.dumps(content).encode()))
    with pytest.raises(UserError, match="does not split the source into words"):
        read_counts(path).of("bleu", Group(0, 5))


def test_lengths_of_translations(made):
    """For translations that are too long: sacrebleu's own count."""
    before = read_lines(made.run("ours").folder.hypotheses)
    longer = [line + " and on" * 20 if n % 3 else line for n, line in enumerate(before)]
    made.finish(made.run("ours"), longer)
    cells = made.cells("toy/ratios")
    shown = made.hybrid("table", "toy/ratios")
    long = [n for n, line in enumerate(SOURCES) if len(line.split()) > 9]
    for name, numbers in {"": range(len(SOURCES)), "_long": long}.items():
        words, expected = (
            np.array([len(side[n].split()) for n in numbers]) for side in (longer, REFERENCES)
        )
        ratio = cells["ours", f"ratio{name}"]
        assert float(ratio["ours"]) == near(words.sum() / expected.sum())
        times = draws(len(numbers))
        assert float(ratio["over_sentences"]) == near(
            half_width(times @ words / (times @ expected))
        )
        assert f" {words.sum() / expected.sum():.3f} " in shown
    claims = shown.partition("Claims:")[2]
    assert "so it is on what is not there" in claims and "there are no such sentences" in claims


def test_a_curve_is_of_the_checkpoints_that_all_seeds_have(shared):
    one, both = (measure(shared.plan("toy/curves", seeds)) for seeds in ((1,), (1, 2)))
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
    for path in (made.run("plain").folder.counts, made.run("ours").folder.result):
        path.unlink()
    cells = made.cells("toy/lengths")
    assert cells["plain", "all"]["state"] == "the counts of its sentences are not here"
    assert cells["ours", "all"]["state"] == "seed 1: begun (before its first update)"
    cells = made.cells("toy/table1")
    assert cells["plain", "bleu"]["ours"] and cells["plain", "bleu"]["over_sentences"] == ""
    assert made.cells("toy/table1", "--seeds", "3,4")["plain", "bleu"]["state"] == "not run"


def test_a_score_that_the_users_text_does_not_have_is_replaced_by_bleu(shared):
    found, bleu = shared.cells("toy/gates"), shared.cells("toy/table1")
    for row in ("plain", "ours"):
        cell = found[row, "tokenised"]
        for key in ("ours", "score", "over_sentences", "p_values"):
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
    made.run("plain").folder.alignment_score.write_text(json.dumps({**entries[0], **how}))
    made.finish(made.run("plain"), REFERENCES, {"aer": scores[1], "aer.head2": scores[2]})
    plain, head2 = (SentenceCounts("aer", np.array(counts[head], float), "") for head in (1, 2))
    shown = made.cells("toy/gates")["head2", "aer"]["p_values"]
    assert float(shown) == near(p_value(head2, plain)) and float(shown) < 1


def test_what_has_changed_since_is_marked(made):
    """A number is of the settings and the data of its result, not of those of today."""
    made.make_stale(made.run("ours"))
    assert made.cells("toy/table1")["ours", "bleu"]["state"] == "configuration changed"
    printed = made.hybrid("table", "toy/table1")
    assert "† ours: configuration changed" in printed and "† (a run is not up to date)" in printed
    manifest = made.run("plain").corpus_folder / "manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(content | {"digest": "another"}))
    assert made.cells("toy/table1")["plain", "bleu"]["state"] == "data changed"
    manifest.unlink()  # the corpus is not needed
    assert made.cells("toy/table1")["plain", "bleu"]["state"] == "done"


def test_runs_of_other_code_or_versions_are_told(made):
    assert "Its runs differ" not in made.hybrid("table", "toy/table1")
    made.change(made.run("ours"), versions={"a": 2}, code={"commit": "d", "modified": True})
    assert "Its runs differ in commit c, d (modified); a 1, 2." in made.hybrid(
        "table", "toy/table1"
    )


def test_figures_are_of_tables_that_are_curves_or_lengths(made):
    curves = ("--columns", "bleu_curve,loss_curve", "--figure", "c.svg", "--theme", "dark")
    made.hybrid("table", "toy/curves", *curves)
    assert (made.folder / "c.svg").read_text().startswith("<?xml")
    cases = {
        "toy/curves --figure x.png": "choose others with --columns",
        "toy/ratios --columns ratio,longer --figure x.png": "choose others with",
        "toy/curves toy/lengths --figure x.png": "one table at a time",
        "toy/curves ours --columns bleu_curve --figure x.png": "is measured yet",
        "toy/curves --columns ter": "its columns are: bleu bleu_curve",
        "plain toy/curves": "name a table first",
        "toy/curves toy/lengths --columns short": "its columns are: bleu bleu_curve",
    }
    check_refusals(cases.items(), lambda words: made.hybrid("table", *words.split()))
    assert not (made.folder / "x.png").exists()


def test_each_test_set_has_its_own_score(made):
    """A test text of two sets, of which the second is worse; and a point of a curve."""
    run = made.run("plain")
    translations = worse(REFERENCES[:40], 0.1, "a") + worse(REFERENCES[40:], 0.4, "a")
    ends = {"": (0, 40), ".second": (40, 60)}
    parts = {suffix: slice(*part) for suffix, part in ends.items()}
    scores = {
        f"bleu{suffix}": {"value": score(translations[part], REFERENCES[part]), "signature": "x"}
        for suffix, part in parts.items()
    }
    made.finish(run, translations, scores, ends)
    point = run.folder.point(60)
    point.path.mkdir(parents=True)
    shutil.copy(run.folder.score, point.score)
    curve = [{"updates": 60, "scores": scores}]
    run.folder.curve.write_text(json.dumps({"curve": curve}))
    made.finish(run, translations, scores, ends, curve=curve)
    cells = made.cells("toy/gates")
    for column, suffix in (("bleu", ""), ("second", ".second")):
        part = parts[suffix]
        expected = half_width(counts_of(translations[part], REFERENCES[part]).drawn)
        assert float(cells["plain", column]["over_sentences"]) == near(expected)
    assert cells["plain", "second"]["score"] == "bleu.second"
    cell = made.cells("toy/curves", "--columns", "bleu_curve")["plain", "bleu_curve"]
    assert cell["at"] == "60" and cell["over_sentences"] == cells["plain", "bleu"]["over_sentences"]


def test_a_result_that_its_counts_contradict_is_not_believed(made):
    scores = json.loads(made.run("ours").folder.result.read_text())["scores"]
    made.change(made.run("ours"), scores={"bleu": {**scores["bleu"], "value": 99.9}})
    cell = made.cells("toy/table1")["ours", "bleu"]
    assert cell["ours"] == "" and "its result says 99.90, but its counts" in cell["state"]
    with pytest.raises(UserError, match="its result says 99.90, but its counts"):
        made.hybrid("publish", "toy/table1")
    made.run("ours").folder.counts.unlink()  # then there is nothing to compare with
    assert float(made.cells("toy/table1")["ours", "bleu"]["ours"]) == near(99.9)


def test_a_file_of_a_run_that_is_not_what_our_commands_write_is_named(made):
    folder = made.run("ours").folder
    for content in (b"", b"{}", gzip.compress(b"{}"), gzip.compress(b'{"counts": 5}')):
        folder.counts.write_bytes(content)
        cell = made.cells("toy/table1")["ours", "bleu"]
        assert cell["ours"] == "" and "counts.json.gz is not what a run writes" in cell["state"]
    counts = {"by_sentence": [[1, 2, "3", 0, 0]], "layer": 1, "head": 1, "table": []}
    counts |= {"aer": 1.0, "end_symbol": "x", "step": "x", "sentences": 1, "sure": 1, "possible": 1}
    for path, content in (
        (folder.score, 5),
        (folder.alignment_score, {"layer": 1}),
        (folder.alignment_score, counts),
        (folder.gates, {"models": []}),
        (folder.gates, {"models": [{"share": 0.5, "rows": [{}]}]}),
    ):
        before = path.read_text() if path.exists() else "null"
        path.write_text(json.dumps(content))
        with pytest.raises(UserError, match=path.name):
            scores_of(folder)
        path.write_text(before)


ROWS = {"plain": 30.0, "ours": 31.0, "third": 29.0, "fourth": 32.0}


def test_the_order_of_rows_is_compared_on_the_same_sentences(made):
    """Seeds are averaged."""
    path = made.configs / "toy/table1.yaml"
    content = yaml.safe_load(path.read_text())
    content["rows"] |= {row: {"paper": {"bleu": ROWS[row]}} for row in ("third", "fourth")}
    content |= {"rank": {"all": None, "some": ["plain", "third", "fourth"]}, "claims": []}
    write_yaml(path, content)
    for row, share in (("third", 0.11), ("fourth", 0.12)):
        for seed in (1, 2):
            made.finish(made.run(row, "bleu", seed), worse(REFERENCES, share, f"{row}{seed}"))
    bleu, nopos = measure(made.plan()).sections
    assert nopos.ranks == {}  # one row has a paper's number
    assert bleu.ranks["some"].rows == 3
    assert measure(made.plan(), significance=False).sections[0].ranks["all"].low is None
    counts = [
        [counts_of(read_lines(made.run(row, "bleu", seed).folder.hypotheses)) for seed in (1, 2)]
        for row in ROWS
    ]
    papers, found = list(ROWS.values()), bleu.ranks["all"]
    ours = [np.mean([one.value for one in of_row]) for of_row in counts]
    drawn = np.array([mean_drawn(of_row) for of_row in counts]).T
    correlations = [spearmanr(papers, row).statistic for row in drawn]
    low, high = np.quantile(correlations, (0.025, 0.975))
    expected = (spearmanr(papers, ours).statistic, low, high)
    assert (found.value, found.low, found.high) == pytest.approx(expected) and low < high
    note = f"ours is {found.value:.2f}, 95 % interval {found.low:.2f} to {found.high:.2f} over"
    assert note in made.hybrid("table", "toy/table1", "--seeds", "2")


def test_wrong_orders_are_refused(made):
    cases = [
        ({"rank": "yes please"}, "rank"),
        ({"rank": {"some": ["nowhere"]}}, "rank: the table has no row nowhere"),
        (
            {"rank": {"some": ["plain", "ours", "ours"]}},
            "rank: some: an order needs at least three",
        ),
        ({"rank": {"some": "plain"}}, "rank"),
    ]

    def load(keys):
        path = made.configs / "toy/table1.yaml"
        content = yaml.safe_load(path.read_text())
        write_yaml(path, {**content, "rank": {}, **keys})
        load_table("toy/table1", made.configs)

    check_refusals(cases, load)
