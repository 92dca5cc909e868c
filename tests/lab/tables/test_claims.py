"""Claims: sums of scores with their intervals, and the verdicts on them."""

import json

import made_runs
import numpy as np
import pytest
import yaml
from made_runs import REFERENCES, SOURCES, read_lines, score, worse
from rows import EVERY_TABLE
from workspaces import write_yaml

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.alignment.error_rate import Counts
from fairseq_hybrid_attn.lab.config.paper_tables import Claim, load_table, terms_of
from fairseq_hybrid_attn.lab.scores.counts import SEED
from fairseq_hybrid_attn.lab.scores.metrics import build_metric
from fairseq_hybrid_attn.lab.tables.claims import (
    FAILED,
    HELD,
    OPEN,
    decided,
    judge,
)
from fairseq_hybrid_attn.lab.tables.measuring import measure
from fairseq_hybrid_attn.lab.tables.numbers import Verdict
from fairseq_hybrid_attn.lab.tables.stored_runs import StoredRuns

GONE = "cannot be judged, since its sentences cannot be resampled"
OTHER = "cannot be judged, since its numbers are of different texts or signatures"
POSITIONS = EVERY_TABLE["evidence/positions"]
TWO_LANGUAGES = EVERY_TABLE["mma/table3"]


def drawn(lines, references):
    return build_metric("bleu", "en").counts(lines, references).drawn


def test_a_claim_is_of_the_sums_of_the_same_draws(shared):
    """Plain's fall minus ours', the mean over two seeds."""
    sums = 0
    for seed in (1, 2):
        for sign, row, column in (
            *((1, "plain", "bleu"), (-1, "plain", "nopos")),
            *((-1, "ours", "bleu"), (1, "ours", "nopos")),
        ):
            lines = read_lines(shared.run(row, column, seed).folder.hypotheses)
            sums = sums + sign / 2 * drawn(lines, REFERENCES)
    assert judged(shared)[1].over_sentences == pytest.approx(np.quantile(sums, (0.025, 0.975)))


def test_a_claim_about_sentences_of_several_lengths(made):
    """Each length is resampled by itself; lengths that overlap share sentences."""
    claim = "ours/long - plain/long - ours/short + plain/short"
    path = made.configs / "toy/lengths.yaml"
    content = yaml.safe_load(path.read_text())
    write_yaml(path, content | {"claims": [{"says": "ours is for long ones", "above-zero": claim}]})
    value, sums = 0, 0
    for sign, low, high in ((1, 9, 99), (-1, 0, 5)):
        order = np.random.default_rng([SEED, low])
        chosen = [n for n, line in enumerate(SOURCES) if low < len(line.split()) <= high]
        references = [REFERENCES[n] for n in chosen]
        gains = 0
        for ours, row in ((1, "ours"), (-1, "plain")):
            lines = read_lines(made.run(row, seed=1).folder.hypotheses)
            lines = [lines[n] for n in chosen]
            value += sign * ours * score(lines, references)
            gains = gains + ours * drawn(lines, references)
        sums = sums + sign * order.permutation(gains)  # groups of one size have the same draws

    (found,) = judge(StoredRuns(made.plan("toy/lengths", (1,))))
    assert found.ours == pytest.approx(value)
    assert found.over_sentences == pytest.approx(np.quantile(sums, (0.025, 0.975)))
    table = load_table("toy/lengths", made.configs)
    for text in ("ours/long - ours/all", "ours/long - ours/longer"):
        with pytest.raises(UserError, match="sentences that overlap"):
            terms_of(table, Claim("x", text))


def of_sizes(found, sizes):
    """Sentences with that many sure links and as many in the alignment, some of them right."""
    return [Counts(n, n, n, right, right) for right, n in zip(found, sizes, strict=True)]


def test_a_claim_about_alignment_error_rates(made):
    """Over the same hand-aligned sentences, of which long ones count more."""
    sizes, found = [4, 9, 2, 5, 7] * 4, {"plain": [1, 3, 0, 2, 4] * 4, "ours": [4, 7, 2, 4, 3] * 4}
    path = made.configs / "toy/gates.yaml"
    claims = [{"says": "ours aligns better", "above-zero": "plain/aer - ours/aer"}]
    write_yaml(path, yaml.safe_load(path.read_text()) | {"claims": claims})
    for row, right in found.items():
        made.align(made.run(row), of_sizes(right, sizes))
    drawn = np.random.default_rng(SEED).integers(20, size=(1000, 20))
    right, all_links = np.subtract(found["ours"], found["plain"]), np.array(sizes)
    sums = 100 * right[drawn].sum(axis=1) / all_links[drawn].sum(axis=1)

    (aligns,) = judge(StoredRuns(made.plan("toy/gates", (1,))))
    assert aligns.ours == pytest.approx(100 * right.sum() / all_links.sum())
    assert aligns.over_sentences == pytest.approx(np.quantile(sums, (0.025, 0.975)))
    assert aligns.verdict == HELD
    # Of other sentences, or with draws in which nobody has a link, it cannot be judged.
    for sentences in (of_sizes([1] * 20, sizes[::-1]), [Counts()] * 19 + [Counts(1, 1, 1, 1, 1)]):
        made.align(made.run("ours"), sentences)
        (aligns,) = judge(StoredRuns(made.plan("toy/gates", (1,))))
        assert aligns.verdict.startswith("cannot be judged")


