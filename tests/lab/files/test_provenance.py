"""What makes a result stale: any change in what its numbers come from, and nothing else."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli import USER_DIR, command, environment
from workspaces import SETTINGS, TABLE, with_rows, write_configs, write_text

from fairseq_hybrid_attn.lab.config.settings import resolve
from fairseq_hybrid_attn.lab.files import provenance
from fairseq_hybrid_attn.lab.files.provenance import PACKAGE, used_digest, used_files
from fairseq_hybrid_attn.lab.runs.used_code import modules_of

#: Python runs this first in every process: it notes each file of ours that has a function called,
#: once the package is imported (importing registers all models).
SITECUSTOMIZE = """
import atexit, os, sys
called = set()
def note(frame, event, arg):
    path = frame.f_code.co_filename
    if event == "call" and path.startswith({package!r} + os.sep) and not importing(frame):
        called.add(path)
def importing(frame):
    while frame:
        path = frame.f_code.co_filename
        if frame.f_code.co_name == "<module>" and path.startswith({package!r}):
            return not path.endswith("__main__.py")
        frame = frame.f_back
def write():
    with open({folder!r} + "/" + str(os.getpid()), "w") as file:
        file.write(" ".join(sys.argv) + "\\n" + "\\n".join(sorted(called)))
atexit.register(write)
sys.setprofile(note)
"""
#: They parse command lines and start processes.
HARMLESS = (
    *("__main__.py", "lab/cli/command_line.py", "lab/cli/flags.py", "lab/cli/user_dir.py"),
    *("lab/look/outputs.py", "lab/files/console.py", "lab/files/lock.py", "lab/files/processes.py"),
    *("lab/files/provenance.py", "lab/files/stages.py"),
)


def settings(**train):
    given = {**SETTINGS["train"], **train}
    return resolve({**SETTINGS, "train": given}, "a row")


def files(**train) -> set[str]:
    return {str(path.relative_to(PACKAGE)) for path in used_files(modules_of(settings(**train)))}


@pytest.mark.slow
def test_all_functions_that_a_run_calls_count(tmp_path):
    arch = "transformer_hysan"
    write_text(tmp_path / "text")
    row = {"train": {"arch": arch, "head-patterns": None, "max-update": 75}}
    table = with_rows(TABLE, plain=row)
    write_configs(tmp_path / "configs", **{"toy/table1.yaml": table})
    (tmp_path / "called").mkdir()
    program = SITECUSTOMIZE.format(package=USER_DIR, folder=str(tmp_path / "called"))
    (tmp_path / "sitecustomize.py").write_text(program)
    words = "reproduce toy/table1 plain --configs configs --data text --output out --device cpu"
    path = os.pathsep.join([str(tmp_path), str(PACKAGE.parent)])
    subprocess.run(
        command("fairseq-hybrid", *words.split()),
        cwd=tmp_path,
        env=environment(PYTHONPATH=path),
        check=True,
        capture_output=True,
    )
    called = set()
    for printed in (tmp_path / "called").iterdir():
        words, *paths = printed.read_text().splitlines()
        if " reproduce " not in words:
            called |= {str(Path(path).relative_to(PACKAGE)) for path in paths}
    assert {"attention/multihead.py", "lab/scores/metrics.py", "tasks/gnmt.py"} <= called
    unseen = called - files(arch=arch)
    assert [path for path in unseen if not path.startswith(HARMLESS)] == []


def test_a_run_depends_on_what_it_uses():
    models = {
        arch: {path for path in files(arch=arch) if path.startswith("models/")}
        for arch in ("transformer", "transformer_mma", "transformer_lstm_on_top")
    }
    shared = {"models/transformer.py", "models/config.py"}
    assert models["transformer"] == set()
    assert models["transformer_mma"] == shared | {"models/mma.py"}
    assert models["transformer_lstm_on_top"] == shared | {"models/lstm_on_top.py"}
    supervised = "label_smoothed_cross_entropy_with_supervised_attention"
    assert files(criterion=supervised) - files() == {"criterions.py", "alignment_data.py"}


def test_what_python_reads_counts_and_what_it_does_not_read_does_not(tmp_path):
    """Comments, docstrings and layout make no result stale, nor do other models; a number does."""
    copied = tmp_path / PACKAGE.name
    shutil.copytree(PACKAGE, copied, ignore=shutil.ignore_patterns("__pycache__"))
    program = '"""A module."""\n\n\ndef f(x):\n    """Say."""\n    return x + 1\n'
    same = '"""Other words."""\ndef f(x):  # a comment\n    return (x+1)\n'

    def digest(path, text):
        (copied / path).write_text(text)
        provenance._read.cache_clear()
        provenance._imports.cache_clear()
        provenance._found_from.cache_clear()
        return used_digest(modules_of(settings()), copied)

    counted = "lab/scores/metrics.py"
    before = digest(counted, program)
    assert digest(counted, same) == before
    assert digest(counted, program.replace("1", "2")) != before
    assert digest(counted, program.replace('"""Say."""\n    return', 'return """Say""",')) != before
    assert digest(counted, program) == before
    for harmless in ("models/hysan.py", "lab/look/maps_measure.py", "lab/look/gates_figure.py"):
        assert digest(harmless, "x = 1\n") == before
    assert digest("attention/short.py", "x = 1\n") != before


def test_a_users_own_package_counts(tmp_path, monkeypatch):
    """A model of another folder, with what it imports of that folder and of ours."""
    package = tmp_path / "my_patterns"
    package.mkdir()
    (package / "__init__.py").write_text("from . import mine, other\n")
    (package / "mine.py").write_text(
        "from fairseq_hybrid_attn.models import MMA\nfrom .deep import x\n"
    )
    (package / "deep.py").write_text("x = 1\n")
    (package / "other.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    import my_patterns  # noqa: F401

    found = {path.name for path in used_files(["my_patterns.mine"])}
    assert {"mine.py", "deep.py", "mma.py", "transformer.py"} <= found
    assert not found & {"other.py", "hysan.py"}
    for name in [name for name in sys.modules if name.startswith("my_patterns")]:
        monkeypatch.delitem(sys.modules, name)
