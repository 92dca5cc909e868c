"""Claims: sums of scores with an interval of their own, and the verdicts on them."""

import json
import shutil

import numpy as np
import pytest
import yaml
from made_runs import REFERENCES, score, worse, write_lines
from rows import EVERY_TABLE
from workspaces import write_yaml

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.configuration.tables import Claim, load_table
from fairseq_hybrid_attn.lab.corpora.manifest import Manifest
from fairseq_hybrid_attn.lab.scoring.combining import combined
from fairseq_hybrid_attn.lab.scoring.significance import SEED
from fairseq_hybrid_attn.lab.tables.claims import judge, terms_of
from fairseq_hybrid_attn.lab.tables.run_results import RunResults

POSITIONS = EVERY_TABLE["evidence/positions"]


def test_a_sum_is_that_of_each_draw():
    """Against whole scores of texts that are drawn."""
    terms = [(1.0, worse(REFERENCES, 0.1, 1)), (-1.0, worse(REFERENCES, 0.3, 2)), (0.5, REFERENCES)]
    found = combined("bleu", terms, REFERENCES, "en", samples=40)
    drawn = np.random.default_rng(SEED).integers(60, size=(40, 60))
    sums = [
        sum(
            factor * score([lines[n] for n in chosen], [REFERENCES[n] for n in chosen])
            for factor, lines in terms
        )
        for chosen in drawn
    ]
    low, high = np.quantile(sums, (0.025, 0.975))
    assert found.value == pytest.approx(sum(f * score(lines, REFERENCES) for f, lines in terms))
    assert (found.low, found.high) == pytest.approx((low, high))
    nothing = combined("bleu", [(1, terms[0][1]), (-1, terms[0][1])], REFERENCES, "en", samples=20)
    assert (nothing.value, nothing.low, nothing.high) == (0, 0, 0)
    with pytest.raises(UserError):
        combined("bleu", [(1, REFERENCES[:-1])], REFERENCES, "en")


def named(table, formula):
    terms = terms_of(table, Claim("x", formula))
    return [(sign, cell.row.name, cell.column.name) for sign, cell in terms]


def test_claims_are_read_as_sums_of_cells():
    formula = "transformer/positions - hysan_e1/positions+transformer_mma/no_positions"
    assert named(POSITIONS, formula) == [
        (1, "transformer", "positions"),
        (-1, "hysan_e1", "positions"),
        (1, "transformer_mma", "no_positions"),
    ]
    hyphens = "mma/de-en-transformer/de-en - local/de-en"
    assert named(EVERY_TABLE["mma/table4"], hyphens) == [
        *((1, "mma", "de-en"), (-1, "transformer", "de-en"), (-1, "local", "de-en"))
    ]


def test_claims_that_cannot_be_read_are_refused():
    sets = EVERY_TABLE["evidence/test_sets"]
    for table, formula, message in [
        (POSITIONS, "transformer", "use ROW/COLUMN"),
        (POSITIONS, "transformer/positions hysan_e1/positions", "use ROW/COLUMN"),
        (POSITIONS, "transformer/positions * 2", "use ROW/COLUMN"),
        (POSITIONS, "rnn/positions", "no row rnn"),
        (POSITIONS, "transformer/bleu", "no column bleu"),
        (POSITIONS, "", "names no numbers"),
        (sets, "transformer/tatoeba_positions - transformer/europarl_positions", "different sent"),
        (EVERY_TABLE["evidence/curves"], "transformer/bleu_positions", "not a score of a whole"),
    ]:
        with pytest.raises(UserError, match=message):
            terms_of(table, Claim("x", formula))


def test_the_claims_of_each_test_set_are_those_of_all_together():
    """Each is a sum of differences."""
    assert len(POSITIONS.claims) == 12
    theirs = [
        [(sign, cell.run_name) for sign, cell in terms_of(POSITIONS, claim)]
        for claim in POSITIONS.claims
        if "our question" not in claim.says
    ]
    assert all(sum(sign for sign, _ in terms) == 0 for terms in theirs)
    sets = EVERY_TABLE["evidence/test_sets"]
    for name in ("tatoeba", "europarl"):
        claims = [claim for claim in sets.claims if claim.says.startswith(f"on {name},")]
        found = [terms_of(sets, claim) for claim in claims]
        terms = [[(sign, cell.run_name) for sign, cell in terms] for terms in found]
        assert sorted(terms) == sorted(theirs)
        assert {cell.score for terms in found for _, cell in terms} == {f"bleu.{name}"}


# --- verdicts -------------------------------------------------------------------------------------


def judged(made, table="toy/table1", seeds=(1, 2)):
    return judge(RunResults(made.plan(table, seeds)))


def translate(made, row, column, seed, lines):
    write_lines(made.run(row, column, seed).folder.hypotheses, lines)


