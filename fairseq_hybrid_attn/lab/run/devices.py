"""The devices of a run, their precision and compiling, and how a batch is divided among them."""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import TYPE_CHECKING

from ...errors import UserError
from ..config.settings import Batch
from ..files.processes import default_workers
from .results import read_begun

if TYPE_CHECKING:
    from .workspace import Run

#: Keep memory in a CPU process between updates: returning it to the system costs up to a third
#: of the time.  Let waiting threads sleep soon, since other processes need the cores.
#: (GNU's C library and OpenMP read these; others ignore them.)
CPU_TUNING = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "4000000000",
    "MALLOC_TOP_PAD_": "100000000",
    "GOMP_SPINCOUNT": "1000",
}

#: The criteria that take --autocast-bf16.
BF16_CRITERIA = (
    "fused_label_smoothed_cross_entropy",
    "label_smoothed_cross_entropy_with_supervised_attention",
)
#: The precisions of training on a GPU, the default first.
GPU_PRECISIONS = ("fp16", "bf16", "fp32")

#: The fewest tokens that a device takes at once; with fewer, a long sentence could stop training.
SMALLEST_SHARE = 512
#: With fewer at once, most of a GPU is idle.
LEAST_OF_GPU = 2048


@dataclass(frozen=True)
class Devices:
    kind: str  # cpu or cuda; auto until it is decided
    world: int = 1  # processes that train together, on all nodes; a GPU each
    visible: tuple[int, ...] = ()  # the GPUs of this node that the run uses; empty: all of them
    threads: int = 1  # of a process on CPU
    precision: str = "fp32"  # or bf16, on a GPU fp16; auto is left to the run
    compile: bool = False  # the layers of our models

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        environment = dict(base)
        if self.kind == "cpu":
            environment |= {"OMP_NUM_THREADS": str(self.threads), **CPU_TUNING}
        elif self.visible:
            # Of those that the user or the cluster allows.
            given = base.get("CUDA_VISIBLE_DEVICES")
            names = given.split(",") if given else None
            ids = [names[i].strip() if names else str(i) for i in self.visible]
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(ids)
        return environment

    def __str__(self) -> str:
        compiled = ", compiled" * self.compile
        if self.kind == "cpu":
            bfloat16 = ", bf16" * (self.precision == "bf16")
            return f"CPU, {self.threads} thread{'s' * (self.threads > 1)}{bfloat16}{compiled}"
        return f"{self.world} GPU{'s' * (self.world > 1)}, {self.precision}{compiled}"


def share_out(batch: Batch, world: int) -> tuple[int, int]:
    """Tokens per device at once (``--max-tokens``), and how many such batches make an update.

    The product of both with ``world`` is the update's size, rounded down to whole tokens.
    """
    update_freq = math.ceil(batch.tokens / (world * batch.per_device))
    share = batch.tokens // (world * update_freq)
    if world > 1 and update_freq == 1 and share < SMALLEST_SHARE <= batch.tokens:
        raise UserError(
            f"a batch of {batch.tokens} tokens leaves {share} for each of {world} devices, less "
            f"than a long sentence; use {batch.tokens // SMALLEST_SHARE} devices at most"
        )
    return share, update_freq


