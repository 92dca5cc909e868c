"""Peak memory of a call on a CPU, in a separate process.

It is the process's high-water mark of resident memory, less what was resident before the call.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import sys
from collections.abc import Callable
from functools import cache, partial
from multiprocessing import forkserver
from pathlib import Path

from .common import VANILLA, Settings, prepare


def peak_bytes(make_call: partial, n: int, settings: Settings) -> int:
    """Measure a call in a new process; ``make_call(n)`` returns the call for length n."""
    with _processes(make_call.func.__module__).Pool(1) as process:
        return process.apply(_measure, (make_call, n, settings))


def peaks(makers: dict[str, partial], n: int, settings: Settings) -> dict[str, dict]:
    """Measure the calls of all candidates; return each one's peak, beside that of ``VANILLA``."""
    found = {name: peak_bytes(maker, n, settings) for name, maker in makers.items()}
    vanilla = found[VANILLA]
    results = {}
    for name, peak in found.items():
        share = round(peak / max(1, vanilla), 4)
        results[name] = {
            "ratio": {"median": share, "min": share, "max": share},
            "megabytes": round(peak / 2**20, 2),
            "vanilla_megabytes": round(vanilla / 2**20, 2),
        }
    return results


@cache
def _processes(module: str):
    """Return a context that starts processes in which a module is imported and nothing has run."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([module])
    # Return freed memory to the system at once; otherwise the measured call could reuse it.
    thresholds = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    before = {name: os.environ.get(name) for name in thresholds}
    os.environ.update(thresholds)
    try:
        forkserver.ensure_running()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    return context


def _measure(make_call: Callable[[int], Callable[[], object]], n: int, settings: Settings) -> int:
    prepare(settings)
    call = make_call(2)  # loads and compiles what a call needs, on little memory
    call()
    call()
    call = make_call(n)
    gc.collect()  # what warmed up must not be freed while the call is measured
    before = _start()
    call()
    return _peak() - before


def _start() -> int:
    """Reset the high-water mark; return the resident memory in bytes."""
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
