"""The fused kernels against the reference in double precision.

With a GPU they run on it; without, in Triton's interpreter, which is chosen by an environment
variable before Triton is loaded, hence in a process of its own: ``test_in_the_interpreter`` runs
all the others of this file there.
"""

import dataclasses
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch

from fairseq_hybrid_attn.attention.fused_cuda import able, fused_cuda, path
from fairseq_hybrid_attn.attention.problem import AttentionProblem
from fairseq_hybrid_attn.attention.reference import allowed_keys, reference
from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, Band, Pattern, local, local_past

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu"
TRITON = find_spec("triton") is not None

needs_kernels = pytest.mark.skipif(
    not TRITON or (DEVICE == "cpu" and not INTERPRETED),
    reason="Triton is not installed" if not TRITON else "run by test_in_the_interpreter",
)

BRANCHES = {
    "global": ((GLOBAL,),),
    "future": ((FUTURE,),),
    "local": ((local(2),),),
    "hysan": ((GLOBAL,), (PAST,), (FUTURE,), (local(1),)),
    "e2": ((GLOBAL,), (PAST,), (FUTURE,), (local(1),), (local(2),), (local(5),)),
    "decoder": ((PAST,), (local_past(5),)),
    "wide": ((GLOBAL,), (local(30),)),
    "heads": ((GLOBAL, local(1), FUTURE, PAST),),
    "heads and branches": ((local(3), PAST, PAST, GLOBAL), (GLOBAL,), (FUTURE, local(40)) * 2),
    # No paper has these: beside the diagonal, and none at all.
    "bands": ((Band(behind=-1, ahead=3),), (Band(behind=9, ahead=-4),), (Band(-3, 2),)),
}


@pytest.mark.skipif(not TRITON, reason="Triton is not installed: pip install triton")
@pytest.mark.skipif(INTERPRETED or DEVICE == "cuda", reason="the others of this file run here")
def test_in_the_interpreter():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:]


