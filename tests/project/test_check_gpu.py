"""The check of a GPU, tried on a CPU: all its parts run, within its time, and are written."""

import json
import time
from pathlib import Path

import pytest
import torch
from cli import run_forked

ROOT = Path(__file__).parents[2]


def run(*arguments):
    return run_forked("benchmarks.check_gpu", arguments, ROOT)


def test_all_parts(tmp_path):
    done = run("--cpu", "--output", tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert {path.name for path in tmp_path.iterdir()} == {"gpu-check.md", "gpu-check.json"}
    assert (tmp_path / "gpu-check.md").read_text() == done.stdout
    found = json.loads((tmp_path / "gpu-check.json").read_text())
    assert found["faults"] == found["left_out"] == []
    assert {one["benchmark"] for one in found["results"]} == {"step", "generation", "launches"}
    assert {one["candidate"] for one in found["results"]} == {"null", "chosen"}
    assert {one["what"].split(":")[0] for one in found["accuracy"]} == {"attention", "gradients"}
    assert all(0 <= one["error"] <= one["bound"] for one in found["accuracy"])


@pytest.fixture
def check_gpu(monkeypatch):
    """The check's module, to be run in this process with other parts."""
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import check_gpu

    return check_gpu


def test_what_is_over_time_is_named(check_gpu, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["check", "--cpu", "--seconds", "1", "--output", str(tmp_path)])
    parts = {
        "quick": ("results", lambda: iter([])),
        "endless": ("results", lambda: iter([time.sleep(60)])),
        "generation": ("results", lambda: iter([])),
    }
    monkeypatch.setattr(check_gpu, "_parts", lambda settings: parts)
    check_gpu.main()
    found = json.loads((tmp_path / "gpu-check.json").read_text())
    assert found["left_out"] == ["endless", "generation"] and found["seconds"] < 10
    assert "Out of time before: endless; generation." in capsys.readouterr().out


def test_what_is_off_is_said(check_gpu, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["check", "--cpu", "--output", str(tmp_path)])
    parts = {
        "wrong": ("accuracy", lambda: iter([wrong])),
        "broken": ("results", lambda: iter([torch.ones(2) @ torch.ones(3)])),
    }
    wrong = check_gpu._accuracy(
        "attention: x", 30, check_gpu.Settings(), float("nan"), check_gpu.MODELS
    )
    monkeypatch.setattr(check_gpu, "_parts", lambda settings: parts)
    with pytest.raises(SystemExit, match="failed or is off"):
        check_gpu.main()
    printed = capsys.readouterr().out
    assert "| off | attention: x" in printed and "- FAILED: broken: RuntimeError: " in printed


def test_mistakes_end_in_a_sentence(tmp_path):
    wrong = {
        ("--cpu", "--output", "nowhere"): "--output nowhere: there is no such folder",
        ("--cpu", "--seconds", "481"): "--seconds 481: use 1 to 480",
        ("--cpus",): "unrecognized arguments: --cpus",
    }
    if not torch.cuda.is_available():
        wrong[()] = "torch sees no CUDA device here; --cpu tries the check itself without one"
    for arguments, said in wrong.items():
        done = run(*arguments)
        assert done.returncode in (1, 2), arguments
        assert done.stderr.splitlines()[-1].endswith(said), done.stderr
