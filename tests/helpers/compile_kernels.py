"""Compile the fused kernels for an NVIDIA GPU that need not be there, with the Triton at hand.

    python tests/helpers/compile_kernels.py CAPABILITY CASE...

A case is TYPE-BRANCHES-WIDTH-LENGTH with ``-mixed``, ``-dropout`` and ``-padded`` where they apply,
as in ``bf16-4-64-30``.  The kernels are those that the path would launch for the case.  For each,
this prints a line of JSON: how many registers it takes of a thread, the bytes that do not fit into
them, its shared memory, a hash of what was compiled, and the seconds it took.  Triton keeps what it
has compiled in ``TRITON_CACHE_DIR``.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

from fairseq_hybrid_attn.attention.fused_cuda import launch
from fairseq_hybrid_attn.attention.fused_cuda.philox import DropoutDraw
from fairseq_hybrid_attn.attention.problem import AttentionProblem
from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, local

TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
TOOLS = Path(triton.__file__).parent / "backends/nvidia/bin"


class NoGpu:
    """As much of a driver as a compilation needs."""

    def __init__(self, capability: int):
        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self):
        return self.target

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0


def problem(case: str) -> AttentionProblem:
    dtype, branches, width, length, *flags = case.split("-")
    l, n = int(branches), int(length)  # noqa: E741
    q, k, v = (
        torch.zeros(n, 2, 4, int(width), dtype=TYPES[dtype]).permute(1, 2, 0, 3).requires_grad_()
        for _ in range(3)
    )
    return AttentionProblem(
        q=q,
        k=k,
        v=v,
        branches=tuple((x,) for x in (GLOBAL, PAST, FUTURE, local(1), local(2), local(5))[:l]),
        mix=torch.zeros(l, 2, 4, n, 1, dtype=TYPES[dtype]) if "mixed" in flags else None,
        key_padding=torch.zeros(2, n, dtype=torch.bool) if "padded" in flags else None,
        dropout=0.1 if "dropout" in flags else 0.0,
    )


def compile_case(case: str, report) -> None:
    """Run the path, with kernels that are compiled where they would be launched."""

    def compiled(kernel, programs, *given, **sizes):
        start = time.perf_counter()
        done = kernel.warmup(*given, grid=(programs,), **sizes)
        report(case, done, time.perf_counter() - start)

    launch._launch = compiled
    given = problem(case)
    dropout = DropoutDraw.drawn(given.dropout) if given.dropout else None
    outputs = launch.solve(given, dropout)
    torch.autograd.grad(outputs, (given.q, given.k, given.v), torch.zeros_like(outputs))


def usage(kernel) -> dict:
    """What the machine code needs, as NVIDIA's tool reads it."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        told = subprocess.check_output([TOOLS / "cuobjdump", "-res-usage", file.name], text=True)
    numbers = {name: int(number) for name, number in re.findall(r"(REG|STACK|LOCAL):(\d+)", told)}
    return {
        "registers": numbers["REG"],
        "spilled": numbers["STACK"] + numbers["LOCAL"],
        "shared": kernel.metadata.shared,
    }


def main(capability: str, *cases: str) -> None:
    driver.set_active(NoGpu(int(capability)))

    def report(case, kernel, seconds):
        told = {"triton": triton.__version__, "capability": int(capability), "case": case}
        told |= {"kernel": kernel.metadata.name, **usage(kernel), "hash": kernel.hash[:8]}
        told["seconds"] = round(seconds, 2)
        print(json.dumps(told), flush=True)

    for case in cases:
        compile_case(case, report)


if __name__ == "__main__":
    main(*sys.argv[1:])