def problem(branches, *, n, m, d_k=16, b=1, h=1, padded="none", scale=0.35, dtype=torch.float32):
    torch.manual_seed(n + m)
    q = torch.randn(b, h, n, d_k, device=DEVICE) * scale
    k, v = (torch.randn(b, h, m, d_k, device=DEVICE) for _ in range(2))
    padding = None
    if padded != "none":
        padding = torch.zeros(b, m, dtype=torch.bool, device=DEVICE)
        padding[0, slice(m // 3 + 1, m) if padded == "right" else slice(0, m // 2)] = True
        if padded == "all":
            padding[-1] = True
    q, k, v = (x.to(dtype).requires_grad_() for x in (q, k, v))
    return AttentionProblem(q=q, k=k, v=v, branches=branches, key_padding=padding)


def in_double(given):
    """The same numbers: what a smaller type cannot hold is no fault of a kernel."""
    leaves = {x: getattr(given, x).detach().double().requires_grad_() for x in ("q", "k", "v")}
    return dataclasses.replace(given, **leaves)


def solve(compute, given):
    outputs = compute(given).outputs
    upstream = torch.cos(torch.arange(outputs.numel(), device=DEVICE)).view(outputs.shape)
    upstream = upstream.bfloat16().half()  # the same number in every type
    leaves = (given.q, given.k, given.v)
    gradients = torch.autograd.grad(outputs, leaves, upstream.to(outputs.dtype))
    return outputs.detach(), gradients


def check(given, times=1):
    assert path.supports(given)
    outputs, gradients = solve(fused_cuda, given)
    expected, expected_gradients = solve(reference, in_double(given))
    assert outputs.shape == expected.shape and outputs.dtype == given.q.dtype
    assert (outputs.double() - expected).abs().max() <= times * 5e-6
    for got, want in zip(gradients, expected_gradients, strict=True):
        assert (got.double() - want).abs().max() <= times * 2e-5 * max(1.0, want.abs().max())
    sees = torch.stack(
        [
            allowed_keys(branch, given).expand(*outputs.shape[1:4], given.k.size(2))
            for branch in given.branches
        ]
    )
    assert (outputs[~sees.any(-1)] == 0).all()
    assert (gradients[0][~sees.any(-1).any(0)] == 0).all()
    for gradient in gradients[1:]:
        assert (gradient[~sees.any(-2).any(0)] == 0).all()


def assert_no_worse_than_the_reference(given):
    """In the type of ``given``, on the whole: the error's norm, but for a margin of chance."""
    ours, plain, exact = (
        (outputs, *gradients)
        for outputs, gradients in (
            solve(fused_cuda, given),
            solve(reference, given),
            solve(reference, in_double(given)),
        )
    )
    for got, theirs, want in zip(ours, plain, exact, strict=True):
        assert got.isfinite().all() and got.dtype == given.q.dtype
        mine, other = ((x.double() - want).norm() for x in (got, theirs))
        assert mine <= 1.2 * other


if INTERPRETED:
    # Triton's interpreter multiplies the bits of bfloat16 as if they were whole numbers, and
    # cuts numbers off where a GPU rounds them to bfloat16.
    import numpy as np
    from triton.language import bfloat16, float32
    from triton.runtime import interpreter

    DOT, CONVERT = interpreter.InterpreterBuilder.create_dot, interpreter._convert_float

    def single(x):
        if x.dtype.scalar != bfloat16:
            return x
        bits = x.data.astype(np.uint32) << 16
        return interpreter.TensorHandle(bits.view(np.float32), float32)

    def convert(x, from_type, to_type, mode):
        if (from_type, to_type) != (float32, bfloat16):
            return CONVERT(x, from_type, to_type, mode)
        bits = np.ascontiguousarray(x).view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)

    @pytest.fixture(autouse=True)
    def bfloat16_as_on_a_gpu(monkeypatch):
        dot = lambda self, a, b, *rest: DOT(self, single(a), single(b), *rest)  # noqa: E731
        monkeypatch.setattr(interpreter.InterpreterBuilder, "create_dot", dot)
        monkeypatch.setattr(interpreter, "_convert_float", convert)


@needs_kernels
@pytest.mark.parametrize("padded", ["none", "left"])
@pytest.mark.parametrize("name", BRANCHES)
def test_branch_sets(name, padded):
    h = 4 if "heads" in name else 1
    check(problem(BRANCHES[name], n=70, m=70, h=h, padded=padded))


@needs_kernels
@pytest.mark.parametrize("name", ["hysan", "local"])
def test_a_sentence_of_padding_only(name):
    check(problem(BRANCHES[name], n=40, m=40, b=2, padded="all"))


@needs_kernels
@pytest.mark.parametrize("padded", ["none", "left"])
@pytest.mark.parametrize("n, m", [(1, 1), (2, 2), (16, 16), (33, 33), (1, 40), (3, 90), (40, 99)])
def test_lengths(n, m, padded):
    check(problem(BRANCHES["hysan"], n=n, m=m, padded=padded))


@needs_kernels
@pytest.mark.parametrize("n, m", [(25, 25), (1, 40), (3, 90)])
def test_steps_of_a_decoder(n, m):
    check(problem(BRANCHES["decoder"], n=n, m=m, h=2, padded="right"))


@needs_kernels
@pytest.mark.parametrize("d_k", [8, 16, 20, 64, 128])
def test_widths(d_k):
    check(problem(BRANCHES["hysan"], n=40, m=40, d_k=d_k, padded="right", scale=d_k**-0.5))


@needs_kernels
@pytest.mark.parametrize("name", ["hysan", "heads"])
def test_large_scores(name):
    """Scores of some tens, where a maximum that regions share would underflow."""
    h = 4 if "heads" in name else 1
    check(problem(BRANCHES[name], n=70, m=70, h=h, padded="left", scale=5.0))


@needs_kernels
def test_a_side_far_above_the_zone():
    """Scores from 60 down to -60: e^-120 is nothing in single precision, so that a maximum
    shared with the left would leave nothing of branches that look to the right."""
    given = problem(BRANCHES["hysan"], n=80, m=80)
    with torch.no_grad():
        given.q[..., 0] = 1
        given.k[..., 0] = torch.linspace(60, -60, 80, device=DEVICE)
    check(given, times=3)  # the bounds are meant for scores of 20


@needs_kernels
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scale", [0.35, 5.0])
@pytest.mark.parametrize("name", ["hysan", "decoder", "heads"])
def test_half_precision_is_no_worse_than_the_reference(name, scale, dtype):
    h = 4 if name == "heads" else 2
    given = problem(BRANCHES[name], n=70, m=70, h=h, padded="left", scale=scale, dtype=dtype)
    assert_no_worse_than_the_reference(given)


@needs_kernels
def test_half_precision_scores_beyond_its_range():
    given = problem(BRANCHES["hysan"], n=20, m=20, scale=300.0, dtype=torch.float16)
    with torch.no_grad():
        given.k.mul_(100)
    outputs, gradients = solve(fused_cuda, given)
    assert outputs.isfinite().all()


@needs_kernels
def test_no_layout_matters():
    """Inputs as the attention layer makes them, a repeated mask, an upstream gradient of a sum."""
    b, h, n, d_k = 3, 2, 37, 16
    torch.manual_seed(0)
    hidden = [torch.randn(n, b, h * d_k, device=DEVICE, requires_grad=True) for _ in range(3)]
    row = torch.zeros(1, n, dtype=torch.bool, device=DEVICE)
    row[:, :4] = True
    results = []
    for compute, dtype in ((fused_cuda, torch.float32), (reference, torch.float64)):
        q, k, v = (x.to(dtype).view(n, b, h, d_k).permute(1, 2, 0, 3) for x in hidden)
        given = AttentionProblem(
            q=q * 0.3,
            k=k,
            v=v[:1].expand(b, h, n, d_k),
            branches=BRANCHES["hysan"],
            key_padding=row.expand(b, n),
        )
        outputs = compute(given).outputs
        results.append((outputs, *torch.autograd.grad(outputs.sum(), hidden)))
    for got, want in zip(*results, strict=True):
        assert (got.double() - want).abs().max() <= 2e-5


@needs_kernels
@pytest.mark.parametrize("heads", [1, 2])
def test_mix(heads):
    given = problem(BRANCHES["wide"], n=21, m=21, b=2, h=2)
    torch.manual_seed(0)
    mix = torch.rand(2, 2, heads, 21, 1, device=DEVICE, requires_grad=True)
    results = []
    for compute, exact in ((fused_cuda, False), (reference, True)):
        mine = dataclasses.replace(in_double(given) if exact else given, mix=mix)
        outputs = compute(mine).outputs
        assert outputs.shape == (1, 2, 2, 21, 16)
        results.append((outputs, torch.autograd.grad(torch.tanh(outputs).sum(), mix)[0]))
    for got, want in zip(*results, strict=True):
        assert (got.double() - want).abs().max() <= 2e-5


@needs_kernels
def test_twice_is_the_same_to_the_bit():
    given = problem(BRANCHES["hysan"], n=70, m=70)
    first, second = (solve(fused_cuda, given) for _ in range(2))
    assert first[0].equal(second[0])
    assert all(a.equal(b) for a, b in zip(first[1], second[1], strict=True))


SHAPES = [(4, 32, 70, 70, True), (2, 20, 13, 29, False), (1, 64, 13, 13, True)]


@needs_kernels
@pytest.mark.parametrize("dtype, shape", zip(path.DTYPES, SHAPES, strict=True))
def test_the_self_test_passes_and_notices(dtype, shape):
    shape = path._Shape(*shape)
    assert path._self_test(torch.device(DEVICE), dtype, shape) is None
    real = path._Fused.apply
    path._Fused.apply = lambda q, *rest: real(q * 1.05, *rest)
    try:
        assert "of the self-test is off" in path._self_test(torch.device(DEVICE), dtype, shape)
    finally:
        path._Fused.apply = real


@pytest.mark.parametrize("dtype", path.DTYPES)
@pytest.mark.parametrize("padded", ["none", "left"])
@pytest.mark.parametrize("d_k", [20, 64, 128])
def test_the_self_test_is_of_the_kernels_at_hand(dtype, padded, d_k):
    """For whatever lengths: what is compiled for them is compiled for the self-test."""
    for n, m in [(1, 1), (2, 16), (16, 33), (17, 17), (32, 40), (33, 64), (64, 65), (5, 900)]:
        given = problem(BRANCHES["e2"], n=n, m=m, d_k=d_k, padded=padded, dtype=dtype)
        shape = path._shape(given)
        tested = problem(BRANCHES["e2"], n=shape.n, m=shape.m, d_k=shape.d_k, dtype=dtype)
        sizes = path._sizes(given.q, given.k, 6, given.key_padding)
        assert sizes == path._sizes(tested.q, tested.k, shape.branches, given.key_padding)
        assert shape.padded == (given.key_padding is not None)
        assert shape.m <= 134


@pytest.mark.skipif(INTERPRETED, reason="tested outside")
@pytest.mark.skipif(not TRITON, reason="Triton is not installed: pip install triton")
@pytest.mark.parametrize("d_k", [32, 64, 128])
@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32"])
def test_compiles_without_a_gpu(d_k, dtype):
    """For compute capability 9.0, down to machine code."""
    from compile_kernels import compile_all

    for kernel, compiled in compile_all(branches=4, d_k=d_k, dtype=dtype, capability=90).items():
        assert compiled.asm["cubin"], kernel


# --- what is not for the kernels ----------------------------------------------------------


class Even(Pattern):
    def allows(self, offset):
        return offset % 2 == 0


@pytest.mark.parametrize(
    "change",
    [
        {"dropout": 0.1},
        {"need_weights": True},
        {"bias": torch.zeros(1, device=DEVICE)},
        {"branches": ((Even(),),)},
        {"v": torch.zeros(2, 2, 5, 16, device=DEVICE, dtype=torch.float64)},
        {name: torch.zeros(2, 2, 5, 129, device=DEVICE) for name in ("q", "k", "v")},
        {name: torch.zeros(0, 2, 5, 16, device=DEVICE) for name in ("q", "k", "v")},
    ],
    ids=["dropout", "weights", "bias", "pattern", "types", "width", "empty"],
)
def test_what_is_refused(change):
    given = problem(BRANCHES["hysan"], n=5, m=5)
    assert path.supports(given)
    assert not path.supports(dataclasses.replace(given, **change))


@pytest.mark.skipif(DEVICE == "cuda", reason="there is a GPU")
def test_not_taken_on_a_cpu():
    assert not able(problem(BRANCHES["hysan"], n=5, m=5))


@pytest.mark.parametrize("fault", ["dq of the self-test is off by 1", RuntimeError("no room")])
def test_a_failed_self_test_is_logged_once_and_remembered(fault, monkeypatch, caplog):
    def fail(device, dtype, shape):
        if isinstance(fault, Exception):
            raise fault
        return fault

    monkeypatch.setattr(path, "_self_test", fail)
    path._works.cache_clear()
    device, shape = torch.device("cuda", 7), path._Shape(4, 32, 70, 70, True)
    assert not path._works(device, torch.float32, shape)
    assert not path._works(device, torch.float32, shape)
    assert len(caplog.records) == 1
    assert "is not used on cuda:7 for torch.float32, _Shape(branches=4, d_k=32" in caplog.text
    assert str(fault) in caplog.text
    path._works.cache_clear()
