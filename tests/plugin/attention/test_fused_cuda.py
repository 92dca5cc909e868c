"""The fused kernels against the reference in double precision.

With a GPU they run on it; without, in Triton's interpreter, which is chosen by an environment
variable before Triton is loaded, hence in a separate process.
"""

import dataclasses
import os
import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from itertools import combinations, product
from unittest.mock import Mock

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
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.checkpoint import checkpoint

from fairseq_hybrid_attn.attention.fused_cuda import able, self_test
from fairseq_hybrid_attn.attention.fused_cuda import launch as path
from fairseq_hybrid_attn.attention.fused_cuda.bounds import OPEN
from fairseq_hybrid_attn.attention.fused_cuda.philox import DropoutDraw, philox
from fairseq_hybrid_attn.attention.problem import AttentionProblem
from fairseq_hybrid_attn.attention.reference import allowed_keys, masked_softmax
from fairseq_hybrid_attn.patterns import GLOBAL

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu"
TRITON = find_spec("triton") is not None
FUSED = Way("fused-cuda")
FACTORS = {
    "branches": "global,future,local,hysan,six,decoder,wide,heads,heads and branches,a gap".split(
        ","
    ),
    "lengths": [(1, 1), (16, 16), (9, 32), (70, 70), (3, 90), (40, 99)],
    "padded": ["none", "left", "right", "scattered", "expanded"],
    "numbers": [(True, 1.0), (True, 20.0), (False, 1.0)],
    "layout": ["plain", "of a projection", "odd", "odder"],
    "mix": [None, "bhn1", "b1n1"],
    "batch": [(1, 1), (2, 1)],
    "width": [16, 8, 20, 64],
}
HALF = (torch.float16, torch.bfloat16)

needs_triton = pytest.mark.skipif(not TRITON, reason="Triton is not installed: pip install triton")


