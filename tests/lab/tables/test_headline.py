"""The beginning of the document of results: a figure, claims; and the order of rows."""

from functools import partial

import numpy as np
import pytest
import yaml
from made_runs import REFERENCES, read_lines, score, worse
from refusals import check_refusals
from scipy.stats import spearmanr
from workspaces import write_yaml

from fairseq_hybrid_attn.lab.config.paper_tables import load_table
from fairseq_hybrid_attn.lab.scores.significance import SEED, over_draws
from fairseq_hybrid_attn.lab.tables import headline, ranks, run_results
from fairseq_hybrid_attn.lab.tables.kept_tables import read_tables
from fairseq_hybrid_attn.lab.tables.measuring import measure
from fairseq_hybrid_attn.lab.tables.run_results import RunResults

ROWS = {"plain": 30.0, "ours": 31.0, "third": 29.0, "fourth": 32.0}


def configure(made, **keys):
    """Change the keys of toy/table1, and give it two rows more."""
    path = made.configs / "toy/table1.yaml"
    content = yaml.safe_load(path.read_text())
    content["rows"] |= {row: {"paper": {"bleu": ROWS[row]}} for row in ("third", "fourth")}
    write_yaml(path, {**content, **keys})


def test_the_order_of_rows_is_compared_on_the_same_sentences(made, monkeypatch):
    """With scipy's correlation of full scores of resampled texts; seeds are averaged."""
    monkeypatch.setattr(run_results, "over_draws", partial(over_draws, samples=30))
    configure(made, rank={"all": None, "some": ["plain", "third", "fourth"]}, claims=[])
    for row, share in (("third", 0.11), ("fourth", 0.12)):
        for seed in (1, 2):
            made.finish(made.run(row, "bleu", seed), worse(REFERENCES, share, f"{row}{seed}"))
    results = RunResults(made.plan())
    bleu, nopos = measure(results, significance=False).sections
    assert nopos.ranks == {}  # one row has a paper's number
    cells = [cell for cell in results.plan.cells if cell.column.name == "bleu"]
    found = ranks.rank_agreement(results, list(zip(cells, bleu.lines, strict=True)), True)
    assert found.value == bleu.ranks["all"].value and bleu.ranks["all"].low is None
    assert bleu.ranks["some"].rows == 3

    def correlation(chosen):
        references = [REFERENCES[n] for n in chosen]
        found = {}
        for row in ROWS:
            lines = [read_lines(made.run(row, "bleu", s).folder.hypotheses) for s in (1, 2)]
            found[row] = np.mean([score([one[n] for n in chosen], references) for one in lines])
        return spearmanr(list(ROWS.values()), list(found.values())).statistic

    drawn = np.random.default_rng(SEED).integers(60, size=(30, 60))
    low, high = np.quantile([correlation(chosen) for chosen in drawn], (0.025, 0.975))
    assert low < high and found.rows == 4
    expected = pytest.approx((correlation(range(60)), low, high))
    assert (found.value, found.low, found.high) == expected
    # Published, it is kept with its interval.
    made.hybrid("publish", "toy/table1")
    (kept,) = read_tables(made.folder / "results", made.configs)
    kept = kept.numbers.sections[0].ranks["all"]
    assert kept.low < kept.high and kept.rows == 4
    note = f"ours is {kept.value:.2f}, 95 % interval {kept.low:.2f} to {kept.high:.2f} over"
    assert note in (made.folder / "RESULTS.md").read_text()


def test_the_figure_has_levels_and_losses_of_what_was_measured(made):
    claims = [
        {"says": "plain falls", "above-zero": "plain/bleu - plain/nopos", "in-short": True},
        {
            "says": "ours is not below",
            "above-zero": "ours/nopos - plain/nopos",
            "after-results": True,
        },
    ]
    configure(made, headline={"nopos": "bleu"}, claims=claims)
    made.hybrid("publish", "toy/table1", "--columns", "bleu", "--seeds", "2")
    assert "headline" not in (made.folder / "RESULTS.md").read_text()  # there is nothing to draw
    made.hybrid("publish", "toy/table1", "--seeds", "2")
    document = (made.folder / "RESULTS.md").read_text()
    for theme in ("light", "dark"):
        path = f"results/headline-{theme}.svg"
        assert f'"{path}"' in document.partition("## In short")[0]
        assert (made.folder / path).read_bytes().startswith(b"<?xml")
    top, section = document.split("### Toy (`toy/table1`)\n")
    # This is on another text than the papers'.
    late = "(1 written after the first results, marked *)"
    of = f"claims of toy/table1, on another text {late}"
    assert f"- of 2 {of}: 2 held\n" in top
    assert "| plain falls (full@text) " in top and "| ours is not below* " in section
    assert document.count("| plain falls ") == 1
    assert "- toy/table1: tok:13a\n" in top

    (kept,) = read_tables(made.folder / "results", made.configs)
    figure = headline.draw(kept)
    levels, losses = figure.axes
    (legend,) = figure.legends
    assert "95 % interval" in [text.get_text() for text in legend.get_texts()]  # of two seeds
    names = [label.get_text() for label in levels.get_yticklabels()]
    assert names == ["Plain\n| p", "ours", "third", "fourth"]  # the last two were not run
    by_seed = {
        (row, column, seed): made.run(row, column, seed).folder.hypotheses
        for row in ("plain", "ours")
        for column in ("bleu", "nopos")
        for seed in (1, 2)
    }
    by_seed = {key: score(read_lines(path), REFERENCES) for key, path in by_seed.items()}

    def dots(axes):
        found = [line.get_xdata() for line in axes.lines if line.get_marker() == "o"]
        return [list(values) for values in found]

    expected = [
        [by_seed[row, column, seed] for seed in (1, 2)]
        for column in ("bleu", "nopos")
        for row in ("plain", "ours")
    ]
    assert np.allclose(dots(levels), expected)
    whole, without = np.array(expected[:2]), np.array(expected[2:])
    assert np.allclose(dots(losses), whole - without)
    papers = [line.get_xdata() for line in losses.lines if line.get_marker() == "D"]
    assert papers == [[15.0]]  # of the one row that the paper has both numbers of


def test_wrong_keys_are_refused(made):
    cases = [
        ({"headline": {"nopos": "other"}}, "headline: the table has no column other"),
        ({"headline": ["nopos"]}, "headline"),
        ({"headline": {"nopos": "bleu", "bleu": "nopos"}}, "with the same runs"),
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
        write_yaml(path, {**content, "headline": {}, "rank": {}, **keys})
        load_table("toy/table1", made.configs)

    check_refusals(cases, load)
