"""What all benchmarks share: settings, fair timing, ratios, and the ways of computing."""

from __future__ import annotations

import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from unittest.mock import patch

import torch

from fairseq_hybrid_attn.attention import PatternedAttention
from fairseq_hybrid_attn.attention.reference import reference
from fairseq_hybrid_attn.attention.sdpa import sdpa
from fairseq_hybrid_attn.lab.files import provenance

#: The layout of result files; raised when it changes.
FORMAT = 2

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}

#: The package's own choice of a way; other candidates are ways by their names.
CHOSEN = "chosen"
#: What everything is compared with, and the same again, whose ratio should be 1.
VANILLA, NULL = "vanilla", "null"
#: On a CPU in bfloat16: vanilla in bfloat16, too.
VANILLA_BF16 = "vanilla in bf16"
#: What ``others`` times where they are installed; not dependencies.
TOOLKITS = ("transformers", "joeynmt")


WAYS = {"sdpa": sdpa, "reference": reference}


@dataclass(frozen=True)
class Settings:
    """The options of the command line, which ``--help`` explains."""

    device: str = "cpu"
    dtype: str = "fp32"
    threads: int = 1
    clock: str = "cpu"
    rounds: int = 7
    shortest: float = 0.05
    ways: tuple[str, ...] = (CHOSEN, "reference")
    cases: tuple[str, ...] | None = None
    memory: bool = True
    sentences: int = 40
    length: int = 25
    vocabulary: int = 10000
    width: int = 512
    ffn: int = 1024
    heads: int = 4
    layers: int = 6

    @property
    def like(self) -> dict:
        """Device and dtype of tensors, as torch's keywords."""
        return {"device": self.device, "dtype": DTYPES[self.dtype]}

    def wants(self, case: str) -> bool:
        """Whether to run ``case``."""
        return self.cases is None or case in self.cases


def prepare(settings: Settings) -> None:
    """Set threads and seed, or exit if the settings contradict each other."""
    if settings.clock == "cpu" and settings.threads != 1:
        raise SystemExit("--clock cpu is for one thread")
    torch.set_num_threads(settings.threads)
    torch.manual_seed(0)


def heading(settings: Settings) -> dict:
    """Return what every result file begins with."""
    return {
        "format": FORMAT,
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "settings": asdict(settings),
        "machine": machine(settings),
        "versions": provenance.versions() | provenance.installed(*TOOLKITS),
        "code": provenance.code(),
    }


def machine(settings: Settings) -> dict:
    """Describe the machine, with its present load."""
    return {
        **provenance.hardware(),
        "architecture": platform.machine(),
        "system": platform.system(),
        "simd": torch.backends.cpu.get_cpu_capability(),
        "cuda": torch.version.cuda if settings.device == "cuda" else None,
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def compare(
    candidates: dict[str, Callable[[], object]], settings: Settings
) -> tuple[dict[str, list[float]], dict[str, dict]]:
    """Time candidates round by round, so that a change in the machine's load affects all.

    Each round begins with another candidate.  Two calls before the first round compile what must
    be compiled, and show how often to repeat a call to fill ``settings.shortest`` seconds.

    Returns:
        the seconds of a call in each round, and for results, compared with ``VANILLA``, its time
        and the ratio's median and spread over the rounds; by candidate.
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
    vanilla_ms = round(1000 * statistics.median(seconds[VANILLA]), 4)
    results = {}
    for name in names:
        rounds = [a / b for a, b in zip(seconds[name], seconds[VANILLA], strict=True)]
        spread = {"median": statistics.median(rounds), "min": min(rounds), "max": max(rounds)}
        ratio = {key: round(value, 4) for key, value in spread.items()}
        results[name] = {"ratio": ratio, "vanilla_ms": vanilla_ms}
    return seconds, results


def _seconds(call: Callable[[], object], repeats: int, settings: Settings) -> float:
    clock = time.process_time if settings.clock == "cpu" else time.perf_counter
    synchronise(settings.device)
    begin = clock()
    for _ in range(repeats):
        call()
    synchronise(settings.device)
    return max(clock() - begin, 1e-9) / repeats


def synchronise(device: str) -> None:
    """Wait until the device has finished."""
    if device == "cuda":
        torch.cuda.synchronize()


@contextmanager
def computed_by(way: str) -> Iterator[None]:
    """Compute every attention in one of ``WAYS``; other candidates choose themselves."""
    if way not in WAYS:
        yield
        return
    with patch.object(PatternedAttention, "compute", staticmethod(WAYS[way])):
        yield
