"""Publishing more seeds of a table whose earlier runs are not here any more."""

import copy
import dataclasses
import json
import shutil
from statistics import fmean

import pytest
import yaml
from made_runs import REFERENCES, read_lines, worse
from refusals import check_refusals, files
from workspaces import write_yaml

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.scores.metrics import build_metric
from fairseq_hybrid_attn.lab.tables.kept_tables import read_tables
from fairseq_hybrid_attn.lab.tables.measuring import measure
from fairseq_hybrid_attn.lab.tables.run_results import RunResults

NAME = "toy/table1"
SHARES = {"plain/bleu": 0.1, "plain/nopos": 0.5, "ours/bleu": 0.13, "ours/nopos": 0.15}


@pytest.fixture
def ranked(made):
    """The table of two seeds, with an order of rows."""
    path = made.configs / "toy/table1.yaml"
    content = yaml.safe_load(path.read_text())
    content["rows"]["third"] = {"paper": {"bleu": 29.0, "nopos": 14.0}}
    write_yaml(path, {**content, "rank": {"all": None}})
    for seed in (1, 2):
        made.finish(made.run("third", "bleu", seed), worse(REFERENCES, 0.2, f"third{seed}"))
    return made


def measured(made, *seeds):
    return measure(RunResults(made.plan(seeds=seeds)))


def published(made, *words):
    made.hybrid("publish", NAME, *words)
    (kept,) = read_tables(made.folder / "results", made.configs)
    return kept


def lines(numbers):
    return [line for section in numbers.sections for line in section.lines]


def forget(made, seed):
    for row, column in (name.split("/") for name in SHARES):
        shutil.rmtree(made.run(row, column, seed).folder.path)


def test_two_seeds_published_apart_are_as_if_together_but_for_intervals(ranked):
    one, two, together = measured(ranked, 1), measured(ranked, 2), measured(ranked, 1, 2)
    assert published(ranked, "--seeds", "1,").numbers == one
    forget(ranked, 1)
    kept = published(ranked, "--seeds", "2,", "--add")
    assert len(kept.results) == 10 and kept.plan.seeds == (1, 2)
    compared = 0
    for line, *parts, whole in zip(*map(lines, (kept.numbers, one, two, together)), strict=True):
        if whole.ours is None:
            assert line == whole
            continue
        ours = line.ours
        assert ours.interval == fmean(part.ours.interval for part in parts) >= whole.ours.interval
        assert ours.over == "test set, apart"
        same = {"interval": whole.ours.interval, "over": "test set"}
        assert dataclasses.replace(ours, **same) == whole.ours
        compared += 1
    assert compared == 5
    for found, *parts, whole in zip(
        *(numbers.verdicts for numbers in (kept.numbers, one, two, together)), strict=True
    ):
        assert found.by_seed == whole.by_seed and found.paper == whole.paper
        low, high = found.over_sentences
        assert low == pytest.approx(fmean(part.over_sentences[0] for part in parts))
        assert high == pytest.approx(fmean(part.over_sentences[1] for part in parts))
        assert low <= whole.over_sentences[0] < whole.over_sentences[1] <= high
        assert found.verdict == whole.verdict
    ranks = [numbers.sections[0].ranks["all"] for numbers in (kept.numbers, one, two, together)]
    assert ranks[0].value == ranks[3].value and ranks[0].low is None
    assert ranks[0].apart == {"1": ranks[1], "2": ranks[2]}
    document = (ranked.folder / "RESULTS.md").read_text()
    assert "the mean of their intervals, each" in document
    assert f" Seed 1: {ranks[1].value:.2f}, 95 % interval" in document
    with pytest.raises(UserError, match="nothing to add"):
        published(ranked, "--seeds", "2,", "--add")


def test_a_claim_that_was_written_later_has_the_interval_of_what_is_restored(made):
    published(made, "--seeds", "1,")
    forget(made, 1)
    published(made, "--seeds", "2,", "--add")
    table = made.configs / f"{NAME}.yaml"
    content = yaml.safe_load(table.read_text())
    content["claims"].append({"says": "late", "above-zero": "plain/bleu - ours/nopos"})
    write_yaml(table, content)
    before, two = measured(made, 2).verdicts[-1], published(made, "--seeds", "2,", "--add")
    late = two.numbers.verdicts[-1]
    moved = [end - before.ours + late.ours for end in before.over_sentences]
    assert late.resampled == ("2",) and late.over_sentences == pytest.approx(moved)
    assert list(late.by_seed) == ["1", "2"]


