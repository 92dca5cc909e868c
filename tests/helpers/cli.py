"""fairseq's commands and ours, run as a user runs them: each in a separate process.

A new process takes seconds to import fairseq, and a test of a table starts dozens.  So ``run``,
which tests call, has three ways:

* ``run_here``: our commands that only read and print run in the tests' own process;
* ``run_forked``: others are forked from SERVER, a process that has imported fairseq and has done
  nothing else.  There, ``_serve`` sets up what a new process would have: files as its streams, its
  folder, environment and arguments;
* a new process, if environment variables are given, which a module may read on import.

Our commands start programs of fairseq by ``subprocess.Popen`` in ``lab.files.processes``.  In a
forked process ``_fork`` takes its place, and forks again.  A test that needs the real one names a
command by ``command`` and runs it itself.

The rest of this file is what tests train: small models, and text of letters and its reversal.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import multiprocessing
import os
import random
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import torch

import fairseq_hybrid_attn
from fairseq_hybrid_attn.lab.commands.command_line import COMMANDS, main
from fairseq_hybrid_attn.lab.files import processes

USER_DIR = str(Path(fairseq_hybrid_attn.__file__).parent)
MODULES = {
    "fairseq-preprocess": "fairseq_cli.preprocess",
    "fairseq-train": "fairseq_cli.train",
    "fairseq-hydra-train": "fairseq_cli.hydra_train",
    "fairseq-generate": "fairseq_cli.generate",
    "fairseq-interactive": "fairseq_cli.interactive",
    "fairseq-eval-lm": "fairseq_cli.eval_lm",
    "fairseq-validate": "fairseq_cli.validate",
    "fairseq-hybrid": "fairseq_hybrid_attn",
}
#: What training and translation import, partly when they begin.
IMPORTED = [
    "fairseq_hybrid_attn.models",  # first, as by --user-dir
    *(f"fairseq_hybrid_attn.lab.commands.{name.replace('-', '_')}" for name in COMMANDS),
    *("fairseq_cli.train", "fairseq_cli.generate"),
    *("torch._dynamo", "torch.profiler"),
]
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(IMPORTED)
#: With a module and its arguments: a separate process, which forks the programs that it starts.
FORKING = [sys.executable, __file__]
#: Our commands that run in this process.
READ_AND_PRINT = ("table", "show", "runs", "aer")
TINY = (
    "--encoder-embed-dim 16 --encoder-ffn-embed-dim 32 --encoder-attention-heads 4 "
    "--decoder-attention-heads 4 --encoder-layers 2 --decoder-layers 2 "
    "--max-source-positions 40 --max-target-positions 40"
).split()
TRAINING_FLAGS = (
    "--cpu --optimizer adam --lr 1e-3 --max-tokens 400 --log-format simple "
    "--criterion fused_label_smoothed_cross_entropy --label-smoothing 0.1 "
    "--skip-invalid-size-inputs-valid-test"
).split()


def command(name: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", MODULES[name], *map(str, arguments)]


def environment(**variables: str) -> dict[str, str]:
    repository = str(Path(USER_DIR).parent)
    paths = [repository, os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
        "PYTHONPATH": os.pathsep.join(p for p in paths if p),
        **variables,
    }


def run(name, *arguments, cwd, expect=0, stdin="", **variables) -> subprocess.CompletedProcess:
    """Run a command to its end; its output is shown if its exit status is not ``expect``."""
    if name == "fairseq-hybrid" and arguments[0] in READ_AND_PRINT and not (stdin or variables):
        done = run_here(list(map(str, arguments)), cwd)
    elif not variables:
        done = run_forked(MODULES[name], arguments, cwd, stdin)
    else:  # a process may read variables on import
        done = subprocess.run(
            command(name, *arguments),
            cwd=cwd,
            env=environment(**variables),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=1200,  # not a test of speed: the machine may be busy
        )
    if done.returncode != expect:
        raise AssertionError(
            f"{name} ended with {done.returncode}, not {expect}\n"
            f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        )
    return done


def run_here(arguments: list[str], cwd: Path) -> subprocess.CompletedProcess:
    """Run one of our commands in this process."""
    out, err = io.StringIO(), io.StringIO()
    status: object = 0
    streams = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    with changed_folder(cwd), streams[0], streams[1]:
        try:
            main(arguments)
        except SystemExit as end:  # a UserError is one
            status = end.code
    if isinstance(status, str):  # as Python ends a process
        err.write(f"{status}\n")
        status = 1
    return subprocess.CompletedProcess(arguments, status or 0, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def changed_folder(folder: Path):
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def run_forked(
    program: str | Path, arguments: Iterable[object], cwd: Path | None = None, stdin: str = ""
) -> subprocess.CompletedProcess:
    """Run a module or a script in a process that has already imported what it needs."""
    words = [str(program), *map(str, arguments)]
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, name) for name in ("in", "out", "err")]
        for path in files:
            Path(path).write_text(stdin if path == files[0] else "")
        child = SERVER.Process(target=_serve, args=(words, str(cwd or Path.cwd()), files))
        child.start()
        child.join(1200)  # not a test of speed: the machine may be busy
        if child.exitcode is None:
            child.kill()
            raise AssertionError(f"{program} has not ended within 20 minutes")
        out, err = (Path(path).read_text(errors="replace") for path in files[1:])
    return subprocess.CompletedProcess(words, child.exitcode, out, err)


def _serve(words: list[str], cwd: str, files: list[str]) -> None:
    """Be a program with these files as its streams; fork what it starts by ``run_program``."""
    for number, path in enumerate(files):
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND if number else os.O_RDONLY), number)
    sys.stdin = os.fdopen(0)
    os.chdir(cwd)
    os.environ.update(environment())
    warnings.simplefilter("ignore")
    # As in any other process; a loader's worker would otherwise start a server first.
    multiprocessing.set_start_method("fork", force=True)
    _be_forking(words)


def _be_forking(words: list[str]) -> None:
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


def subword_nmt(program: str, *arguments: object, text: bytes) -> bytes:
    """Run a program of subword-nmt on a text."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(text)
        file.flush()
        done = run_forked(f"subword_nmt.{program}", ["-i", file.name, *arguments])
    assert not done.returncode, done.stderr
    return done.stdout.encode()


