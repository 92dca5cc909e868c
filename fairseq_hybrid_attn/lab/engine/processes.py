"""Work in other processes, which end when this one does, however it ends."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from ...errors import UserError

_KILLED = "a process was ended from outside, perhaps for want of memory"
_ENDING = (signal.SIGINT, signal.SIGTERM)
_PR_SET_PDEATHSIG = 1  # from Linux's sys/prctl.h


def default_workers() -> int:
    """How many processes can work at the same time."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def follow_parent() -> None:
    """In a new process: leave Ctrl-C to the parent, and end when the parent is killed.

    The latter on Linux alone; elsewhere such a process stays until it notices.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _end_with_parent()


@contextlib.contextmanager
def _no_signals() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM wait.

    While Python forks it runs functions (of the logging module, for one) whose exceptions it
    ignores: that of a signal would be lost.
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
    """The results of ``function`` in the order of the tasks, few of them at a time.

    Raises:
        UserError: from the function, or if a process was killed.
    """
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


def in_child(function: Callable, *arguments: object) -> object:
    """Call a function in a process of its own, so that Ctrl-C ends even work in C++.

    Returns:
        what the function returns.

    Raises:
        UserError: if the process was killed.
        Exception: whatever the function raises.
    """
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


def run_program(command: Sequence[str], log: Path) -> int:
    """Run a program with its output in a file; it and its own processes end with us.

    Returns:
        its exit status.
    """
    with open(log, "wb") as file:
        process = None
        try:
            with _no_signals():
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C reaches us alone, and a signal all of them
                    preexec_fn=_end_with_parent,
                )
            return process.wait()
        finally:
            if process:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