def slots(wanted: Devices, *, jobs: int | None = None, pretend: bool = False) -> list[Devices]:
    """The slots in which runs can work side by side: ``jobs``, by default as many as fit.

    On the CPU, there are no more than fit; on GPUs, more share them.  Kind ``auto`` uses GPUs if
    there are any.  ``pretend`` assumes that the GPUs exist, for a plan made on another machine.
    """
    kind, per_run = wanted.kind, wanted.world
    count = cuda_count() if kind != "cpu" else 0
    if kind == "cpu" and per_run > 1:
        raise UserError(f"{per_run} GPUs for each run are requested, on the CPU")
    if kind == "cpu" or (kind == "auto" and count == 0 and per_run == 1):
        check_cpu_precision(wanted.precision)
        room = max(1, default_workers() // wanted.threads)
        return [replace(wanted, kind="cpu")] * min(jobs or room, room)
    gpus = replace(wanted, kind="cuda")
    if count < per_run and pretend:
        return [gpus] * (jobs or 1)
    if count < per_run:
        raise UserError(f"{per_run} GPUs for each run are requested, but only {count} found")
    groups = [range(i, i + per_run) for i in range(0, count - per_run + 1, per_run)]
    every = [replace(gpus, visible=tuple(group)) for group in groups]
    return list(islice(cycle(every), jobs or len(every)))


def devices_of(run: Run, devices: Devices) -> Devices:
    """Return devices in the run's precision; ``auto``: what it was begun with, if it was.

    Whether they compile its layers is decided with each attempt anew: it may resume either way.

    On a CPU, its instructions alone decide, so that a command gives the same numbers each time.
    """
    from ...devices import bfloat16_pays, has_bfloat16

    precision, begun = devices.precision, read_begun(run.folder.begun)
    train, on_cpu = run.settings.train, devices.kind == "cpu"
    if not on_cpu and precision == "auto":
        known = (begun or {}).get("precision")
        precision = known if known in GPU_PRECISIONS else GPU_PRECISIONS[0]
    without = train.get("criterion") not in BF16_CRITERIA or train.get("checkpoint-activations")
    if without and (on_cpu or precision == "bf16"):
        precision = "fp32"  # the others know nothing else
    elif on_cpu and precision == "auto":
        if begun:
            wanted = begun.get("precision") == "bf16" and has_bfloat16()
        else:  # several processes, perhaps on unlike machines, must agree
            wanted = devices.world == 1 and bfloat16_pays()
        precision = "bf16" if wanted else "fp32"
    return replace(devices, precision=precision, compile=_is_compiled(run, devices))


def _is_compiled(run: Run, devices: Devices) -> bool:
    """Whether the layers are compiled: if that is asked for, and they can be."""
    settings = run.settings
    trains = settings.aligner is None and settings.updates != 0
    if not (devices.compile and trains) or settings.train.get("checkpoint-activations"):
        return False
    from fairseq.models import ARCH_MODEL_REGISTRY

    from ...models.transformer import PlannedModel

    kind = ARCH_MODEL_REGISTRY.get(settings.train.get("arch"), object)
    return issubclass(kind, PlannedModel)


def without_launcher(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without the variables of torchrun and SLURM.

    With them, fairseq would take our run for one of their processes, and wait for the others.
    """
    theirs = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return {
        name: value
        for name, value in environment.items()
        if name not in theirs and not name.startswith("SLURM_")
    }


def launcher(environment: Mapping[str, str]) -> dict[str, str]:
    """torchrun's variables of a process, made of SLURM's if srun started it; none if neither did.

    By these, the processes of a training find each other.
    """
    world = environment.get("WORLD_SIZE") or environment.get("SLURM_NTASKS") or "1"
    if not world.isdecimal():
        raise UserError(f"WORLD_SIZE={world} is not a number of processes; unset it")
    if int(world) == 1:
        return {}
    if "WORLD_SIZE" in environment and "RANK" in environment:
        names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
        return {name: environment[name] for name in names if name in environment}
    if "WORLD_SIZE" in environment or "SLURM_STEP_ID" not in environment:  # which srun sets
        raise UserError(
            f"{world} processes (WORLD_SIZE or SLURM_NTASKS), but no RANK: use torchrun or srun"
        )
    nodes = environment.get("SLURM_STEP_NODELIST") or environment["SLURM_JOB_NODELIST"]
    asked = ["scontrol", "show", "hostnames", nodes]
    hosts = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
    port = 20_000 + int(environment["SLURM_JOB_ID"]) % 10_000  # another for each job of a node
    return {
        "RANK": environment["SLURM_PROCID"],
        "WORLD_SIZE": world,
        "MASTER_ADDR": hosts[0],
        "MASTER_PORT": environment.get("MASTER_PORT") or str(port),
    }


def of_processes(wanted: Devices, world: int) -> Devices:
    """The devices of so many processes, one for each, on all nodes."""
    if wanted.kind == "cpu" or (wanted.kind == "auto" and cuda_count() == 0):
        check_cpu_precision(wanted.precision)
        threads = int(os.environ.get("OMP_NUM_THREADS") or 1)
        return replace(wanted, kind="cpu", world=world, threads=threads)
    return replace(wanted, kind="cuda", world=world)


def meeting_flags(devices: Devices, launched: Mapping[str, str]) -> list[str]:
    """How processes on CPUs find each other, of which fairseq cannot tell by itself."""
    if devices.kind == "cuda":
        return []
    return [
        *("--distributed-init-method", "env://"),
        *("--distributed-rank", launched["RANK"]),
        "--distributed-no-spawn",
    ]


def check_cpu_precision(precision: str) -> None:
    from ...devices import has_bfloat16  # here: it imports torch, which takes seconds

    if precision == "fp16" or (precision == "bf16" and not has_bfloat16()):
        can = "fp32 or bf16" if precision == "fp16" else "fp32"
        raise UserError(f"--precision {precision}: this CPU trains in {can} only")


def cuda_count() -> int:
    import torch  # here, since it takes seconds and a plan for CPU does not need it

    return torch.cuda.device_count()
