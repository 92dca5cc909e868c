"""The fused kernels against the reference in double precision.

With a GPU they run on it; without, in Triton's interpreter, which is chosen by an environment
variable before Triton is loaded, hence in a separate process.
"""

import dataclasses
import os
import subprocess
import sys
from importlib.util import find_spec
from itertools import product

import pytest
import torch
from attention_problems import (
    REFERENCE,
    Thirds,
    Way,
    check,
    check_no_worse_than_reference,
    converted,
    covering,
    error,
    make,
    solve,
    tensors,
)

from fairseq_hybrid_attn.attention.fused_cuda import able
from fairseq_hybrid_attn.attention.fused_cuda import launch as path
from fairseq_hybrid_attn.attention.fused_cuda.bounds import OPEN

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu"
TRITON = find_spec("triton") is not None
FUSED = Way("fused-cuda")
FACTORS = {
    "branches": "global,future,local,hysan,six,decoder,wide,heads,heads and branches,a gap".split(
        ","
    ),
    "lengths": [(1, 1), (16, 16), (70, 70), (3, 90), (40, 99)],
    "padded": ["none", "left", "right", "scattered", "expanded"],
    "numbers": [(True, 1.0), (True, 20.0), (False, 1.0)],
    "layout": ["plain", "of a projection", "odd", "odder"],
    "mix": [None, "bhn1", "b1n1"],
    "batch": [(1, 1), (2, 1)],
    "width": [16, 8, 20, 64],
}
SLOW = pytest.mark.slow
#: In the interpreter a problem takes a second: the first ones cover most pairs of values.
FIRST = slice(0, 10)
HALF = (torch.float16, torch.bfloat16)
FEW = [("hysan", HALF[0], 14.0), ("decoder", HALF[1], 14.0), ("heads", HALF[1], 1.0)]
ALL = list(product(("hysan", "decoder", "heads"), HALF, (1.0, 14.0)))

needs_triton = pytest.mark.skipif(not TRITON, reason="Triton is not installed: pip install triton")


@needs_triton
@pytest.mark.parametrize("which", ["not slow", pytest.param("slow", marks=SLOW)])
def test_in_the_interpreter(which):
    program = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", "-m", which]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    test = f"{__file__}::TestKernels"
    done = subprocess.run([*program, test], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout


class TestKernels:
    __test__ = INTERPRETED or (TRITON and DEVICE == "cuda")

    @pytest.fixture(autouse=True)
    def bfloat16_as_on_a_gpu(self, monkeypatch):
        """Triton's interpreter multiplies the bits of bfloat16 as if they were whole numbers, and
        cuts numbers off where a GPU rounds them to bfloat16."""
        if not INTERPRETED:
            return
        import numpy as np
        from triton.language import bfloat16, float32
        from triton.runtime import interpreter

        dot, plainly = interpreter.InterpreterBuilder.create_dot, interpreter._convert_float

        def single(x):
            if x.dtype.scalar != bfloat16:
                return x
            bits = x.data.astype(np.uint32) << 16
            return interpreter.TensorHandle(bits.view(np.float32), float32)

        def convert(x, from_type, to_type, mode):
            if (from_type, to_type) != (float32, bfloat16):
                return plainly(x, from_type, to_type, mode)
            bits = np.ascontiguousarray(x).view(np.uint32)
            return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)

        monkeypatch.setattr(
            interpreter.InterpreterBuilder,
            "create_dot",
            lambda self, a, b, *rest: dot(self, single(a), single(b), *rest),
        )
        monkeypatch.setattr(interpreter, "_convert_float", convert)

    @pytest.mark.parametrize("which", [FIRST, pytest.param(slice(FIRST.stop, None), marks=SLOW)])
    def test_equals_reference(self, which):
        problems = list(enumerate(covering(FACTORS)))
        for seed, settings in problems[which]:
            problem = make(**settings, seed=seed, device=DEVICE)
            assert path.supports(problem)
            told, rounding = f"problem {seed}: {settings}", not settings["numbers"][0]
            check(problem, ways={"fused": FUSED}, rounding=rounding, told=told)
        assert len(problems) == 56

    def test_a_side_far_above_the_zone(self):
        """Scores from 60 down to -60: e^-120 is nothing in single precision, so that a maximum
        shared with the left would leave nothing of branches that look to the right."""
        problem = make("hysan", 80, batch=(1, 1), device=DEVICE)
        with torch.no_grad():
            problem.q[..., 0] = 1
            problem.k[..., 0] = 60 - 1.5 * torch.arange(80, device=DEVICE)
        check(problem, ways={"fused": FUSED})

    @pytest.mark.parametrize("cases", [FEW, pytest.param(ALL, marks=SLOW)], ids=["few", "all"])
    def test_half_precision_is_no_worse_than_the_reference(self, cases):
        for name, dtype, scale in cases:
            settings = {"numbers": (False, scale), "padded": "left", "dtype": dtype}
            problem = make(name, 70, batch=(1, 1), width=16, device=DEVICE, **settings)
            told = f"{name} {settings}"
            check_no_worse_than_reference(FUSED, problem, told, margins=(1.2, torch.inf))
        beyond = make("hysan", 20, numbers=(False, 1e5), dtype=torch.float16, device=DEVICE)
        assert solve(FUSED, beyond)[0][0].isfinite().all()

    def test_the_gradient_of_a_sum_and_twice_the_same_to_the_bit(self):
        problem = make(
            "hysan", 37, batch=(2, 1), padded="left", layout="of a projection", device=DEVICE
        )
        results = []
        for way, dtype in ((FUSED, None), (FUSED, None), (REFERENCE, torch.float64)):
            given = converted(problem, dtype or torch.float32)
            with way.taken() as compute:
                outputs = compute(given).outputs
            gradients = torch.autograd.grad(outputs.sum(), list(tensors(given).values()))
            results.append([outputs, *gradients])
        for first, second, want in zip(*results, strict=True):
            assert first.equal(second)
            assert error(first, want) <= 2e-5

    def test_the_self_test_passes_and_notices(self, monkeypatch):
        shapes = [(4, 32, 35, 35, True), (2, 20, 13, 29, False), (1, 64, 13, 13, True)]
        apply = path._Fused.apply

        def without_padding(q, k, v, padding, bounds):
            return apply(q, k, v, torch.zeros_like(padding), bounds)

        for dtype, shape in zip(path.DTYPES, shapes, strict=True):
            given = (torch.device(DEVICE), dtype, path._Shape(*shape))
            assert path._self_test(*given) is None
            faults = [lambda q, *rest: apply(q * 1.05, *rest)]
            for fault in [*faults, without_padding] if shape[-1] else faults:
                with monkeypatch.context() as patched:
                    patched.setattr(path._Fused, "apply", fault)
                    assert "of the self-test is off" in path._self_test(*given)


