"""What all benchmarks share: the machine, fair timing, ratios, and which path is forced."""

from __future__ import annotations

import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import torch

from fairseq_hybrid_attn.attention import paths
from fairseq_hybrid_attn.lab.engine import provenance

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}

#: The choice that the package makes by itself, as opposed to a path forced by its name.
CHOSEN = "chosen"
#: What everything is compared with, and the same once more: its ratio should be 1, and how
#: far it is from 1 is how far any other ratio may be wrong.
VANILLA, NULL = "vanilla", "null"


@dataclass(frozen=True)
class Settings:
    """
    Attributes:
        device: ``cpu`` or ``cuda``.
        dtype: a name in ``DTYPES``.
        threads: threads of a CPU operator.
        clock: ``cpu`` counts the processor time of this process, in which work beside it hardly
            shows; for one thread of a CPU, where it is the time that passes on an idle
            machine.  ``wall`` counts the time that passes.
        rounds: how often each candidate is timed; of an odd number, the median is a round.
        shortest: seconds that a timing lasts at least; short calls are repeated within it.
        paths: what to time: ``chosen`` and names of paths.
        lengths: sentence lengths n.
        cases: branch sets of the operator, or systems of the others; None = all.
        tokens: about how many positions a batch of the operator holds.
        memory: whether peak memory is measured.
        sentences, length, vocabulary: the batch of training step and generation.
        width, ffn, heads, layers: of the models.
    """

    device: str = "cpu"
    dtype: str = "fp32"
    threads: int = 1
    clock: str = "cpu"
    rounds: int = 7
    shortest: float = 0.05
    paths: tuple[str, ...] = (CHOSEN, "reference")
    lengths: tuple[int, ...] = (25, 64, 128, 512, 1024, 4096)
    cases: tuple[str, ...] | None = None
    tokens: int = 1024
    memory: bool = True
    sentences: int = 40
    length: int = 25
    vocabulary: int = 10000
    width: int = 512
    ffn: int = 1024
    heads: int = 4
    layers: int = 6

    @property
    def torch_dtype(self) -> torch.dtype:
        """``dtype`` as torch names it."""
        return DTYPES[self.dtype]

    def wants(self, case: str) -> bool:
        """Whether ``case`` is to be run."""
        return self.cases is None or case in self.cases


def machine(settings: Settings) -> dict:
    """The machine, with its load now: beside other work, ratios scatter."""
    return {
        **provenance.hardware(),
        "architecture": platform.machine(),
        "system": platform.system(),
        "simd": torch.backends.cpu.get_cpu_capability(),
        "cuda": torch.version.cuda if settings.device == "cuda" else None,
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    found = provenance.versions()
    with suppress(PackageNotFoundError):
        found["triton"] = version("triton")
    return found


def prepare(settings: Settings) -> None:
    """Set threads and seeds.

    Raises:
        SystemExit: if the device is not there.
    """
    if settings.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("--device cuda: torch sees no CUDA device here")
    if settings.device == "cpu" and settings.dtype == "fp16":
        raise SystemExit("--dtype fp16 is for --device cuda; a CPU has fp32 and bf16")
    if settings.clock == "cpu" and (settings.device != "cpu" or settings.threads != 1):
        raise SystemExit("--clock cpu is for one thread of a CPU")
    torch.set_num_threads(settings.threads)
    torch.manual_seed(0)


def synchronise(device: str) -> None:
    """Wait until the device has done all it was told."""
    if device == "cuda":
        torch.cuda.synchronize()


def interleaved(
    candidates: dict[str, Callable[[], object]], settings: Settings
) -> dict[str, list[float]]:
    """Time candidates in turn, round by round, so that a change of the machine meets all.

    Each round starts with another candidate.  Everything is run twice before, which also
    compiles what has to be compiled.

    Returns:
        seconds a call of each candidate, a number for each round.
    """
    repeats = {}
    for name, call in candidates.items():
        call()
        repeats[name] = max(1, math.ceil(settings.shortest / _seconds(call, 1, settings)))
    names = list(candidates)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(settings.rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            seconds[name].append(_seconds(candidates[name], repeats[name], settings))
    return seconds


def _seconds(call: Callable[[], object], repeats: int, settings: Settings) -> float:
    clock = time.process_time if settings.clock == "cpu" else time.perf_counter
    synchronise(settings.device)
    begin = clock()
    for _ in range(repeats):
        call()
    synchronise(settings.device)
    return max(clock() - begin, 1e-9) / repeats


def ratio(seconds: dict[str, list[float]], name: str) -> dict[str, float]:
    """Time of ``name`` over that of vanilla in the same round: median and spread of rounds."""
    rounds = [ours / theirs for ours, theirs in zip(seconds[name], seconds[VANILLA], strict=True)]
    return {
        "median": round(statistics.median(rounds), 4),
        "min": round(min(rounds), 4),
        "max": round(max(rounds), 4),
    }


def milliseconds(seconds: list[float]) -> float:
    """Median, for orientation only: absolute times do not carry from machine to machine."""
    return round(1000 * statistics.median(seconds), 4)


@contextmanager
def forced(path: str) -> Iterator[None]:
    """Have every attention take ``path`` where it is able; ``chosen`` forces nothing."""
    before = os.environ.pop(paths.PATH_VARIABLE, None)
    try:
        if path != CHOSEN:
            os.environ[paths.PATH_VARIABLE] = path
        yield
    finally:
        os.environ.pop(paths.PATH_VARIABLE, None)
        if before is not None:
            os.environ[paths.PATH_VARIABLE] = before


def paths_taken(call: Callable[[], object]) -> list[str]:
    """Names of the paths by which one call computes its attention."""
    before = paths.CALLS.copy()
    call()
    return sorted((paths.CALLS - before).keys())
