"""The fused kernels are compiled for NVIDIA GPUs, down to machine code, without having one.

With the Triton at hand; with ``scripts/test.sh --all`` also with those that PyTorch's builds for
CUDA bring, which it puts into ``build/triton``.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from itertools import cycle, product
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "tests/helpers/compile_kernels.py"
#: Of PyTorch 2.11 and 2.13.
RELEASES = ("3.6.0", "3.7.1")
#: Branches, width of a head, and the flags of the cases, as the papers' settings have them: HySAN's
#: encoder and decoder, gated and summed, MMA at both sizes, the hybrid gate and its plain layers.
SHAPES = ("4-64", "2-64", "4-64-mixed", "1-128", "1-64", "2-64-mixed-dropout", "1-64-dropout")
#: What half and single precision may leave to memory, in bytes a thread.
MOST_SPILLED = {"fp16": 512, "bf16": 256, "fp32": 256}
#: The shared memory of a program, in bytes; GPUs of capability 8.6 and 8.9 have no more.
MOST_SHARED = 99 * 1024


def cases(release, capability):
    """Every shape in every type at every length, once: by each Triton and GPU in turn."""
    places = cycle(product(RELEASES, (80, 90)))
    for shape, dtype, length in product(SHAPES, ("fp16", "bf16", "fp32"), (30, 50, 1030)):
        if next(places) == (release, capability):
            branches, width, *flags = shape.split("-")
            yield "-".join([dtype, branches, width, str(length), *flags])


def check(capability, some, triton=None):
    environment = os.environ | {"TRITON_CACHE_DIR": str(ROOT / "build/triton/cache")}
    environment["PYTHONPATH"] = os.pathsep.join([*([str(triton)] if triton else []), str(ROOT)])
    environment.pop("TRITON_INTERPRET", None)
    program = [sys.executable, "-W", "ignore", str(PROGRAM), str(capability), *some]
    done = subprocess.run(program, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert {kernel["case"] for kernel in told} == set(some)
    for kernel in told:
        assert kernel["spilled"] <= MOST_SPILLED[kernel["case"][:4]], kernel
        assert kernel["shared"] <= MOST_SHARED, kernel
    return told


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is missing: pip install triton")
def test_with_the_triton_at_hand():
    """And the same kernels serve all lengths of their size, with padding and without."""
    some = ["bf16-2-64-50-mixed-dropout", "bf16-2-64-64-mixed-dropout-padded"]
    told = check(90, [*some, "bf16-1-64-70", "bf16-1-64-160-padded"])
    names = "forward rows query_gradient key_gradient whole_forward whole_backward"
    assert {kernel["kernel"] for kernel in told} == {f"{name}_kernel" for name in names.split()}
    assert len(told) == 12 and len({kernel["hash"] for kernel in told}) == 6


@pytest.mark.slow
@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("release", RELEASES)
def test_with_the_tritons_of_pytorch(release, capability):
    folder = ROOT / "build/triton" / release
    if not folder.exists():
        pytest.skip(f"Triton {release} is missing: scripts/test.sh --all gets it")
    told = check(capability, list(cases(release, capability)), folder)
    assert {kernel["triton"] for kernel in told} == {release}