def test_the_self_test_is_of_the_kernels_at_hand():
    """For any lengths: what is compiled for them is compiled for the self-test."""
    lengths = [(1, 1), (2, 16), (16, 33), (17, 17), (32, 40), (33, 64), (64, 65), (5, 900)]
    for settings in product(path.DTYPES, lengths, (20, 64, 128), ("none", "left")):
        dtype, length, width, padded = settings
        common = {"batch": (1, 1), "padded": padded, "dtype": dtype}
        given = make("six", length, width=width, **common)
        shape = path._shape(given)
        tested = make("six", (shape.n, shape.m), width=shape.d_k, **common)
        sizes = path._sizes(given.q, given.k, 6, given.key_padding)
        others = path._sizes(tested.q, tested.k, shape.branches, given.key_padding)
        assert sizes == others, settings
        assert shape.padded == (padded == "left") and shape.m <= 134, settings
        # What a thread of a block multiplies fits into registers.
        products = sizes["BLOCK_Q"] * sizes["BLOCK_K"] * sizes["D"]
        assert products <= 1024 * 32 * sizes["num_warps"], settings


OTHERS = [x for x in product(("fp16", "bf16", "fp32"), (32, 64, 128)) if x != ("bf16", 64)]


@needs_triton
@pytest.mark.parametrize(
    "kinds", [[("bf16", 64)], pytest.param(OTHERS, marks=SLOW)], ids=["one", "others"]
)
def test_compiles_without_a_gpu(kinds):
    """For compute capability 9.0, down to machine code."""
    from compile_kernels import compile_all

    for dtype, d_k in kinds:
        for kernel, compiled in compile_all(4, d_k, dtype, capability=90).items():
            assert compiled.asm["cubin"], (kernel, dtype, d_k)


def test_what_is_refused():
    given = make("hysan", 5, width=16, device=DEVICE)
    assert path.supports(given)
    assert DEVICE == "cuda" or not able(given)
    for change in (
        {"dropout": 0.1},
        {"need_weights": True},
        {"bias": torch.zeros(1, device=DEVICE)},
        {"branches": ((Thirds(),),)},
        {"v": given.v.double()},
        {name: getattr(given, name).double() for name in ("q", "k", "v")},
        {name: torch.zeros(2, 2, 5, 129, device=DEVICE) for name in ("q", "k", "v")},
        {name: torch.zeros(0, 2, 5, 16, device=DEVICE) for name in ("q", "k", "v")},
        {name: torch.zeros(1, device=DEVICE).expand(2, 2, OPEN, 16) for name in ("k", "v")},
    ):
        assert not path.supports(dataclasses.replace(given, **change)), change
    for name in ("q", "k", "v"):
        given = dataclasses.replace(given, **{name: torch.zeros(2, 2, 5, 128, device=DEVICE)})
    assert path.supports(given)


def test_a_failed_self_test_is_logged_once_and_remembered(monkeypatch, caplog):
    device, shape = torch.device("cuda", 7), path._Shape(4, 32, 70, 70, True)
    for returned, raised in (("dq of the self-test is off by 1", None), (None, "no room")):

        def fail(device, dtype, shape, returned=returned, raised=raised):
            if raised:
                raise RuntimeError(raised)
            return returned

        monkeypatch.setattr(path, "_self_test", fail)
        path._works.cache_clear()
        caplog.clear()
        assert not any(path._works(device, torch.float32, shape) for _ in range(2))
        (said,) = caplog.messages
        assert "is not used on cuda:7 for torch.float32, _Shape(branches=4, d_k=32" in said
        assert (returned or raised) in said
    path._works.cache_clear()