def test_an_order_is_of_the_seeds_that_all_rows_have(ranked):
    one, two, together = (
        measured(ranked, *seeds).sections[0].ranks["all"] for seeds in ((1,), (2,), (1, 2))
    )
    words = ("--columns", "bleu", "--seeds")
    published(ranked, *words, "1,")
    forget(ranked, 1)
    added = ("plain", "ours", *words, "2,", "--add")
    assert published(ranked, *added).numbers.sections[0].ranks["all"] == one
    kept = published(ranked, *added[:2], "third", *added[2:]).numbers.sections[0].ranks["all"]
    assert (kept.value, kept.seeds) == (together.value, (1, 2))
    assert kept.apart == {"1": one, "2": two}


def test_a_run_without_its_translations_is_not_added(made):
    """Its row would have no interval any more."""
    made.hybrid("publish", NAME, "--seeds", "1,")
    made.hybrid("publish", "toy/other", "--seeds", "2,")  # it has ours
    made.run("ours", seed=2).folder.hypotheses.unlink()
    words = f"publish {NAME} --seeds 2, --add"
    problem = r"would lose its interval of ours \(bleu\): translations"
    check_refusals([(words, problem)], lambda text: made.hybrid(*text.split()))


def test_seeds_whose_words_were_counted_otherwise_are_not_averaged(made):
    words = ("toy/cut", "--columns", "ratio", "--seeds")
    made.hybrid("publish", *words, "1,")
    for row in ("plain", "ours"):
        path = made.run(row, seed=2).folder.result
        result = json.loads(path.read_text())
        score = build_metric("given_bleu", "en").score(
            read_lines(made.run(row, seed=2).folder.hypotheses), REFERENCES
        )
        given = {"value": score.value, "signature": score.signature}
        result["scores"]["given_bleu"] = given
        path.write_text(json.dumps(result))
    refused = [("2,", "length_ratio is .*tok:none.*, of published seeds .*tok:13a")]
    check_refusals(refused, lambda seeds: made.hybrid("publish", *words, seeds, "--add"))


def test_points_of_curves_are_joined_at_the_same_update(made):
    def curve(plan_seeds):
        found = measure(RunResults(made.plan("toy/curves", plan_seeds)), significance=False)
        return {(line.row, line.at): line.ours for line in found.sections[1].lines}

    together = curve((1, 2))
    made.hybrid("publish", "toy/curves", "--seeds", "1,")
    forget(made, 1)
    made.hybrid("publish", "toy/curves", "--seeds", "2,", "--add")
    (kept,) = read_tables(made.folder / "results", made.configs)
    points = {(line.row, line.at): line.ours for line in kept.numbers.sections[1].lines}
    assert points == together and points["plain", 60].by_seed == (61.0, 62.0)


def test_a_third_seed_gives_intervals_over_seeds(made):
    before = published(made, "--seeds", "2").numbers
    two = before.verdicts
    for name, share in SHARES.items():
        made.finish(made.run(*name.split("/"), 3), worse(REFERENCES, share, f"{name}3"))
    together, three = measured(made, 1, 2, 3), measured(made, 3).verdicts
    forget(made, 1)
    forget(made, 2)
    kept = published(made, "--seeds", "3,", "--add")
    parts = [lines(before), lines(measured(made, 3))]
    for line, whole, *of in zip(lines(kept.numbers), lines(together), *parts, strict=True):
        mean = sum(one.ours.interval * len(one.ours.seeds) for one in of) / 3
        assert line.ours == dataclasses.replace(whole.ours, over_sentences=pytest.approx(mean))
    spans = [verdict.over_seeds for verdict in kept.numbers.verdicts]
    assert spans == [pytest.approx(verdict.over_seeds) for verdict in together.verdicts]
    for verdict, *parts in zip(kept.numbers.verdicts, two, three, strict=True):
        highs = [part.over_sentences[1] for part in parts]
        assert verdict.over_sentences[1] == pytest.approx((2 * highs[0] + highs[1]) / 3)