@needs_triton
@pytest.mark.slow  # a problem takes a second
def test_in_the_interpreter():
    program = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider"]
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

    def test_equals_reference(self):
        problems = list(covering(FACTORS))
        for seed, settings in enumerate(problems):
            problem = make(**settings, seed=seed, device=DEVICE)
            assert path.supports(problem)
            told, rounding = f"problem {seed}: {settings}", not settings["numbers"][0]
            check(problem, ways={"fused": FUSED}, rounding=rounding, told=told)
        assert len(problems) == 62

    def test_a_side_far_above_the_zone(self):
        """Scores from 60 down to -60: e^-120 is nothing in single precision, so that a maximum
        shared with the left would leave nothing of branches that look to the right."""
        problem = make("hysan", 80, batch=(1, 1), device=DEVICE)
        with torch.no_grad():
            problem.q[..., 0] = 1
            problem.k[..., 0] = 60 - 1.5 * torch.arange(80, device=DEVICE)
        check(problem, ways={"fused": FUSED})

    def test_half_precision_is_no_worse_than_the_reference(self):
        for name, dtype, scale in product(("hysan", "decoder", "heads"), HALF, (1.0, 14.0)):
            settings = {"numbers": (False, scale), "padded": "left", "dtype": dtype}
            for length, mix in ((70, None), (50, "bhn1" if name == "decoder" else None)):
                sizes = {"batch": (1, 1), "width": 16, "mix": mix}
                problem = make(name, length, device=DEVICE, **sizes, **settings)
                told = f"{name} {length} {settings}"
                check_no_worse_than_reference(FUSED, problem, told, margins=(1.2, torch.inf))
        beyond = make("hysan", 20, numbers=(False, 3e4), dtype=torch.float16, device=DEVICE)
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

    @pytest.mark.parametrize("length", [20, 40])
    def test_gradients_under_dropout_are_those_of_the_mask_of_the_outputs(self, length):
        """Values like unit vectors show which weights were kept; autograd does the rest."""
        problem = make("six", length, batch=(2, 1), width=length, padded="left", device=DEVICE)
        share, draw = 0.3, DropoutDraw.drawn(0.3)
        units = torch.eye(length, device=DEVICE).expand_as(problem.v)
        with torch.no_grad():
            kept = path.solve(dataclasses.replace(problem, v=units), draw) != 0
        exact = converted(problem, torch.float64)
        allowed = torch.stack([allowed_keys(branch, exact) for branch in exact.branches])
        weights = masked_softmax(exact.q @ exact.k.mT, allowed)
        assert (weights[kept] > 0).all() and not kept.all()
        want = (weights * kept / (1 - share)) @ exact.v
        got = path.solve(problem, draw)
        upstream = torch.randn_like(got)
        assert error(got, want) <= 5e-6
        for x, its in zip(
            torch.autograd.grad(got, [problem.q, problem.k, problem.v], upstream),
            torch.autograd.grad(want, [exact.q, exact.k, exact.v], upstream.double()),
            strict=True,
        ):
            assert error(x, its) <= 2e-5 * max(1, its.abs().max())

    def test_what_is_dropped(self):
        """A tenth; independently in each branch, head, sentence and row, and in each call."""
        n, share = 32, 0.1
        q = torch.zeros(4, 2, n, n, device=DEVICE)
        units = torch.eye(n, device=DEVICE).expand_as(q)
        problem = AttentionProblem(q=q, k=q, v=units, branches=((GLOBAL,),) * 6, dropout=share)

        def drops():
            return path.fused_cuda(problem).outputs == 0

        torch.manual_seed(1)
        first, second = drops(), drops()
        torch.manual_seed(1)
        assert first.equal(drops())
        total = torch.stack([first, second]).double()  # [calls, l, b, h, n, m]
        assert abs(total.mean() - share) < 4 * (share * (1 - share) / total.numel()) ** 0.5
        kept = path.fused_cuda(problem).outputs.max()
        assert abs(kept - 1 / n / (1 - share)) < 1e-7
        for dim in range(total.dim()):
            for one, other in list(combinations(total.unbind(dim), 2))[:40]:
                related = torch.corrcoef(torch.stack([one.flatten(), other.flatten()]))[0, 1]
                assert abs(related) < 5 / one.numel() ** 0.5, dim

    def test_the_mean_over_masks_is_the_output_without_dropout(self):
        problem = make("hybrid", 12, batch=(1, 1), width=16, device=DEVICE)
        many = {name: x.detach().expand(100, 1, -1, -1) for name, x in tensors(problem).items()}
        want = path.fused_cuda(problem).outputs
        got = path.fused_cuda(dataclasses.replace(problem, **many, dropout=0.2)).outputs
        off = (got.mean(1) - want[:, 0]).abs() / (got.std(1) / 100**0.5 + 1e-6)
        assert off.max() < 5 and off.mean() < 1

    @pytest.mark.parametrize("length", [20, 40])
    def test_a_recomputed_layer_drops_the_same(self, length):
        problem = make("decoder", length, batch=(1, 2), dropout=0.4, device=DEVICE)

        def outputs(q):
            return path.fused_cuda(dataclasses.replace(problem, q=q)).outputs

        results = []
        for compute in (outputs, partial(checkpoint, outputs, use_reentrant=False)):
            torch.manual_seed(3)
            got = compute(problem.q)
            results.append([got, *torch.autograd.grad(got.square().sum(), problem.q)])
        for plain, recomputed in zip(*results, strict=True):
            assert plain.equal(recomputed)

    def test_the_self_test_runs_the_kernels_of_training_and_of_inference(self, monkeypatch):
        launch, seen = path._launch, []

        def seeing(kernel, programs, *given, **sizes):
            seen.append((kernel.__name__, sizes.get("ROUNDED")))
            launch(kernel, programs, *given, **sizes)

        monkeypatch.setattr(path, "_launch", seeing)
        variant = path.Variant(torch.float16, 1, 16, 66, 66, False, False)
        assert self_test.find_fault(torch.device(DEVICE), variant) is None
        assert {("forward_kernel", True), ("forward_kernel", False)} <= set(seen)

    def test_the_self_test_passes_and_notices(self, monkeypatch):
        variants = [(4, 16, 35, 35, False, False), (2, 20, 13, 29, True, True)]
        variants.append((1, 16, 33, 33, True, False))
        solve = path.solve
        faults = [
            lambda problem, draw: solve(problem, draw) * 1.05,
            lambda problem, draw: solve(dataclasses.replace(problem, key_padding=None), draw),
            lambda problem, draw: solve(problem, draw._replace(seed=2**40)),
        ]
        device, whole = torch.device(DEVICE), path.Variant(path.DTYPES[1], *variants[1])
        for dtype, of in zip(path.DTYPES, variants, strict=True):
            assert self_test.find_fault(device, path.Variant(dtype, *of)) is None
        for fault in faults:
            monkeypatch.setattr(self_test, "solve", fault)
            assert "of the self-test is off" in self_test.find_fault(device, whole)


