"""What the commands say of stale runs, and what the user can do about them."""

import json
import os
import re
import shutil

import pytest
from made_runs import MadeWorkspace, write_lines
from workspaces import write_yaml

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.files.processes import locked
from fairseq_hybrid_attn.lab.plan import scheduler
from fairseq_hybrid_attn.lab.run.status import identity

HERE = ("reproduce", "toy/table1", "--columns", "bleu", "--device", "cpu")


@pytest.fixture
def stale(made):
    """Runs of which that of the row "ours" was made with other settings."""
    made.make_stale(made.run("ours"))
    binary = made.run("ours").corpus.binary
    for language in ("de", "en"):
        write_lines(binary / f"dict.{language}.txt", ["a 1"])
    return made


def test_the_plan_says_what_will_happen(stale):
    """A run that is done is done again as well, if the user says so."""
    printed = stale.hybrid(*HERE, "--dry-run")
    assert "ours/bleu/seed1: stale (configuration changed)" in printed
    assert "of which 0 to do" in printed and "deleted" not in printed
    assert stale.hybrid(*HERE, "--redo", "--dry-run").count("; deleted and done again") == 2


def test_redo_deletes_what_is_there_and_resumes_what_is_begun(stale, monkeypatch):
    monkeypatch.setattr(scheduler, "prepare_corpora", lambda runs, *given: (list(runs), []))
    done = []
    monkeypatch.setattr(
        scheduler,
        "execute_here",
        lambda runs, *given: done.extend(str(run.cell) for run in runs) or [],
    )
    begun = stale.run("plain", seed=2).folder
    begun.result.unlink()
    with pytest.raises(UserError, match="left as it is:\n  .*ours/bleu/seed1"):
        stale.hybrid(*HERE, "--seeds", "2")
    assert done == ["toy/table1/plain/bleu"] and stale.run("plain").folder.result.exists()
    done.clear()
    stale.hybrid(*HERE, "--seeds", "2", "--redo")
    assert len(done) == 4 and begun.hypotheses.exists()
    for row, seed in (("plain", 1), ("ours", 1), ("ours", 2)):
        assert not stale.run(row, seed=seed).folder.begun.exists()


def test_redo_deletes_nothing_while_a_process_is_at_work(stale):
    told = pytest.raises(UserError, match=rf"plain/bleu/seed1: process .*kill {os.getpid()} ")
    with locked(stale.run("plain").folder.lock, print), told:
        stale.hybrid(*HERE, "--redo")
    assert stale.run("ours").folder.result.exists()


def test_a_run_of_the_other_direction_is_another_run(made):
    printed = made.hybrid(*HERE, "--source-lang", "en", "--dry-run")
    assert "ours/bleu/seed1 in full@text.en-de: not begun" in printed
    assert "ours/bleu/seed1: done" in made.hybrid(*HERE, "--dry-run")


@pytest.fixture
def recorded(made):
    """The runs of two seeds, with the text that they were begun with."""
    for row in ("plain", "ours"):
        for seed in (1, 2):
            run = made.run(row, seed=seed)
            begun = {"identity": identity(run), "workspace": {"own": run.workspace.own.as_record()}}
            run.folder.begun.write_text(json.dumps({**begun, "settings": run.settings.as_dict()}))
    return made


def test_runs_are_found_when_their_text_or_folder_is_renamed(recorded):
    (recorded.folder / "text").rename(recorded.folder / "other")
    (recorded.folder / "out").rename(recorded.folder / "moved")
    where = ("--configs", "configs", "--text", "other", "--output", "moved")
    printed = recorded.hybrid(*HERE, *where, "--seeds", "1,3", "--dry-run")
    assert "plain/bleu/seed1 in full@text: done" in printed
    assert "ours/bleu/seed3 in full@text: not begun" in printed
    recorded.hybrid("table", "toy/table1", *where)
    (recorded.folder / "other/train.de").write_text("another\n")
    assert "plain/bleu/seed1: not begun" in recorded.hybrid(*HERE, *where, "--dry-run")


def test_a_second_text_of_one_name_has_runs_of_its_own(recorded):
    second = recorded.folder / "second/text"
    shutil.copytree(recorded.folder / "text", second)
    where = ("--configs", "configs", "--text", "second/text", "--output", "out")
    assert "seed1: done" in recorded.hybrid(*HERE, *where, "--dry-run")
    (second / "train.de").write_text("another\n")
    printed = recorded.hybrid(*HERE, *where, "--dry-run")
    assert re.search(r"ours/bleu/seed1 in full@text\.\w{8}: not begun", printed)
    (recorded.folder / "text/train.de").write_text("changed where it is\n")
    assert "seed1: stale (data changed)" in recorded.hybrid(*HERE, "--dry-run")


def test_runs_are_checked_with_the_profile_of_their_label_and_their_text(stale):
    run = stale.run("ours")
    begun = json.loads(run.folder.begun.read_text())
    begun["workspace"] = {"own": run.workspace.own.as_record()}
    run.folder.begun.write_text(json.dumps(begun))

    def changed():
        shown = stale.hybrid("runs", "--output", "out", "--configs", "configs")
        return re.search(r"ours/bleu/seed1 .* stale \((.*?) changed", shown)[1]

    assert changed() == "configuration"
    (stale.folder / "text/train.de").write_text("another\n")
    assert changed() == "configuration and data"
    (stale.folder / "text").rename(stale.folder / "elsewhere")
    assert changed() == "configuration"


def test_configurations_of_your_own_need_only_what_is_new(tmp_path):
    """Profile, settings, recipe and the rows of a paper's table are the checkout's."""
    mine = {
        "title": "Mine",
        "extends": "hysan_small",
        "corpus": "own",
        "baseline": "plain",
        "columns": {"bleu": {}},
        "rows": {"plain": {}, "narrow": {"train": {"encoder-branches": "l5", "max-update": 5000}}},
    }
    made = MadeWorkspace(tmp_path)
    write_yaml(tmp_path / "mine/my/table.yaml", mine)
    own = ("my/table", "--configs", "mine", "--output", "out", "--profile", "small")
    both = (*own, "--text", "text")
    printed = made.hybrid("reproduce", *both, "--dry-run", "--device", "cpu", "plain", "narrow")
    assert "transformer_hysan_small\n" in printed and "600 updates of 2,048 tokens" in printed
    assert "5000 updates" in printed and "test 60 pairs" in printed
    assert "name it by --text" in made.hybrid("reproduce", *own, "--dry-run")
    with pytest.raises(UserError):
        made.hybrid("reproduce", *own, "--prepare-only")
    # A table without a paper has no columns of one.
    printed = made.hybrid("table", *both)
    assert "paper" not in printed and "ours - plain" in printed


def test_rows_may_follow_options(made):
    printed = made.hybrid("table", "toy/table1", "--columns", "bleu", "--seeds", "2", "ours")
    assert re.search("^ours ", printed, re.M) and not re.search("^plain ", printed, re.M)