@pytest.mark.parametrize("seeds", [2, 3])
def test_an_interval_over_sentences_is_added_once_there_are_translations(made, seeds):
    for name, share in SHARES.items():
        made.finish(made.run(*name.split("/"), 3), worse(REFERENCES, share, f"{name}3"))
    hypotheses = made.run("ours", "bleu", 2).folder.hypotheses
    translations = hypotheses.read_bytes()
    hypotheses.unlink()
    without = published(made, "--seeds", str(seeds)).numbers
    hypotheses.write_bytes(translations)
    both = published(made, "--seeds", str(seeds), "--add").numbers
    whole = [one.ours for one in lines(measured(made, *range(1, seeds + 1)))]
    assert [line.ours.resampled is None for line in lines(without)].count(True) == 1
    assert [line.ours.resampled for line in lines(both)] == [one.resampled for one in whole]


def test_rows_are_added_beside_a_baseline_that_was_done_again(made):
    """Its result stays as it was published, since its scores are the same."""
    published(made, "--seeds", "1,")
    made.hybrid("publish", "toy/other", "--seeds", "2")  # it has ours, of both seeds
    kept = made.folder / f"results/runs/full@text/{made.run('ours', seed=2).name}.json"
    before = kept.read_text()
    result = made.run("ours", seed=2).folder.result
    result.write_text(json.dumps(json.loads(result.read_text()) | {"finished": "later"}))
    forget(made, 1)
    words = ("--columns", "bleu", "--seeds", "2,", "--add")
    made.hybrid("publish", NAME, *words)
    assert kept.read_text() == before
    table, _ = read_tables(made.folder / "results", made.configs)
    seeds = [line.ours.seeds for line in lines(table.numbers)]
    assert seeds == [(1, 2), (1, 2), (1,), (1,)]


def test_what_would_mix_up_results_is_refused_before_anything_is_written(made):
    made.hybrid("publish", NAME, "toy/other", "--columns", "bleu", "--seeds", "1,")
    one, two = (made.run("ours", seed=seed) for seed in (1, 2))
    cases = {
        f"{NAME} --columns bleu --seeds 4,": "nothing to add",
        f"{NAME} ours --columns bleu --seeds 2,": "also name the row plain",
        f"{NAME} --seeds 2,": "has other columns; name only some of bleu",
        f"{NAME} --columns bleu --seeds 2, --source-lang en --target-lang de": "another .* text",
        "toy/lengths --seeds 2,": "toy/lengths is not published in .*; publish it without --add",
    }

    def add(words):
        before = files(made.folder / "results")
        try:
            made.hybrid("publish", *words.split(), "--add")
        finally:
            assert files(made.folder / "results") == before

    check_refusals(cases.items(), add)
    words = f"{NAME} --columns bleu --seeds 2,"
    result = json.loads(two.folder.result.read_text())
    for change, problem in (
        ({"identity": {"recipe": "another"}}, "configuration or data are not those of published"),
        ({"scores": {"bleu": {"signature": "tok:zh"}}}, "bleu is tok:zh, of published .* tok:13a"),
    ):
        changed = copy.deepcopy(result)
        changed["identity"] |= change.get("identity", {})
        changed["scores"]["bleu"] |= change.get("scores", {}).get("bleu", {})
        two.folder.result.write_text(json.dumps(changed))
        check_refusals([(words, problem)], add)
    made.finish(two, worse(REFERENCES, 0.13, "ours/bleu2"))
    made.finish(one, worse(REFERENCES, 0.3, "other"))
    problem = "ours/bleu/seed1 was published with bleu .*; delete the run here, and `restore` it"
    check_refusals([(words.replace("2,", "2"), problem)], add)
    forget(made, 1)
    made.hybrid("publish", *words.split(), "--add")
    for name, share in SHARES.items():
        made.finish(made.run(*name.split("/"), 3), worse(REFERENCES, share, f"{name}3"))
    check_refusals([(words.replace("2,", "2,3"), "plain: seed 2 was published")], add)
