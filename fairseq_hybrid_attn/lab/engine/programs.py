"""Starting the programs of runs, and ending them with us."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

#: Programs by the modules that they are, so that they run in this very environment.
MODULES = {
    "fairseq-train": "fairseq_cli.train",
    "fairseq-generate": "fairseq_cli.generate",
    "fairseq-hybrid": "fairseq_hybrid_attn",
}
SECONDS_TO_END = 10
SHOWN_LINES = 12


class StepFailed(Exception):
    """A program of a run ended with an error."""


class Stopped(Exception):
    """The user has stopped the runs."""


class Programs:
    """Starts programs and ends them when the user stops the runs."""

    def __init__(self) -> None:
        self.stopped = threading.Event()

    def run(
        self,
        command: list[str],
        environment: dict[str, str],
        log: Path,
        lock: int | None = None,
        while_running: Callable[[], None] = lambda: None,
    ) -> None:
        """Run a program to its end, with its output appended to a log.

        Args:
            command: the program and its arguments.
            environment: of the program.
            log: appended to.
            lock: a file descriptor that the program holds as well, so that one which
                outlives its killed parent is waited for.
            while_running: called every second.

        Raises:
            StepFailed: if it fails, with the end of the log.
            Stopped: if the user has stopped the runs; the program is ended first.
        """
        if self.stopped.is_set():
            raise Stopped
        log.parent.mkdir(parents=True, exist_ok=True)
        arguments = [sys.executable, "-m", MODULES[command[0]], *command[1:]]
        with open(log, "ab") as output:
            start = output.tell()
            # A session of its own: Ctrl-C reaches it through us alone, with all its children.
            process = subprocess.Popen(
                arguments,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=() if lock is None else (lock,),
            )
            try:
                while True:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        status = process.wait(timeout=1)
                        break
                    if self.stopped.is_set():
                        raise Stopped
                    while_running()
            finally:
                _end(process)
        if status != 0:
            raise StepFailed(
                f"{command[0]} ended with status {status}; the end of {log}:\n{_tail(log, start)}"
            )

    def stop(self) -> None:
        """End all that runs."""
        self.stopped.set()


def stop_at_signals() -> None:
    """Have ``kill``, a cluster's notice and a closed terminal end our programs with us.

    As Ctrl-C does.  Under nohup, a closed terminal is not heeded.
    """

    def stop(number, frame):
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)


def _end(process: subprocess.Popen) -> None:
    """End a program and its children, if it is still there."""
    if process.poll() is not None:
        return
    for how in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=SECONDS_TO_END)
            return


def _tail(log: Path, start: int) -> str:
    with open(log, "rb") as file:
        file.seek(start)
        lines = file.read().decode("utf-8", errors="replace").rstrip().split("\n")
    return "\n".join(f"   | {line[:300]}" for line in lines[-SHOWN_LINES:])