def test_processes_with_the_same_seed_drop_other_weights():
    seeds = set()
    for rank in range(3):
        store = FakeStore()
        torch.distributed.init_process_group("fake", rank=rank, world_size=3, store=store)
        torch.manual_seed(1)
        seeds.add(DropoutDraw.drawn(0.1).seed)
        torch.distributed.destroy_process_group()
    assert len(seeds) == 3


def test_the_self_test_is_of_the_kernels_at_hand():
    """For any lengths: what is compiled for them is compiled for the self-test."""
    lengths = [(1, 1), (2, 16), (16, 33), (17, 17), (32, 40), (33, 64), (64, 65), (5, 900)]
    for dtype, length, width, mix in product(path.DTYPES, lengths, (20, 64, 128), (None, "b1n1")):
        common = {"batch": (1, 1), "dtype": dtype, "mix": mix, "dropout": 0.1}
        given = make("six", length, width=width, **common)
        variant = path.Variant.of(given)
        tested = make("six", (variant.n, variant.m), width=variant.d_k, **common)
        told = (dtype, length, width)
        assert path.Variant.of(tested) == variant and variant.dropout, told
        assert path._sizes(given.q, given.k) == path._sizes(tested.q, tested.k), told
        assert path._is_whole(given.q, given.k) == path._is_whole(tested.q, tested.k), told
        assert variant.m <= 70, told


def test_philox_is_that_of_its_authors():
    """Known answers that come with Random123."""
    for counter, key, answer in (
        ("00000000 " * 4, "00000000" * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff " * 4, "ffffffff" * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            "243f6a88 85a308d3 13198a2e 03707344",
            "299f31d0a4093822",  # its second word comes first
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ):
        numbers = [torch.tensor(int(x, 16)) for x in counter.split()]
        assert [f"{x:08x}" for x in philox(numbers, int(key, 16))] == answer.split()


def test_what_is_refused():
    given = make("hysan", 5, width=16, device=DEVICE)
    assert path.supports(given)
    assert DEVICE == "cuda" or not able(given)
    for change in (
        {"dropout": 1.0},
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
    device = torch.device("cuda", 7)
    variant = path.Variant(torch.float32, 4, 32, 70, 70, False, False)
    faults = {
        "dq of the self-test is off by 1": (
            (9, 0),
            lambda *given: "dq of the self-test is off by 1",
        ),
        "no room": ((8, 0), Mock(side_effect=RuntimeError("no room"))),
        "it needs compute capability 8.0": ((7, 5), lambda *given: None),
    }
    for reason, (capability, find) in faults.items():
        monkeypatch.setattr(self_test, "find_fault", find)
        monkeypatch.setattr(self_test, "find_spec", lambda name: True)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, c=capability: c)
        self_test.works.cache_clear()
        caplog.clear()
        assert not any(self_test.works(device, variant) for _ in range(2))
        (said,) = caplog.messages
        assert "is not used on cuda:7 for Variant(dtype=torch.float32, branches=4, d_k=32" in said
        assert reason in said
    self_test.works.cache_clear()
