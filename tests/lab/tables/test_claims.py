"""Claims: sums of scores with an interval of their own, and what is said of them."""

import dataclasses
import json
import random
import shutil

import numpy as np
import pytest
import sacrebleu
import yaml
from rows import EVERY_TABLE, FULL
from workspaces import write_yaml

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.configuration.tables import Claim, load_table
from fairseq_hybrid_attn.lab.corpora.manifest import Manifest
from fairseq_hybrid_attn.lab.runs.plan import Plan
from fairseq_hybrid_attn.lab.runs.results import identity
from fairseq_hybrid_attn.lab.runs.workspace import OwnText, Workspace
from fairseq_hybrid_attn.lab.scoring.combining import combined
from fairseq_hybrid_attn.lab.scoring.significance import SEED
from fairseq_hybrid_attn.lab.tables.claims import judge, terms_of
from fairseq_hybrid_attn.lab.tables.run_results import RunResults

WORDS = "the a dog cat house tree sees hears likes old new green".split()


def sentences(count, seed):
    choose = random.Random(seed)
    return [" ".join(choose.choices(WORDS, k=choose.randint(4, 9))) + "." for _ in range(count)]


def worse(lines, share, seed):
    """With so large a share of the words replaced."""
    choose = random.Random(seed)
    return [
        " ".join(word if choose.random() > share else choose.choice(WORDS) for word in line.split())
        for line in lines
    ]


REFERENCES = sentences(60, seed=0)

#: Of a prepared corpus that is nothing but references.
MANIFEST = {field.name: {} for field in dataclasses.fields(Manifest)}


def bleu(lines, references):
    return sacrebleu.corpus_bleu(lines, [references]).score


def test_a_sum_is_that_of_each_draw():
    """Against whole scores of texts that are drawn."""
    terms = [(1.0, worse(REFERENCES, 0.1, 1)), (-1.0, worse(REFERENCES, 0.3, 2)), (0.5, REFERENCES)]
    found = combined("bleu", terms, REFERENCES, "en", samples=40)
    drawn = np.random.default_rng(SEED).integers(60, size=(40, 60))
    sums = [
        sum(
            factor * bleu([lines[n] for n in chosen], [REFERENCES[n] for n in chosen])
            for factor, lines in terms
        )
        for chosen in drawn
    ]
    low, high = np.quantile(sums, (0.025, 0.975))
    assert found.value == pytest.approx(sum(f * bleu(lines, REFERENCES) for f, lines in terms))
    assert (found.low, found.high) == pytest.approx((low, high))


def test_a_system_less_itself_is_nothing():
    lines = worse(REFERENCES, 0.2, 1)
    found = combined("bleu", [(1, lines), (-1, lines)], REFERENCES, "en", samples=20)
    assert (found.value, found.low, found.high) == (0, 0, 0)


def test_translations_that_are_too_few():
    with pytest.raises(UserError):
        combined("bleu", [(1, REFERENCES[:-1])], REFERENCES, "en")


# --- a table's ----------------------------------------------------------------------------------

POSITIONS = EVERY_TABLE["evidence/positions"]


def test_the_claims_of_the_evidence_can_be_read():
    assert len(POSITIONS.claims) == 12
    for claim in POSITIONS.claims:
        assert sum(sign for sign, _ in terms_of(POSITIONS, claim)) == 0  # differences


@pytest.mark.parametrize("test_set", ["tatoeba", "europarl"])
def test_the_claims_of_a_test_set_are_those_of_all_of_them(test_set):
    sets = EVERY_TABLE["evidence/test_sets"]
    claims = [claim for claim in sets.claims if claim.says.startswith(f"on {test_set},")]
    theirs = [
        [(sign, cell.run_name) for sign, cell in terms_of(POSITIONS, claim)]
        for claim in POSITIONS.claims
        if "our question" not in claim.says
    ]
    found = [terms_of(sets, claim) for claim in claims]
    assert sorted([(sign, cell.run_name) for sign, cell in terms] for terms in found) == sorted(
        theirs
    )
    assert {cell.score for terms in found for _, cell in terms} == {f"bleu.{test_set}"}


def test_terms():
    claim = Claim("", "transformer/positions - hysan_e1/positions+transformer_mma/no_positions")
    terms = [(sign, cell.row.name, cell.column.name) for sign, cell in terms_of(POSITIONS, claim)]
    assert terms == [
        (1, "transformer", "positions"),
        (-1, "hysan_e1", "positions"),
        (1, "transformer_mma", "no_positions"),
    ]


def test_columns_may_have_hyphens():
    table = EVERY_TABLE["mma/table4"]
    claim = Claim("", "mma/de-en-transformer/de-en - local/de-en")
    terms = [(sign, cell.row.name, cell.column.name) for sign, cell in terms_of(table, claim)]
    assert terms == [(1, "mma", "de-en"), (-1, "transformer", "de-en"), (-1, "local", "de-en")]


