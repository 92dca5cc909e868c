"""The published results: pages are made from them, and scores are those of their counts."""

import math
import re

import publish
import pytest
from made_runs import REFERENCES, worse
from published import RESULTS

from fairseq_hybrid_attn.lab.files.json_files import read_json
from fairseq_hybrid_attn.lab.run.run_scores import read_counts
from fairseq_hybrid_attn.lab.scores.statistics import Estimate, combined


@pytest.mark.slow
def test_the_pages_are_made_from_the_results():
    found = {path.name: path.read_text() for path in (RESULTS / "pages").iterdir()}
    assert found == publish.pages()
    assert (RESULTS / "claims.md").read_text() == publish.claims_page()


@pytest.mark.slow
def test_scores_are_those_of_the_counts():
    compared = 0
    for path in (RESULTS / "runs").rglob("result.json"):
        counts = read_counts(path.with_name("counts.json.gz"))
        for name, score in read_json(path)["scores"].items():
            if of_score := counts.of(name):
                assert math.isclose(of_score.value, score["value"], rel_tol=1e-12), (path, name)
                compared += 1
    assert compared > 1500


def test_a_run_with_counts_has_its_translations_beside_it():
    counts = list((RESULTS / "runs").rglob("counts.json.gz"))
    lacking = [path for path in counts if not path.with_name("hypotheses.txt.gz").exists()]
    assert [path.parts[-4] for path in lacking] == ["giza"]  # which does not translate
    assert len(counts) > 190


def test_no_path_of_a_machine_is_kept():
    files = list(RESULTS.rglob("*.json"))
    assert len(files) > 200
    assert not [file for file in files if re.search(r'"/\w', file.read_text())]


def test_the_papers_numbers_of_claims_add_up():
    """Where a table has them all, of one paper."""
    added = 0
    for claim in (claim for of_paper in publish.claims().values() for claim in of_paper):
        for table in (*claim.before, *claim.after):
            rows = {row.name: row for row in publish.stored(f"evidence/{table}").plan.table.rows}
            numbers = [rows[row].paper.get(column) for row, column in (*claim.plus, *claim.minus)]
            mixed = table == "tiny" or "encoder's positions" in claim.says
            if None not in numbers and not mixed:
                plus = len(claim.plus)
                assert claim.paper == pytest.approx(sum(numbers[:plus]) - sum(numbers[plus:]))
                added += 1
    assert added > 25


def test_a_claim_holds_if_its_whole_interval_does(monkeypatch):
    claim = publish.Claim("x", (("a", "b"),), (("c", "d"),))
    for by_seed, symbol in (
        ((2.3, 2.4, 2.5), "✓"),
        ((-2.3, -2.4, -2.5), "✗"),
        ((0.8, 1.65, 4.75), "~"),  # all above zero, but not their interval
    ):
        found = combined(dict(enumerate(by_seed, start=1)), 0.0)
        monkeypatch.setattr(publish, "total", lambda *_, found=found: found)
        assert publish.judge(claim, "positions") == (found, symbol)


@pytest.mark.parametrize("center, shown", [(0.51, "✓≈"), (-0.51, "✗≈"), (0.49, "~≈"), (0.53, "✓")])
def test_a_verdict_within_a_hair_of_zero_is_marked(center, shown, monkeypatch):
    claim = publish.Claim("x", (("a", "b"),), (("c", "d"),), before=("positions",))
    for seeds, mark in (((1,), "¹"), ((1, 2), "")):  # of one seed or more
        found = Estimate(center, dict.fromkeys(seeds, center), 0.5)
        monkeypatch.setattr(publish, "total", lambda *_, found=found: found)
        assert publish._row(claim, ["short"])[3] == f"{center:.2f} ± 0.50 {shown}{mark}"


def test_runs_are_copied_without_local_paths(made):
    """With counts and translations; what is there of another training goes."""
    run, results = made.run("plain"), made.folder / "results"
    theirs = made.folder / "elsewhere/mine"
    command = ["fairseq-train", str(run.corpus_folder), "--user-dir", str(theirs), "a/b", "lr=1/2"]
    made.change(run, commands={"train": command, "copied": ["x", "/another/place/runs/model.pt"]})
    results.mkdir()
    publish.copy_runs(made.plan(seeds=(1,)), results)
    kept = results / "runs/full@text" / run.name
    names = {"result.json", "counts.json.gz", "hypotheses.txt.gz"}
    assert {path.name for path in kept.iterdir()} == names
    commands = read_json(kept / "result.json")["commands"]
    assert commands["train"][1] == f"reproduction/corpora/{run.corpus_folder.name}"
    assert commands["train"][3:] == [theirs.name, "a/b", "lr=1/2"]
    assert commands["copied"] == ["x", "model.pt"]
    assert str(made.folder) not in (kept / "result.json").read_text()
    flags = ("--output", "results", "--configs", "configs", "--text", "text")
    assert made.cells("toy/table1", *flags) == made.cells("toy/table1")
    made.finish(run, worse(REFERENCES, 0.2, "again"), finished="later")
    run.folder.hypotheses.unlink()
    publish.copy_runs(made.plan(seeds=(1,)), results)
    assert read_json(kept / "result.json")["finished"] == "later"
    assert not (kept / "hypotheses.txt.gz").exists()
