"""The check of a GPU, tried on a CPU: all its parts run, and each is written when it is done."""

import json
from pathlib import Path

import pytest
import torch
from cli import run_forked

from benchmarks import check_gpu, tables

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_all_parts(tmp_path):
    done = run_forked("benchmarks.check_gpu", ("--cpu", "--output", tmp_path), ROOT)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert {path.name for path in tmp_path.iterdir()} == {"gpu-check.md", "gpu-check.json"}
    assert (tmp_path / "gpu-check.md").read_text() == done.stdout
    found = json.loads((tmp_path / "gpu-check.json").read_text())
    assert found["faults"] == found["left_out"] == []
    timed = {}
    for one in found["results"]:
        timed.setdefault((one["measure"], one["candidate"]), set()).add(one["case"])
    short, longer, lines = timed.values()
    assert short == longer and len(short) == 12 and len(lines) == 7
    for title in check_gpu.OURS.values():
        assert {title, f"{title}, --compile"} <= short
        assert {f"{title}, by fairseq-generate", f"{title}, by translate"} <= lines


def test_a_part_that_fails_is_told_and_the_others_go_on(monkeypatch):
    parts = {
        "broken": lambda now: iter([torch.ones(2) @ torch.ones(3)]),
        "fine": lambda now: iter([{"benchmark": "gpu"}]),
    }
    monkeypatch.setattr(check_gpu, "PARTS", parts)
    left = []
    for document in check_gpu.check(check_gpu.CPU):
        left.append(list(document["left_out"]))
    assert left == [["fine"], []] and document["results"] == [{"benchmark": "gpu"}]
    document["results"] = []
    assert "- FAILED: broken: RuntimeError: " in tables.markdown(document)
