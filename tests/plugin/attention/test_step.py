"""The path for a step of decoding against the reference."""

import dataclasses

import pytest
import torch
from attention_problems import (
    PADDED,
    assert_equals_reference,
    assert_no_worse_than_reference,
    assert_zero_without_keys,
    make,
)

from fairseq_hybrid_attn.attention import step
from fairseq_hybrid_attn.attention.reference import reference
from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, Band, local, local_past

BRANCHES = {
    "decoder": ((PAST,), (local_past(5),)),
    "several": ((PAST,), (local_past(1),), (local_past(2),), (local_past(5),)),
    "any": ((GLOBAL,), (FUTURE,), (local(2),), (local_past(300),), (Band(0, 0),)),
    "past": ((PAST,),),
    "local": ((local_past(3),),),
    "heads-alike": ((PAST, PAST), (local_past(2), local_past(2))),
}


@pytest.mark.parametrize("mix", [False, True])
@pytest.mark.parametrize("scale", [1.0, 20.0])
@pytest.mark.parametrize("padded", PADDED)
@pytest.mark.parametrize("m", [1, 2, 6, 25, 127, 128, 300])
@pytest.mark.parametrize("name", BRANCHES)
def test_equals_reference(name, m, padded, scale, mix):
    problem = make(BRANCHES[name], n=1, m=m, padded=padded, scale=scale, mix=mix, seed=m)
    assert step.applies(problem)
    assert_equals_reference(step.step, problem)


@pytest.mark.parametrize("padded", PADDED)
@pytest.mark.parametrize("m", [1, 30, 200])
@pytest.mark.parametrize("name", BRANCHES)
def test_weights(name, m, padded):
    problem = make(BRANCHES[name], n=1, m=m, padded=padded)
    problem = dataclasses.replace(problem, need_weights=True)
    got, want = step.step(problem), reference(problem)
    torch.testing.assert_close(got.weights, want.weights, rtol=0, atol=1e-6)
    torch.testing.assert_close(got.outputs, want.outputs, rtol=0, atol=5e-6)


@pytest.mark.parametrize("mix", [False, True])
@pytest.mark.parametrize("padded", ["none", "left"])
@pytest.mark.parametrize("m", [7, 130])  # by rows of weights, and by slices
def test_gradient_is_that_of_finite_differences(m, padded, mix):
    given = make(
        BRANCHES["decoder"], n=1, m=m, b=3, width=3, padded=padded, mix=mix, dtype=torch.float64
    )
    names = ("q", "k", "v", "mix") if mix else ("q", "k", "v")

    def outputs(*tensors):
        return step.step(
            dataclasses.replace(given, **dict(zip(names, tensors, strict=True)))
        ).outputs

    tensors = tuple(getattr(given, name) for name in names)
    assert torch.autograd.gradcheck(outputs, tensors, fast_mode=True)


@pytest.mark.parametrize("m", [10, 200])
def test_is_the_last_row_of_the_whole(m):
    whole = make(BRANCHES["decoder"], n=m, dtype=torch.float64)
    last = dataclasses.replace(whole, q=whole.q[:, :, -1:])
    torch.testing.assert_close(
        step.step(last).outputs, reference(whole).outputs[:, :, :, -1:], rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("m", [10, 200])
def test_a_local_branch_does_not_see_other_keys(m):
    """Whatever they hold."""
    problem = make(((local_past(3),),), n=1, m=m)
    k, v = problem.k.detach().clone(), problem.v.detach().clone()
    k[:, :, : m - 4] = 1e6
    v[:, :, : m - 4] = 1e6
    torch.testing.assert_close(
        step.step(dataclasses.replace(problem, k=k, v=v)).outputs,
        step.step(problem).outputs,
        rtol=0,
        atol=1e-6,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 20.0, 200.0])
@pytest.mark.parametrize("padded", PADDED[1:])
@pytest.mark.parametrize("m", [9, 150])
def test_rows_without_keys(m, padded, scale, dtype):
    problem = make(BRANCHES["several"], n=1, m=m, padded=padded, scale=scale, dtype=dtype)
    assert_zero_without_keys(step.step, problem)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("m", [25, 200])
def test_half_precision_is_no_worse_than_the_reference(m, dtype):
    problem = make(BRANCHES["decoder"], n=1, m=m, b=20, dtype=dtype, scale=3.0)
    assert_no_worse_than_reference(step.step, problem)


@pytest.mark.parametrize("m", [25, 200])
def test_under_autocast(m):
    problem = make(BRANCHES["decoder"], n=1, m=m)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got, want = step.step(problem).outputs, reference(problem).outputs
    assert (got.float() - want.float()).abs().max() <= 0.02


@pytest.mark.parametrize("m", [25, 200])
def test_layouts(m):
    problem = make(BRANCHES["decoder"], n=1, m=m)
    b, h, _, width = problem.k.shape
    k = problem.k.detach().permute(2, 0, 1, 3).contiguous().permute(1, 2, 0, 3).requires_grad_()
    v = problem.v.detach()[:1].expand(b, h, m, width).requires_grad_()
    q = problem.q.detach().mT.contiguous().mT.requires_grad_()
    assert_equals_reference(step.step, dataclasses.replace(problem, q=q, k=k, v=v))


def test_training_after_inference():
    problem = make(BRANCHES["decoder"], n=1, m=37)
    with torch.inference_mode():
        step.step(problem)
    assert_equals_reference(step.step, problem)


def test_what_it_is_not_able_to():
    problem = make(BRANCHES["decoder"], n=1, m=9)
    assert step.able(problem)
    for change in (
        {"dropout": 0.1},
        {"bias": torch.zeros(1)},
        {"branches": ((GLOBAL, PAST),)},
        {"branches": ((Band(behind=3, ahead=-1),),)},
        {"q": problem.k},
    ):
        assert not step.able(dataclasses.replace(problem, **change))
