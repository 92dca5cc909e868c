"""What a run was begun with is known as long as anything of it is there."""

import shutil

import pytest
from rows import CONFIGS, FULL, TABLES

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.experiments.planning import State, status
from fairseq_hybrid_attn.experiments.run_folders import begin, forget
from fairseq_hybrid_attn.experiments.workspace import Workspace


@pytest.fixture
def run(tmp_path):
    found = Workspace(tmp_path, CONFIGS, FULL).run(TABLES["hysan/table1"].cells()[0], 1)
    found.folder.path.mkdir(parents=True)
    return found


def test_what_was_begun_with_nobody_knows_what_is_not_gone_on_with(run):
    begin(run, 1)
    begin(run, 1)  # again
    run.folder.model.write_text("weights")
    begin(run, 1)
    run.folder.begun.unlink()
    with pytest.raises(UserError, match=r"model\.pt is there, but not begun\.json"):
        begin(run, 1)
    assert not run.folder.begun.exists()


def test_a_run_that_is_forgotten_by_half_is_no_result_and_no_beginning(run, monkeypatch):
    begin(run, 1)
    run.folder.result.write_text("{}")
    run.folder.translation.mkdir()
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", lambda path: (_ for _ in ()).throw(OSError("busy")))
        with pytest.raises(OSError, match="busy"):
            forget(run)
    assert not run.folder.result.exists() and run.folder.begun.exists()
    forget(run)
    assert status(run).state is State.NOT_BEGUN
    begin(run, 1)


def test_a_file_that_does_not_say_what_a_run_was_begun_with(run):
    run.folder.begun.write_text('{"x": 1}')
    for ask in (status, lambda run: begin(run, 1)):
        with pytest.raises(UserError, match="does not say what a run was begun with"):
            ask(run)