@pytest.mark.parametrize(
    "text, message",
    [
        ("transformer", "use ROW/COLUMN"),
        ("transformer/positions hysan_e1/positions", "use ROW/COLUMN"),
        ("transformer/positions * 2", "use ROW/COLUMN"),
        ("rnn/positions", "no row rnn"),
        ("transformer/bleu", "no column bleu"),
        ("", "names no numbers"),
    ],
)
def test_what_cannot_be_read_is_told(text, message):
    with pytest.raises(UserError, match=message):
        terms_of(POSITIONS, Claim("x", text))


def test_scores_of_different_sentences_are_not_added_up():
    sets = EVERY_TABLE["evidence/test_sets"]
    claim = Claim("x", "transformer/tatoeba_positions - transformer/europarl_positions")
    with pytest.raises(UserError, match="different sentences"):
        terms_of(sets, claim)
    curves = EVERY_TABLE["evidence/curves"]
    with pytest.raises(UserError, match="not a score of a whole translation"):
        terms_of(curves, Claim("x", "transformer/bleu_positions"))


@pytest.fixture
def workspace(tmp_path):
    """Runs that have translations; of the table, with claims about two rows."""
    configs = tmp_path / "configs"
    for name in ("settings", "corpora", "toy/table1"):
        (configs / name).mkdir(parents=True)
    recipe = {
        **{"source": "de", "target": "en", "reader": "own"},
        **{
            "tokenizer": {"de": "moses", "en": "moses"},
            "subwords": {"kind": "subword-nmt", "size": 9},
        },
    }
    write_yaml(configs / "corpora/own.yaml", recipe)
    table = {
        "title": "t",
        "corpus": "own",
        "columns": {"with": {}, "without": {}},
        "rows": {
            "plain": {"paper": {"with": 30.0, "without": 15.0}, "system": "p"},
            "ours": {"paper": {"with": 31.0, "without": None}},
        },
        "claims": [
            {"says": "plain falls", "above-zero": "plain/with - plain/without"},
            {
                "says": "ours falls less",
                "above-zero": "plain/with - plain/without - ours/with + ours/without",
            },
            {"says": "ours is better", "above-zero": "ours/with - plain/with"},
            {"says": "ours is worse without", "above-zero": "plain/without - ours/without"},
        ],
        "batch": {"tokens": 100},
        "checkpoints": {"unit": "update", "every": 1, "average": 1},
        "train": {"arch": "transformer_mma", "max-update": 1},
        "generate": {"beam": 4},
    }
    write_yaml(configs / "toy/table1.yaml", table)
    text = tmp_path / "text"
    text.mkdir()
    for part in ("train", "valid", "test"):
        for side in ("de", "en"):
            (text / f"{part}.{side}").write_text("x\n")
    place = Workspace(tmp_path / "out", configs, FULL, OwnText(text, "de", "en"))
    table = load_table("toy/table1", configs)
    shares = {"plain/with": 0.1, "plain/without": 0.5, "ours/with": 0.1, "ours/without": 0.15}
    for cell in table.cells():
        for seed in (1, 2):
            share = shares[f"{cell.row.name}/{cell.column.name}"]
            run = place.run(cell, seed)
            run.folder.path.mkdir(parents=True)
            corpus = Manifest(**{**MANIFEST, "digest": run.recipe.digest})
            run.corpus_folder.mkdir(parents=True, exist_ok=True)
            corpus.write(run.corpus_folder)
            result = {"identity": identity(run), "corpus": {"digest": corpus.digest}}
            facts = {"scores": {}, "updates": 1, "parameters": 1, "finished": "now"}
            run.folder.result.write_text(json.dumps({**result, **facts}))
            lines = worse(REFERENCES, share, f"{cell.row.name}{cell.column.name}{seed}")
            run.folder.hypotheses.write_text("".join(f"{line}\n" for line in lines))
    raw = run.prepared_corpus.reference()
    raw.parent.mkdir(parents=True, exist_ok=True)
    raw.write_text("".join(f"{line}\n" for line in REFERENCES))
    return Plan(table, place, tuple(table.cells()), (1, 2))


def score(plan, row, column, seed):
    cell = next(c for c in plan.table.cells() if (c.row.name, c.column.name) == (row, column))
    path = plan.workspace.run(cell, seed).folder.hypotheses
    return bleu(path.read_text().splitlines(), REFERENCES)