def test_claims_are_read_as_sums_of_cells():
    for name, text in [
        ("evidence/positions", "transformer/positions - hysan_e1/positions+hysan_e1/no_positions"),
        ("mma/table4", "mma/de-en-transformer/de-en - local/de-en"),
    ]:
        terms = [
            f"{'+' if sign > 0 else '-'}{cell.row.name}/{cell.column.name}"
            for sign, cell in terms_of(EVERY_TABLE[name], Claim("x", text))
        ]
        assert "".join(terms) == "+" + text.replace(" ", "")
    for table, text, message in [
        (POSITIONS, "transformer", "use ROW/COLUMN"),
        (POSITIONS, "transformer/positions hysan_e1/positions", "use ROW/COLUMN"),
        (POSITIONS, "rnn/positions", "no row rnn"),
        (POSITIONS, "transformer/bleu", "no column bleu"),
        (POSITIONS, "", "names no numbers"),
        (TWO_LANGUAGES, "transformer_nopos/de-en - transformer_nopos/ja-en", "different scores"),
        (
            EVERY_TABLE["evidence/curves"],
            "transformer/bleu_positions",
            "not a score of translations",
        ),
    ]:
        with pytest.raises(UserError, match=message):
            terms_of(table, Claim("x", text))


def test_a_claim_may_have_the_papers_difference_itself(made):
    """If the columns do not have the paper's numbers, or have those of several papers."""
    path = made.configs / "toy/table1.yaml"
    table = yaml.safe_load(path.read_text())
    claim = {"says": "plain falls", "above-zero": "plain/bleu - plain/nopos"}
    for own, paper in [({}, 30.0 - 15.0), ({"paper": 0.5}, 0.5)]:
        write_yaml(path, table | {"claims": [claim | own]})
        assert [one.paper for one in judged(made)] == [paper]


def judged(made, seeds=(1, 2)):
    return judge(StoredRuns(made.plan("toy/table1", seeds)))


def test_verdicts(shared):
    falls, less, better, worse_without = judged(shared)
    by_seed = {}
    for seed in (1, 2):
        whole, without = (
            score(read_lines(shared.run("plain", column, seed).folder.hypotheses), REFERENCES)
            for column in ("bleu", "nopos")
        )
        by_seed[seed] = whole - without
    assert falls.by_seed == pytest.approx(by_seed)
    assert falls.lacking == () and not falls.stale
    assert falls.ours == pytest.approx(sum(by_seed.values()) / 2)
    low, high = falls.over_sentences
    assert low < falls.ours < high
    assert (falls.verdict, falls.paper) == ("held", 15.0)
    assert (less.verdict, less.paper) == ("held", None)
    assert (better.verdict, better.paper) == ("not decided", 1.0)
    assert worse_without.verdict == "did not hold"


def translate(made, row, column, seed, lines):
    made.finish(made.run(row, column, seed), lines)


def test_a_claim_is_open_if_a_seed_is_against_it_or_the_interval_reaches_zero(shared, tmp_path):
    """A mean that is above zero because of one seed alone is not evidence, nor is one below."""
    made = shared.copy(tmp_path / "seed")
    translate(made, "plain", "nopos", 2, REFERENCES)
    falls = judged(made)[0]
    assert falls.by_seed[1] > 0 > falls.by_seed[2] and falls.over_sentences[0] > 0
    translate(made, "plain", "nopos", 1, worse(REFERENCES, 0.97, "bad"))
    worse_without = judged(made)[3]
    assert worse_without.by_seed[1] < 0 < worse_without.by_seed[2]
    assert worse_without.over_sentences[1] < 0
    assert falls.verdict == worse_without.verdict == "not decided"
    # Each seed has one sentence better than the other system, which many draws leave out.
    made = shared.copy(tmp_path / "interval")
    for seed in (1, 2):
        for column in ("bleu", "nopos"):
            found = read_lines(made.run("plain", column, seed).folder.hypotheses)
            wrong = next(n for n, line in enumerate(found) if line != REFERENCES[n])
            found[wrong] = REFERENCES[wrong]
            translate(made, "ours", column, seed, found)
    _, _, better, worse_without = judged(made)
    assert min(better.by_seed.values()) > 0 > max(worse_without.by_seed.values())
    assert better.verdict == worse_without.verdict == "not decided"


def test_claims_of_runs_that_are_stale_or_missing(made):
    made.make_stale(made.run("ours", seed=2))
    assert [verdict.stale for verdict in judged(made)] == [False, True, True, False]
    made.run("ours", seed=2).folder.result.unlink()
    falls, less, *_ = judged(made)
    assert len(falls.by_seed) == 2 and len(less.by_seed) == 1 and less.lacking == (2,)
    made.run("ours", seed=1).folder.result.unlink()
    less = judged(made)[1]
    assert (less.ours, less.by_seed, less.verdict) == (None, {}, "not run")
    assert less.lacking == (1, 2)


