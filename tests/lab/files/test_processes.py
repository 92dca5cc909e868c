"""Programs that are run by others."""

import os

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
