"""Publishing: runs are copied into a folder from which tables are printed without any text."""

import json
import re
import shutil

import pytest
from made_runs import REFERENCES, worse
from refusals import check_refusals, files

TABLES = ("toy/curves", "toy/gates", "toy/lengths", "toy/ratios", "toy/table1")


def test_published_tables_are_the_printed_ones(made):
    """Also when workspace and text are gone; publishing again changes nothing."""
    printed = made.hybrid("table", *TABLES, "--format", "markdown")
    made.hybrid("publish", *TABLES)
    pages = {path.name: path.read_text() for path in (made.folder / "results/pages").iterdir()}
    for name, text in zip(TABLES, re.split(r"\n(?=# )", printed), strict=True):
        page = pages.pop(f"{name.replace('/', '.')}.md")
        assert page.startswith(text)
        assert f"`fairseq-hybrid table {' '.join(TABLES)} --seeds 1, --text text --output" in page
        figures = re.findall(r"!\[.*\]\(../(.*)\)", page)  # the curves have more columns
        drawn = ["figures/toy.lengths.full@text.png"] if name == "toy/lengths" else []
        assert figures == drawn and all((made.folder / "results" / one).exists() for one in drawn)
    (runs,) = pages.values()
    assert re.search(r"^\| toy/table1 +\| +4 \|", runs, re.MULTILINE)
    before = files(made.folder / "results")
    shutil.rmtree(made.folder / "out")
    shutil.rmtree(made.folder / "text")
    again = made.hybrid(
        *("table", *TABLES, "--format", "markdown", "--output", "results"),
        *("--configs", "configs", "--text", "text"),
    )
    assert again == printed
    made.hybrid("publish", "--configs", "configs")
    assert files(made.folder / "results") == before


def test_a_table_published_again_replaces_its_line_and_its_runs(made):
    made.hybrid("publish", "toy/table1", "ours", "--columns", "bleu")
    made.hybrid("publish", "toy/lengths")
    made.hybrid("publish", "toy/table1", "--seeds", "2")
    listed = (made.folder / "results/tables.txt").read_text()
    assert listed == "toy/table1 --seeds 1,2 --text text\ntoy/lengths --seeds 1, --text text\n"
    kept = made.folder / "results/runs/full@text" / made.run("ours").name
    assert {path.name for path in kept.iterdir()} == {
        *("result.json", "counts.json.gz", "hypotheses.txt.gz")
    }
    made.finish(made.run("ours"), worse(REFERENCES, 0.2, "again"), finished="later")
    made.run("ours").folder.hypotheses.unlink()
    made.hybrid("publish", "toy/table1", "--seeds", "2")
    assert json.loads((kept / "result.json").read_text())["finished"] == "later"
    assert not (kept / "hypotheses.txt.gz").exists()  # they were of the result before


@pytest.mark.parametrize("user_dir", ["", "elsewhere/mine"])
def test_no_local_path_is_kept(made, user_dir):
    run, theirs = made.run("plain"), made.folder / user_dir
    command = ["fairseq-train", str(run.corpus_folder), "--user-dir", str(theirs), "a/b", "lr=1/2"]
    made.change(run, commands={"train": command, "copied": ["x", "/another/place/runs/model.pt"]})
    made.hybrid("publish", "toy/table1")
    text = (made.folder / "results/runs/full@text" / run.name / "result.json").read_text()
    commands = json.loads(text)["commands"]
    assert commands["train"][1] == "reproduction/corpora/full@text/toy"
    assert commands["train"][3:] == [theirs.name, "a/b", "lr=1/2"]
    assert commands["copied"] == ["x", "model.pt"]
    assert str(made.folder) not in text


def test_what_cannot_be_published_is_refused(made):
    cases = {
        "toy/table1 plain toy/table1 ours": "toy/table1 is named twice",
        "toy/table1 --seeds 7,": "none of its runs is finished",
        "toy/table1 --results text/test.de": "is a file",
        "--results nothing": "nothing has no tables.txt; name tables to publish",
    }
    before = files(made.folder)
    check_refusals(cases.items(), lambda flags: made.hybrid("publish", *flags.split()))
    assert files(made.folder) == before