def train(data, save_dir, arch, *flags, cwd, expect=0, **variables):
    return run(
        "fairseq-train",
        data,
        *("--user-dir", USER_DIR, "--arch", arch, "--save-dir", save_dir),
        *(*TINY, "--share-all-embeddings"),
        *TRAINING_FLAGS,
        *flags,
        cwd=cwd,
        expect=expect,
        **variables,
    )


def generate(data, checkpoint, *flags, cwd, expect=0, **variables):
    # Unless batches may have any size, fairseq silently leaves out the last batch.
    return run(
        "fairseq-generate",
        data,
        *("--user-dir", USER_DIR, "--path", checkpoint, "--cpu", "--max-tokens", 1000),
        *("--required-batch-size-multiple", 1),
        *flags,
        cwd=cwd,
        expect=expect,
        **variables,
    )


def train_in_two_processes(data, save_dir, arch, *flags, cwd) -> None:
    """Train with torch's distributed data parallelism on a CPU."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def process(rank: int) -> None:
        train(
            *(data, save_dir, arch, *flags, "--distributed-world-size", 2),
            *("--distributed-rank", rank, "--distributed-init-method", f"tcp://localhost:{port}"),
            *("--distributed-no-spawn", "--distributed-backend", "gloo"),
            *("--ddp-backend", "legacy_ddp"),
            cwd=cwd,
        )

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(process, (0, 1)))


def weights(path: Path) -> dict[str, torch.Tensor]:
    """The weights of a checkpoint."""
    return torch.load(path, weights_only=True)["model"]


def write_corpus(folder: Path, *, hard_cases: bool) -> None:
    """Write sequences and their reversal.

    With ``hard_cases`` every split has empty lines, one-word lines, and one line that is
    longer than a tiny model takes.
    """
    letters = "abcdefghij"
    choose = random.Random(0)
    for split, size in (("train", 200), ("valid", 20), ("test", 20)):
        lines = []
        for number in range(size):
            if hard_cases and number in (3, 7):
                lines.append([])
            elif hard_cases and number in (4, 11):
                lines.append([choose.choice(letters)])
            elif hard_cases and number == 5:
                lines.append([choose.choice(letters) for _ in range(60)])
            else:
                lines.append([choose.choice(letters) for _ in range(choose.randint(2, 12))])
        for side, order in (("de", 1), ("en", -1)):
            text = "".join(" ".join(line[::order]) + "\n" for line in lines)
            (folder / f"{split}.{side}").write_text(text)


def binarise(folder: Path, *flags: str) -> Path:
    run(
        "fairseq-preprocess",
        *("-s", "de", "-t", "en", "--joined-dictionary", "--destdir", "bin"),
        *("--trainpref", "train", "--validpref", "valid", "--testpref", "test", *flags),
        cwd=folder,
    )
    return folder / "bin"


if __name__ == "__main__":
    for module in IMPORTED:
        importlib.import_module(module)
    _be_forking(sys.argv[1:])
