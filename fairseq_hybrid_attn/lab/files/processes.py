"""Work in other processes and programs, which end when this one does; and locks."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from ...errors import UserError

#: Programs and their modules, so that they run in this environment.
MODULES = {
    "fairseq-preprocess": "fairseq_cli.preprocess",
    "fairseq-train": "fairseq_cli.train",
    "fairseq-generate": "fairseq_cli.generate",
    "fairseq-hybrid": "fairseq_hybrid_attn",
}
#: Without assertions, fairseq does not write its checkpoints; with warnings as errors, it does not
#: import.
_NOT_PASSED = ("PYTHONOPTIMIZE", "PYTHONWARNINGS")
SECONDS_TO_END = 10
MOST_SHOWN = 300  # characters of an error

_KILLED = "a process was killed, perhaps because memory ran out"
_ENDING = (signal.SIGINT, signal.SIGTERM)
_NO_SPACE = 100_000  # bytes
_FULL = re.compile("No space left on device|Disk quota exceeded|File too large")
#: How the last line of a Python traceback begins.
_ERROR = re.compile(r"[\w.]*(Error|Exception)\b")
_PR_SET_PDEATHSIG = 1  # from Linux's sys/prctl.h


def default_workers() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def follow_parent() -> None:
    """In a new process: leave Ctrl-C to the parent, and end when the parent is killed.

    The latter works on Linux only; elsewhere such a process stays until it notices.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _end_with_parent()


@contextlib.contextmanager
def _no_signals() -> Iterator[None]:
    """Defer Ctrl-C and SIGTERM.

    While Python forks, it runs functions (of the logging module, for one) whose exceptions it
    ignores, so a signal's exception would be lost.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)  # blocked while we were forked
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def in_order(function: Callable, tasks: Iterator, workers: int) -> Iterator:
    """Yield the results of ``function`` in the order of the tasks, few of them at a time."""
    if workers <= 1:
        yield from map(function, tasks)
        return
    waiting: deque = deque()
    pool = ProcessPoolExecutor(workers, initializer=follow_parent)
    try:
        for task in tasks:
            with _no_signals():
                waiting.append(pool.submit(function, task))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise UserError(f"{_KILLED}; try again with fewer --workers") from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def in_child(function: Callable, *arguments: object) -> Any:
    """Call a function in a separate process, so that Ctrl-C ends even work in C++."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=_call, args=(sender, function, arguments))
    try:
        with _no_signals():
            process.start()
        sender.close()
        good, result = receiver.recv()
    except EOFError:
        raise UserError(_KILLED) from None
    finally:
        if process.pid:
            process.kill()  # done already, unless we are interrupted
            process.join()
    if not good:
        raise result
    return result


def _call(sender, function: Callable, arguments: Sequence) -> None:
    follow_parent()
    try:
        answer = (True, function(*arguments))
    except Exception as error:
        answer = (False, error)
    sender.send(answer)


def run_program(
    command: Sequence[str],
    log: Path,
    environment: Mapping[str, str] | None = None,
    lock: int | None = None,
    while_running: Callable[[], None] = lambda: None,
) -> None:
    """Run a program of :data:`MODULES` to its end; append its output to a log.

    The program and its own processes end with us.  If we are killed, a program that inherits a
    lock (a file descriptor) stays, and holds the lock.  ``while_running`` is called first, and
    then every second; if it raises, the program is terminated.
    """
    while_running()
    log.parent.mkdir(parents=True, exist_ok=True)
    ends_with_us = lock is None
    started = os.environ if environment is None else environment
    with open(log, "ab") as output:
        start = output.tell()
        process = None
        try:
            with _no_signals() if ends_with_us else contextlib.nullcontext():
                process = subprocess.Popen(
                    [sys.executable, "-m", MODULES[command[0]], *command[1:]],
                    env={name: started[name] for name in started if name not in _NOT_PASSED},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C reaches us only; our signals reach all of them
                    pass_fds=() if lock is None else (lock,),
                    preexec_fn=_end_with_parent if ends_with_us else None,
                )
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    status = process.wait(timeout=1)
                    break
                while_running()
        finally:
            if process:
                _end(process)
    if status != 0:
        printed = log.read_bytes()[start:].decode("utf-8", errors="replace").rstrip()
        name = " ".join(command[: 1 + (command[0] == "fairseq-hybrid")])
        free = shutil.disk_usage(log.parent).free
        full = _FULL.search(printed)
        if full or free < _NO_SPACE:  # then the log may have ended as well
            raise UserError(
                f"{name} could not write its files ({full[0] if full else 'the disk is full'}; "
                f"{free / 1e6:,.0f} MB are free beside its log); make room, and repeat the command"
            )
        problem = error_in(printed) or printed.rpartition("\n")[2] or "it said nothing"
        problem = textwrap.shorten(problem, MOST_SHOWN, placeholder=" …")
        raise UserError(f"{name} ended with status {status}: {problem}\n    log: {log}")


def error_in(printed: str) -> str | None:
    """The error that a program's output ends with, if any, such as a loss that became NaN."""
    _, traceback, end = printed.rpartition("Traceback (most recent")
    if not traceback or " | INFO | " in end:  # it was resumed
        return None
    # Messages of several lines, and warnings, may follow.
    return next((line for line in reversed(end.split("\n")) if _ERROR.match(line)), None)


def _end(process: subprocess.Popen) -> None:
    """End a program if it is still running, and its children in any case."""
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=SECONDS_TO_END)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def stop_at_signals() -> None:
    """Make ``kill``, a cluster's notice and (without nohup) a closed terminal act as Ctrl-C."""

    def stop(number, frame):
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)


@contextlib.contextmanager
def locked(
    path: Path, say: Callable[[str], None], while_waiting: Callable[[], None] = lambda: None
) -> Iterator[int]:
    """Hold a lock; wait while another process, perhaps on another node, holds it.

    Yield the descriptor of the lock.  Programs that are given it inherit the lock and hold it until
    they end as well.  ``say`` is called if there is another process; ``while_waiting`` is called
    every second, and ends the wait if it raises.  The lock file stays.
    """
    with _open(path) as file:
        if not _take(file):
            say(f"{_who(path)} is at work in {path.parent}; waiting for it to end")
            while not _take(file):
                while_waiting()
                time.sleep(1)
        yield file.fileno()


def at_work(path: Path) -> str | None:
    """Who holds a lock, for display; None if nobody does."""
    if not path.exists():
        return None
    with _open(path) as file:
        return None if _take(file) else _who(path)


def _who(path: Path) -> str:
    """The first process on this machine that holds a lock, or has inherited it."""
    found, path = [], path.resolve()
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            info = descriptor.parents[1] / "fdinfo" / descriptor.name
            if descriptor.readlink() == path and "FLOCK" in info.read_text():
                found.append(int(descriptor.parts[2]))
    if not found:
        return "another process, perhaps on another machine,"
    return f"process {min(found)} (kill {min(found)} would end it)"


def _open(path: Path):
    try:
        return open(path, "a")
    except OSError as error:
        raise UserError(f"{path.parent} cannot be written to: {error.strerror}") from error


def _take(file) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise UserError(f"{file.name} cannot be locked: {error.strerror}") from error
    return True