def test_verdicts(shared):
    falls, less, better, worse_without = judged(shared)
    hypotheses = [
        [shared.run("plain", column, s).folder.hypotheses for column in ("bleu", "nopos")]
        for s in (1, 2)
    ]
    by_seed = [
        np.subtract(*(score(path.read_text().splitlines(), REFERENCES) for path in paths))
        for paths in hypotheses
    ]
    assert falls.by_seed == pytest.approx({"1": by_seed[0], "2": by_seed[1]})
    assert falls.lacking == () and not falls.stale
    assert falls.ours.value == pytest.approx(sum(by_seed) / 2)
    assert falls.ours.low < falls.ours.value < falls.ours.high
    assert (falls.verdict, falls.paper) == ("held", 15.0)
    assert (less.verdict, less.paper) == ("held", None)
    assert (better.verdict, better.paper) == ("not decided at this size", 1.0)
    assert worse_without.verdict == "did not hold"


def test_one_seed_against_the_interval_leaves_a_claim_open(made):
    """A mean that is above zero by one seed alone is no evidence, nor is one below."""
    translate(made, "plain", "nopos", 2, REFERENCES)
    falls = judged(made)[0]
    assert falls.by_seed["1"] > 0 > falls.by_seed["2"] and falls.ours.low > 0
    assert falls.verdict == "not decided at this size"
    translate(made, "plain", "nopos", 1, worse(REFERENCES, 0.97, "bad"))
    worse_without = judged(made)[3]
    assert worse_without.by_seed["1"] < 0 < worse_without.by_seed["2"]
    assert worse_without.ours.high < 0
    assert worse_without.verdict == "not decided at this size"


def test_an_interval_that_reaches_zero_leaves_a_claim_open(made):
    """Each seed has one sentence better than the other system, which many draws leave out."""
    for seed in (1, 2):
        for column in ("bleu", "nopos"):
            found = made.run("plain", column, seed).folder.hypotheses.read_text().splitlines()
            wrong = next(n for n, line in enumerate(found) if line != REFERENCES[n])
            found[wrong] = REFERENCES[wrong]
            translate(made, "ours", column, seed, found)
    _, _, better, worse_without = judged(made)
    assert min(better.by_seed.values()) > 0 > max(worse_without.by_seed.values())
    assert better.verdict == worse_without.verdict == "not decided at this size"


def test_claims_of_runs_that_are_stale_or_missing(made):
    path = made.run("ours", seed=2).folder.result
    result = json.loads(path.read_text())
    path.write_text(json.dumps({**result, "identity": {**result["identity"], "code": "other"}}))
    assert [verdict.stale for verdict in judged(made)] == [False, True, True, False]
    path.unlink()
    falls, less, *_ = judged(made)
    assert len(falls.by_seed) == 2 and len(less.by_seed) == 1 and less.lacking == (2,)
    made.run("ours", seed=1).folder.result.unlink()
    less = judged(made)[1]
    assert (less.ours, less.by_seed, less.verdict) == (None, {}, "not run")
    assert less.lacking == (1, 2)


def test_translations_of_another_text_do_not_count(made):
    """The corpus has been prepared anew since."""
    run = made.run("ours", seed=2)
    manifest = json.loads((run.corpus_folder / "manifest.json").read_text())
    Manifest(**{**manifest, "digest": "another"}).write(run.corpus_folder)
    assert {verdict.verdict for verdict in judged(made)} == {
        "cannot be judged, since translations or test set are not here"
    }


def test_numbers_of_different_texts_are_not_added_up(made):
    path = made.configs / "toy/table1.yaml"
    content = yaml.safe_load(path.read_text())
    shutil.copy(made.configs / "corpora/toy.yaml", made.configs / "corpora/other.yaml")
    content["columns"]["nopos"] = {"corpus": "other"}
    write_yaml(path, content)
    ours, theirs = (made.run("plain", column) for column in ("bleu", "nopos"))
    shutil.copytree(ours.corpus_folder, theirs.corpus_folder)
    write_lines(theirs.prepared_corpus.reference(), worse(REFERENCES, 0.5, 7))
    falls, _, better, _ = judged(made, seeds=(1,))
    assert falls.verdict == "cannot be judged, since its numbers are of different texts"
    assert falls.ours is None and better.ours is not None
    write_yaml(path, {**content, "claims": [{"says": "x"}]})
    with pytest.raises(UserError, match="claims: no above-zero"):
        load_table("toy/table1", made.configs)
    write_yaml(path, {**content, "claims": [{"says": "x", "above-zero": "plain"}]})
    with pytest.raises(UserError, match="use ROW/COLUMN"):  # before anything is run
        made.hybrid("reproduce", "toy/table1", "--dry-run")
