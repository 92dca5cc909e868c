"""Peak memory of one attention operator, forward and backward, in a process of its own.

On CUDA: the most that torch had allocated at a time, less what the inputs hold.  On a CPU: the
process's high-water mark of resident memory, less what was resident when all was ready to run.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
from functools import cache
from multiprocessing import forkserver
from pathlib import Path

import torch

from .common import Settings, prepare, synchronise


def in_a_process(case: str, n: int, path: str, settings: Settings) -> int:
    """Measure in a new process.

    Args:
        case: a name in ``operator.CASES``.
        n: sentence length.
        path: a path's name, ``chosen``, ``vanilla`` or ``null``.

    Returns:
        bytes.
    """
    with _processes().Pool(1) as process:
        return process.apply(measure, (case, n, path, settings))


@cache
def _processes():
    """Makes processes that have everything loaded and have run nothing yet."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.operator"])
    # Freed memory goes back to the system at once, so that what ran before leaves nothing
    # behind in which the measured call could hide.
    returned = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    before = {name: os.environ.get(name) for name in returned}
    os.environ.update(returned)
    try:
        forkserver.ensure_running()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    return context


def measure(case: str, n: int, path: str, settings: Settings) -> int:
    """Measure in this process; arguments and result of :func:`in_a_process`."""
    from . import operator

    prepare(settings)
    # Load and compile all that a call needs, on a sentence that leaves no mark.
    for length in (2, n):
        given = operator.problem(operator.CASES[case], length, settings, gradients=True)
        solve = operator.solver(path, given, operator.CASES[case])
        call = operator.with_backward(solve, path, given)
        if length != n:
            call()
            call()
    synchronise(settings.device)
    if settings.device == "cuda":
        call()  # compiles for this length
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    before = _start()
    call()
    return _peak() - before


def _start() -> int:
    """Forget the high-water mark so far; returns the memory that is resident, in bytes."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return _status("VmRSS")
    except OSError:  # not Linux, or not allowed: the mark can only rise
        return _peak()


def _peak() -> int:
    try:
        return _status("VmHWM")
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"no {field} in /proc/self/status")
