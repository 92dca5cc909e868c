"""What a run computes on, and how a batch is shared out over it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ...errors import UserError
from ..configuration.settings import Batch
from ..engine.processes import default_workers

#: Memory that stays with a CPU process between updates; handing it back to the system costs
#: up to a third of the time.  Threads that wait sleep soon, as others want the cores as well.
#: (GNU's C library and OpenMP read these; others ignore them.)
CPU_TUNING = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "4000000000",
    "MALLOC_TOP_PAD_": "100000000",
    "GOMP_SPINCOUNT": "1000",
}

#: Tokens that a device must take at once, or a long sentence could stop the training.
SMALLEST_SHARE = 512


@dataclass(frozen=True)
class Devices:
    """The devices of one run."""

    kind: str  # cpu or cuda
    world: int = 1  # processes that train together, on all nodes; a GPU each
    visible: tuple[int, ...] = ()  # the GPUs of this node that the run uses; empty: all of them
    threads: int = 1  # of a process on CPU
    precision: str = "fp32"  # or fp16, bf16

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        environment = dict(base)
        if self.kind == "cpu":
            environment |= {"OMP_NUM_THREADS": str(self.threads), **CPU_TUNING}
        elif self.visible:
            # Of those that the user, or a cluster, has let us have.
            given = base.get("CUDA_VISIBLE_DEVICES")
            names = given.split(",") if given else None
            ids = [names[i].strip() if names else str(i) for i in self.visible]
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(ids)
        return environment

    def __str__(self) -> str:
        if self.kind == "cpu":
            return f"CPU, {self.threads} thread{'s' * (self.threads > 1)}"
        return f"{self.world} GPU{'s' * (self.world > 1)}, {self.precision}"


def share_out(batch: Batch, world: int) -> tuple[int, int]:
    """Tokens of a device at once (``--max-tokens``), and how many such batches make an update.

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


def slots(
    kind: str, per_run: int, jobs: int | None, threads: int, precision: str, pretend: bool = False
) -> list[Devices]:
    """Places where runs can be at work side by side, at most ``jobs`` of them.

    ``threads`` are those of a run on CPU.  Kind ``auto`` takes GPUs if there are any; precision
    ``auto`` is fp32 on CPU and half on GPUs, bf16 where they have it.  To ``pretend`` is to assume
    that the GPUs are there, for a plan made elsewhere.
    """
    count = cuda_count() if kind != "cpu" else 0
    if kind == "cpu" or (kind == "auto" and count == 0):
        if precision not in ("auto", "fp32"):
            raise UserError(f"--precision {precision}: fairseq trains on CPU in fp32 only")
        room = max(1, default_workers() // threads)
        return [Devices("cpu", threads=threads)] * min(jobs or room, room)
    if count < per_run and pretend:
        return [Devices("cuda", per_run, precision="bf16" if precision == "auto" else precision)]
    if count < per_run:
        raise UserError(f"{per_run} GPUs for each run are asked for, and {count} are there")
    precision = gpu_precision() if precision == "auto" else precision
    groups = [range(i, i + per_run) for i in range(0, count - per_run + 1, per_run)]
    return [Devices("cuda", per_run, tuple(group), precision=precision) for group in groups][:jobs]


def without_launcher(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without what torchrun or SLURM tell their processes.

    fairseq would take a run of ours for one of theirs, and wait for others.
    """
    theirs = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return {
        name: value
        for name, value in environment.items()
        if name not in theirs and not name.startswith("SLURM_")
    }


def of_environment(environment: Mapping[str, str], kind: str, precision: str) -> Devices | None:
    """The devices of a process that torchrun or SLURM has started, one a device, if one has."""
    for variable, rank in (("WORLD_SIZE", "RANK"), ("SLURM_NTASKS", "SLURM_PROCID")):
        world = environment.get(variable) or "1"
        if not world.isdecimal():
            raise UserError(f"{variable}={world} is not a number of processes; unset it")
        if int(world) > 1:
            if rank not in environment:
                raise UserError(
                    f"{variable}={world} but no {rank}: use torchrun or srun, or unset it"
                )
            on_gpu = kind == "cuda" or (kind == "auto" and cuda_count() > 0)
            if not on_gpu:
                threads = int(environment.get("OMP_NUM_THREADS") or 1)
                return Devices("cpu", int(environment[variable]), threads=threads)
            precision = gpu_precision() if precision == "auto" else precision
            return Devices("cuda", int(environment[variable]), precision=precision)
    return None


def cuda_count() -> int:
    import torch  # here, since it takes seconds and a plan for CPU can do without

    return torch.cuda.device_count()


def gpu_precision() -> str:
    """The half precision that the GPU is best at."""
    import torch

    return "bf16" if torch.cuda.is_bf16_supported() else "fp16"