def test_verdicts(workspace):
    falls, less, better, worse_without = judge(RunResults(workspace))
    by_seed = [
        score(workspace, "plain", "with", s) - score(workspace, "plain", "without", s)
        for s in (1, 2)
    ]
    assert falls.by_seed == pytest.approx({"1": by_seed[0], "2": by_seed[1]})
    assert falls.lacking == () and not falls.stale
    assert falls.ours.value == pytest.approx(sum(by_seed) / 2)
    assert falls.ours.low < falls.ours.value < falls.ours.high
    assert (falls.verdict, falls.paper) == ("held", 15.0)
    assert (less.verdict, less.paper) == ("held", None)
    assert (better.verdict, better.paper) == ("not decided at this size", 1.0)
    assert worse_without.verdict == "did not hold"


def test_one_seed_against_the_interval_leaves_it_open(workspace):
    """A mean that is above zero by one seed alone is no evidence."""
    cells = {(c.row.name, c.column.name): c for c in workspace.table.cells()}
    run = workspace.workspace.run(cells["plain", "without"], 2)
    run.folder.hypotheses.write_text("".join(f"{line}\n" for line in REFERENCES))
    falls = judge(RunResults(workspace))[0]
    assert falls.by_seed["1"] > 0 > falls.by_seed["2"]
    assert falls.verdict == "not decided at this size"


def test_one_seed_for_what_the_interval_is_against_leaves_it_open(workspace):
    """The same the other way round."""
    cells = {(c.row.name, c.column.name): c for c in workspace.table.cells()}
    run = workspace.workspace.run(cells["plain", "without"], 2)
    run.folder.hypotheses.write_text("".join(f"{line}\n" for line in REFERENCES))
    run = workspace.workspace.run(cells["ours", "without"], 2)
    lines = worse(REFERENCES, 0.97, "bad")
    run.folder.hypotheses.write_text("".join(f"{line}\n" for line in lines))
    worse_without = judge(RunResults(workspace))[3]
    assert worse_without.by_seed["1"] < 0 < worse_without.by_seed["2"]
    assert worse_without.verdict == "not decided at this size"


def test_what_is_not_up_to_date_is_said_of_a_claim(workspace):
    cells = {(c.row.name, c.column.name): c for c in workspace.table.cells()}
    path = workspace.workspace.run(cells["ours", "with"], 2).folder.result
    result = json.loads(path.read_text())
    result["identity"]["code"] = "other"
    path.write_text(json.dumps(result))
    assert [verdict.stale for verdict in judge(RunResults(workspace))] == [False, True, True, False]


def test_translations_of_another_text_are_no_evidence(workspace):
    """The references have been made anew since."""
    cells = {(c.row.name, c.column.name): c for c in workspace.table.cells()}
    run = workspace.workspace.run(cells["ours", "with"], 2)
    Manifest(**{**MANIFEST, "digest": "another"}).write(run.corpus_folder)
    assert {verdict.verdict for verdict in judge(RunResults(workspace))} == {
        "cannot be judged, since translations or test set are not here"
    }


def test_numbers_of_different_texts_are_not_added_up(workspace):
    place = workspace.workspace
    path = place.configs / "toy/table1.yaml"
    content = yaml.safe_load(path.read_text())
    shutil.copy(place.configs / "corpora/own.yaml", place.configs / "corpora/other.yaml")
    content["columns"]["without"] = {"corpus": "other"}
    write_yaml(path, content)
    table = load_table("toy/table1", place.configs)
    cells = {(c.row.name, c.column.name): c for c in table.cells()}
    ours, theirs = (place.run(cells["plain", column], 1) for column in ("with", "without"))
    shutil.copytree(ours.corpus_folder, theirs.corpus_folder)
    others = "".join(f"{line}\n" for line in worse(REFERENCES, 0.5, 7))
    theirs.prepared_corpus.reference().write_text(others)
    falls, _, better, _ = judge(RunResults(Plan(table, place, tuple(table.cells()), (1,))))
    assert falls.verdict == "cannot be judged, since its numbers are of different texts"
    assert falls.ours is None and better.ours is not None


def test_seeds_that_lack_a_run_are_left_out(workspace):
    cells = {(c.row.name, c.column.name): c for c in workspace.table.cells()}
    workspace.workspace.run(cells["ours", "with"], 2).folder.result.unlink()
    falls, less, *_ = judge(RunResults(workspace))
    assert len(falls.by_seed) == 2 and len(less.by_seed) == 1
    workspace.workspace.run(cells["ours", "with"], 1).folder.result.unlink()
    less = judge(RunResults(workspace))[1]
    assert (less.ours, less.by_seed, less.verdict) == (None, {}, "not run")
    assert less.lacking == (1, 2)


def test_a_claim_lacks_a_key(workspace):
    path = workspace.workspace.configs / "toy/table1.yaml"
    content = yaml.safe_load(path.read_text())
    write_yaml(path, {**content, "claims": [{"says": "x"}]})
    with pytest.raises(UserError, match="claims: no above-zero"):
        load_table("toy/table1", workspace.workspace.configs)
