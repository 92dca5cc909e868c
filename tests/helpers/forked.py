"""Programs run in processes that have imported fairseq already, which takes seconds.

A test of a table starts dozens of programs.  ``run_forked`` forks each from SERVER, a process that
has imported IMPORTED and done nothing else.  Our commands start programs of fairseq in turn, by
``subprocess.Popen`` in ``lab.files.processes``; in a forked process ``_fork`` takes its place.

What differs from a new process: modules are imported before the environment and the arguments are
set.  A test for which this matters runs ``cli.command`` itself.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

from fairseq_hybrid_attn.lab.commands.command_line import COMMANDS
from fairseq_hybrid_attn.lab.files import processes

REPOSITORY = str(Path(__file__).parents[2])
#: What training and translation import, partly when they begin.
IMPORTED = [
    "fairseq_hybrid_attn.models",  # first, as by --user-dir
    *(f"fairseq_hybrid_attn.lab.commands.{name.replace('-', '_')}" for name in COMMANDS),
    *("fairseq_cli.train", "fairseq_cli.generate"),
    *("torch._dynamo", "torch.profiler"),
]
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(IMPORTED)
LONGEST = 1200  # seconds; not a test of speed: the machine may be busy


def environment(**variables: str) -> dict[str, str]:
    """The variables of a process that a test starts."""
    paths = [REPOSITORY, os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
        "PYTHONPATH": os.pathsep.join(p for p in paths if p),
        **variables,
    }


def run_forked(
    program: str | Path, arguments: Iterable[object], cwd: Path | None = None, stdin: str = ""
) -> subprocess.CompletedProcess:
    """Run a module or a script (``*.py``) to its end."""
    words = [str(program), *map(str, arguments)]
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("in", "out", "err")]
        for path in files:
            path.write_text(stdin if path.name == "in" else "")
        child = SERVER.Process(target=_serve, args=(words, str(cwd or Path.cwd()), files))
        child.start()
        child.join(LONGEST)
        if child.exitcode is None:
            child.kill()
            raise AssertionError(f"{program} has not ended within {LONGEST} seconds")
        out, err = (path.read_text(errors="replace") for path in files[1:])
    return subprocess.CompletedProcess(words, child.exitcode, out, err)


def _serve(words: list[str], cwd: str, files: list[Path]) -> None:
    """Be a program with these files as its streams, in a process that the server has forked."""
    for number, path in enumerate(files):
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND if number else os.O_RDONLY), number)
    sys.stdin = os.fdopen(0)
    os.chdir(cwd)
    os.environ.update(environment())
    warnings.simplefilter("ignore")
    # As in any other process; a loader's worker would otherwise start a server first.
    multiprocessing.set_start_method("fork", force=True)
    processes.subprocess = SimpleNamespace(**{**vars(subprocess), "Popen": _fork})
    _be(words)


def _be(words: list[str]) -> None:
    """Be ``python -m words``, or ``python words`` if the first is a script."""
    sys.argv = words
    if words[0].endswith(".py"):
        sys.path.insert(0, os.path.dirname(words[0]))
        runpy.run_path(words[0], run_name="__main__")
    else:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)


class _Forked(multiprocessing.context.ForkProcess):
    """A process with the methods of ``subprocess.Popen`` that ``run_program`` uses."""

    def poll(self) -> int | None:
        return self.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self.join(timeout)
        if self.exitcode is None:
            raise subprocess.TimeoutExpired(self.name, timeout or 0)
        return self.exitcode


def _fork(words: list[str], *, env, stdout, preexec_fn, **_: object) -> _Forked:
    """Start ``python -m MODULE`` as ``run_program`` does."""

    def program() -> None:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        if preexec_fn:
            preexec_fn()
        for number, stream in enumerate((os.open(os.devnull, os.O_RDONLY), stdout.fileno())):
            os.dup2(stream, number)
        os.dup2(1, 2)
        os.environ.clear()
        os.environ.update(env)
        _be(words[2:])

    process = _Forked(target=program)
    process.start()
    return process
