"""Programs that are run by others."""

import os
import subprocess

import pytest

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.files import processes


def test_programs_keep_their_assertions(tmp_path, monkeypatch):
    """Within one, fairseq writes its checkpoints."""
    (tmp_path / "asserting.py").write_text("assert False")
    monkeypatch.setitem(processes.MODULES, "fairseq-train", "asserting")
    variables = {**os.environ, "PYTHONOPTIMIZE": "1", "PYTHONPATH": str(tmp_path)}
    with pytest.raises(UserError, match="AssertionError"):
        processes.run_program(["fairseq-train"], tmp_path / "log", variables)


def test_who_holds_a_lock_that_outlived_its_program(tmp_path):
    """A training goes on if what started it is killed."""
    path = tmp_path / ".lock"
    assert processes.at_work(path) is None
    with processes.locked(path, print) as lock:
        left = subprocess.Popen(["sleep", "100"], pass_fds=(lock,))
    try:
        assert f"kill {left.pid} " in str(processes.at_work(path))
    finally:
        left.kill()
        left.wait()
    assert processes.at_work(path) is None