def test_a_sum_without_counts_is_that_of_the_results(made):
    """It says nothing of other sentences, even with three seeds."""
    with_all = judged(made)
    for seed, share in ((1, 0.1), (2, 0.1), (3, 0.1)):
        if seed == 3:
            made.finish(made.run("plain", "nopos", 3), worse(REFERENCES, 0.5, "third"))
            made.finish(made.run("plain", "bleu", 3), worse(REFERENCES, share, "third"))
        made.run("plain", seed=seed).folder.counts.unlink()
    falls, *_, worse_without = judged(made)
    assert falls.by_seed == pytest.approx(with_all[0].by_seed)
    assert (falls.over_sentences, falls.verdict) == (None, GONE)
    assert worse_without == with_all[3]  # it is of other runs
    falls = judged(made, seeds=(1, 2, 3))[0]
    assert falls.over_seeds[0] > 0 and falls.verdict == GONE
    # Of other signatures, results are not added up.
    scores = json.loads(made.run("plain").folder.result.read_text())["scores"]
    scores["bleu"]["signature"] += "|tok:intl"
    made.change(made.run("plain"), scores=scores)
    assert judged(made)[0].verdict == OTHER


def test_a_claim_adds_up_the_scores_that_are_shown(made):
    """BLEU, where a text does not have the paper's score."""
    path = made.configs / "toy/gates.yaml"
    content = yaml.safe_load(path.read_text())
    content["columns"]["tokenised"]["score"] = "given_bleu"
    content["claims"] = [{"says": "x", "above-zero": "ours/tokenised - plain/tokenised"}]
    write_yaml(path, content)
    made.finish(made.run("ours"), [f"{line}." for line in worse(REFERENCES, 0.1, 5)])
    numbers = measure(made.plan("toy/gates", (1,)))
    [section] = (one for one in numbers.sections if one.name == "tokenised")
    shown = {line.row: line.ours for line in section.lines}
    assert shown["ours"].score == "bleu"
    [claim] = numbers.verdicts
    assert claim.ours == pytest.approx(shown["ours"].value - shown["plain"].value)


def test_scores_of_other_names_are_not_added_up(made):
    """The text of one seed was scored by a version that lacked the paper's score."""
    path = made.configs / "toy/gates.yaml"
    content = yaml.safe_load(path.read_text())
    content["claims"] = [{"says": "x", "above-zero": "ours/tokenised - plain/tokenised"}]
    write_yaml(path, content)
    run = made.run("ours")
    scores = json.loads(run.folder.result.read_text())["scores"]
    made.change(run, scores=scores | {"tokenised_bleu": scores["bleu"]})
    [claim] = judge(StoredRuns(made.plan("toy/gates", (1, 2))))
    assert claim.verdict == OTHER


def test_numbers_of_other_texts_are_not_added_up(made, monkeypatch):
    run = made.run("plain", "nopos")
    translations, others = read_lines(run.folder.hypotheses), worse(REFERENCES, 0.5, 7)
    monkeypatch.setattr(made_runs, "REFERENCES", others)
    made.finish(run, translations)
    falls, _, better, _ = judged(made, seeds=(1,))
    assert falls.verdict == OTHER and falls.ours is None and better.ours is not None


def test_claims_that_cannot_be_read(made):
    path = made.configs / "toy/table1.yaml"
    content = yaml.safe_load(path.read_text())
    write_yaml(path, {**content, "claims": [{"says": "x"}]})
    with pytest.raises(UserError, match="claims: no. 1: no above-zero"):
        load_table("toy/table1", made.configs)
    twice = [{"says": word, "above-zero": "plain/bleu - ours/bleu"} for word in "xy"]
    write_yaml(path, {**content, "claims": twice})
    with pytest.raises(UserError, match="is claimed twice"):
        load_table("toy/table1", made.configs)
    write_yaml(path, {**content, "claims": [{"says": "x", "above-zero": "plain"}]})
    with pytest.raises(UserError, match="use ROW/COLUMN"):  # before anything is run
        made.hybrid("reproduce", "toy/table1", "--dry-run")


def test_a_claim_holds_only_if_the_interval_over_seeds_does():
    """Three seeds above zero, whose mean is not: 4.303 * 2.08 / sqrt(3) is more than 2.4."""
    for sign, by_seed, verdict in (
        (1, (0.8, 1.65, 4.75), OPEN),
        (1, (2.3, 2.4, 2.5), HELD),
        (1, (0.8, 4.0), HELD),  # two seeds have no such interval
        (-1, (-2.3, -2.4, -2.5), FAILED),
        (-1, (-0.8, -1.65, -4.75), OPEN),
    ):
        over_sentences = tuple(sorted((sign * 2.0, sign * 2.8)))
        seeds = dict(enumerate(by_seed, start=1))
        found = Verdict("x", None, seeds, over_sentences, (), False, "")
        assert decided(found) == verdict, by_seed
