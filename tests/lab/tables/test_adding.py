"""Publishing more seeds of a table whose earlier runs are not here any more."""

import dataclasses
import json
import shutil
from statistics import fmean

import pytest
import yaml
from made_runs import REFERENCES, worse
from refusals import check_refusals, files
from workspaces import write_yaml

from fairseq_hybrid_attn.lab.tables.adding import with_more_seeds
from fairseq_hybrid_attn.lab.tables.measuring import measure
from fairseq_hybrid_attn.lab.tables.results_folder import read_tables
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
    assert len(kept.results) == 10 and kept.command[-2:] != ["--seeds", "2,"]
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
        for end in ("value", "low", "high"):
            mean = fmean(getattr(part.ours, end) for part in parts)
            assert getattr(found.ours, end) == pytest.approx(mean)
        assert found.ours.value == pytest.approx(whole.ours.value)
        assert found.ours.low <= whole.ours.low < whole.ours.high <= found.ours.high
        assert found.verdict == whole.verdict
    ranks = [numbers.sections[0].ranks["all"] for numbers in (kept.numbers, one, two, together)]
    assert ranks[0].value == ranks[3].value and ranks[0].low is None
    assert ranks[0].apart == tuple(ranks[1:3])
    document = (ranked.folder / "RESULTS.md").read_text()
    assert "the mean of the seeds' own" in document
    assert f"Seeds that were published apart: {ranks[1].value:.2f}, 95 % interval" in document


def test_a_third_seed_gives_intervals_over_seeds(made):
    published(made, "--seeds", "2")
    for name, share in SHARES.items():
        made.finish(made.run(*name.split("/"), 3), worse(REFERENCES, share, f"{name}3"))
    together = measured(made, 1, 2, 3)
    forget(made, 1)
    forget(made, 2)
    kept = published(made, "--seeds", "3,", "--add")
    assert [line.ours for line in lines(kept.numbers)] == [one.ours for one in lines(together)]
    spans = [verdict.over_seeds for verdict in kept.numbers.verdicts]
    assert spans == [pytest.approx(verdict.over_seeds) for verdict in together.verdicts]
    two = json.loads(made.run("plain", "bleu", 3).folder.result.read_text())["scores"]["bleu"]
    assert kept.numbers.sections[0].lines[0].ours.by_seed[2] == two["value"]


def test_rows_are_added_beside_a_baseline_that_was_done_again(made):
    """Its result stays as it was published, since its scores are the same."""
    published(made, "plain", "--columns", "bleu", "--seeds", "2")
    path = made.folder / "results/runs/full@text/toy/table1/plain/bleu/seed2.json"
    before = path.read_text()
    result = made.run("plain", "bleu", 2).folder.result
    result.write_text(json.dumps(json.loads(result.read_text()) | {"finished": "later"}))
    forget(made, 1)
    kept = published(made, "--columns", "bleu", "--seeds", "2,", "--add")
    assert path.read_text() == before
    plain, ours = (line.ours for line in kept.numbers.sections[0].lines)
    assert plain.seeds == (1, 2) and ours.seeds == (2,)
    assert ours.p_values == lines(measured(made, 2))[1].ours.p_values
    assert "Seeds: 1 2 (plain); 2 (ours)." in (made.folder / "RESULTS.md").read_text()


def test_what_would_mix_up_results_is_refused(made):
    made.hybrid("publish", NAME, "--seeds", "1,")
    made.finish(made.run("ours"), worse(REFERENCES, 0.3, "other"))
    before = files(made.folder)
    cases = {
        f"{NAME} --seeds 2": "ours/bleu/seed1 was published with other scores",
        "toy/curves --seeds 2,": "toy/curves is not in results; publish it without --add",
    }
    check_refusals(cases.items(), lambda words: made.hybrid("publish", *words.split(), "--add"))
    assert files(made.folder) == before
    one, two = measured(made, 1, 2), measured(made, 1)
    both = dataclasses.replace(two.sections[0].lines[0].ours, seeds=(2, 3), by_seed=(1.0, 2.0))
    line = dataclasses.replace(two.sections[0].lines[0], ours=both)
    section = dataclasses.replace(two.sections[0], lines=(line,), baseline=None)
    other = dataclasses.replace(two, sections=(section,))
    with pytest.raises(ValueError, match="plain: seed 2 was published; add others"):
        with_more_seeds(one, one, other)
