"""The path for one branch with a pattern per head against the reference."""

import dataclasses

import pytest
import torch
from attention_problems import (
    PADDED,
    assert_equals_reference,
    assert_no_worse_than_reference,
    assert_zero_without_keys,
    inputs,
    make,
)

from fairseq_hybrid_attn.attention import flash, grouped
from fairseq_hybrid_attn.attention.reference import reference
from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, Band, local

HEADS = {
    "mma": (GLOBAL, local(1), FUTURE, PAST),
    "base": (GLOBAL, GLOBAL, local(3), local(3), FUTURE, FUTURE, PAST, PAST),
    "scattered": (PAST, GLOBAL, local(40), PAST, FUTURE, local(2)),
    "past": (PAST,),
    "future": (FUTURE,),
    "global": (GLOBAL,),
    "local": (local(2),),
}
WAYS = ["_plain", "_in_blocks", "_by_groups"]


def problem_of(name, **kwargs):
    heads = HEADS[name]
    return make((heads,), h=len(heads) if len(heads) > 1 else 2, **kwargs)


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    """Each way at any length."""
    monkeypatch.setattr(grouped, "_way", lambda problem: getattr(grouped, request.param))
    return request.param


@pytest.mark.parametrize("mix", [False, True])
@pytest.mark.parametrize("scale", [1.0, 20.0])
@pytest.mark.parametrize("padded", PADDED)
@pytest.mark.parametrize("n", [17, 70])
@pytest.mark.parametrize("name", HEADS)
def test_equals_reference(name, n, padded, scale, mix, way):
    problem = problem_of(name, n=n, padded=padded, scale=scale, mix=mix, seed=n)
    assert grouped.able(problem)
    assert_equals_reference(grouped.grouped, problem)


@pytest.mark.parametrize("scale", [1.0, 20.0])
@pytest.mark.parametrize("padded", PADDED)
@pytest.mark.parametrize("n, m", [(1, 1), (2, 2), (5, 5), (1, 9), (3, 40), (190, 190)])
@pytest.mark.parametrize("name", HEADS)
def test_equals_reference_in_short_sentences(name, n, m, padded, scale):
    problem = problem_of(name, n=n, m=m, padded=padded, scale=scale, seed=m)
    assert grouped.applies(problem)
    assert_equals_reference(grouped.grouped, problem)


@pytest.mark.parametrize("padded", PADDED)
@pytest.mark.parametrize("n, m", [(250, 250), (600, 600), (3, 600)])
def test_equals_reference_in_long_sentences(n, m, padded):
    problem = problem_of("mma", n=n, m=m, b=3, width=4, padded=padded, scale=5.0)
    assert_equals_reference(grouped.grouped, problem)


@pytest.mark.parametrize("padded", PADDED)
@pytest.mark.parametrize("name", HEADS)
def test_double_precision(name, padded, way):
    problem = problem_of(name, n=40, padded=padded, dtype=torch.float64, scale=3.0)
    assert_equals_reference(grouped.grouped, problem, output_bound=1e-12, gradient_bound=1e-12)


def test_gradcheck(way):
    problem = problem_of("mma", n=17, b=3, width=2, padded="left", dtype=torch.float64)

    def outputs(q, k, v):
        return grouped.grouped(dataclasses.replace(problem, q=q, k=k, v=v)).outputs

    assert torch.autograd.gradcheck(outputs, inputs(problem), fast_mode=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 20.0, 200.0])
@pytest.mark.parametrize("padded", PADDED[1:])
def test_rows_without_keys(padded, scale, dtype, way):
    assert_zero_without_keys(
        grouped.grouped, problem_of("mma", n=20, padded=padded, scale=scale, dtype=dtype)
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_half_precision_is_no_worse_than_the_reference(scale, dtype, way):
    problem = problem_of("mma", n=60, padded="right", scale=scale, dtype=dtype)
    assert_no_worse_than_reference(grouped.grouped, problem)


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("n", [30, 250, 500])
def test_dropout_has_the_same_statistics(n, name):
    """Values of 1: an output is the sum of the weights kept, times 1 / (1 - p)."""
    problem = problem_of(name, n=n, b=4, padded="right", scale=0.5)
    problem = dataclasses.replace(problem, v=torch.ones_like(problem.v), dropout=0.3)
    outputs = []
    for path in (grouped.grouped, reference):
        torch.manual_seed(0)
        result = path(problem).outputs
        assert not result[:, -1].any()
        result = result[:, 0]  # a sentence without padding
        outputs.append(torch.stack([result.mean((0, 2, 3)), result.std((0, 2, 3))]))
    # Standard errors of a mean over n queries are below 0.65 / sqrt(n).
    torch.testing.assert_close(*outputs, rtol=0, atol=3 / n**0.5)


def test_dropout_gradient_is_that_of_its_output():
    problem = problem_of("mma", n=9, b=2, width=3, padded="left", dtype=torch.float64)

    def outputs(q, k, v):
        torch.manual_seed(0)
        given = dataclasses.replace(problem, q=q, k=k, v=v, dropout=0.4)
        return grouped.grouped(given).outputs

    assert torch.autograd.gradcheck(outputs, inputs(problem), fast_mode=True)


def test_padding_is_remembered_only_while_it_is_the_same():
    padding = torch.zeros(4, 12, dtype=torch.bool)
    problem = dataclasses.replace(problem_of("mma", n=12), key_padding=padding)
    assert_equals_reference(grouped.grouped, problem)
    padding[1, 7:] = True  # the same tensor, changed
    assert_equals_reference(grouped.grouped, problem)
    for _ in range(3):  # another tensor, perhaps at the same address
        del padding
        padding = torch.rand(4, 12) < 0.5
        problem = dataclasses.replace(problem, key_padding=padding)
        assert_equals_reference(grouped.grouped, problem)
    shorter = problem_of("mma", n=3, m=12)  # other heads' and queries' masks
    assert_equals_reference(grouped.grouped, dataclasses.replace(shorter, key_padding=padding))
    others = problem_of("local", n=12)
    assert_equals_reference(grouped.grouped, dataclasses.replace(others, key_padding=padding))
    in_double = problem_of("mma", n=12, dtype=torch.float64)
    assert_equals_reference(grouped.grouped, dataclasses.replace(in_double, key_padding=padding))


def test_training_after_inference():
    """Masks made in inference serve a gradient afterwards."""
    for padded in ("none", "right"):
        problem = problem_of("base", n=61, padded=padded)
        with torch.inference_mode():
            grouped.grouped(problem)
        assert_equals_reference(grouped.grouped, problem)


def test_padding_made_in_inference():
    with torch.inference_mode():
        problem = problem_of("mma", n=12, padded="right")
        outputs = grouped.grouped(problem).outputs
        torch.testing.assert_close(outputs, reference(problem).outputs)


def test_layouts(way):
    problem = problem_of("mma", n=33)
    b, h, n, width = problem.q.shape
    q = problem.q.detach().permute(2, 0, 1, 3).contiguous().permute(1, 2, 0, 3).requires_grad_()
    k = problem.k.detach()[:1].expand(b, h, n, width).requires_grad_()
    v = problem.v.detach().mT.contiguous().mT.requires_grad_()
    assert_equals_reference(grouped.grouped, dataclasses.replace(problem, q=q, k=k, v=v))


def test_long_sentences_without_the_private_kernel(monkeypatch):
    monkeypatch.setattr(flash, "ENABLED", False)
    problem = problem_of("mma", n=600, b=1, width=4, padded="none")
    assert grouped.applies(problem)
    assert grouped._way(problem) is grouped._in_blocks
    assert_equals_reference(grouped.grouped, problem)


def test_what_it_is_not_able_to():
    problem = problem_of("mma", n=200)
    assert grouped.able(problem)
    for change in (
        {"need_weights": True},
        {"bias": torch.zeros(1)},
        {"branches": ((GLOBAL,), (PAST,))},
    ):
        assert not grouped.able(dataclasses.replace(problem, **change))


def test_other_bands_are_masked():
    problem = make(((Band(behind=2), Band(ahead=3)),), n=500, b=1, width=4)
    assert grouped._way(problem) is grouped._in_blocks
    assert_equals_reference(grouped.grouped, problem)


def test_the_same_padding_under_other_patterns():
    """What padding was joined with last serves those patterns and that padding only."""
    first = problem_of("mma", n=30, padded="left")
    other = dataclasses.replace(first, branches=((PAST, PAST, local(2), GLOBAL),))
    for problem in (first, other, first):
        assert_equals_reference(grouped.grouped, problem)
    given = torch.zeros_like(first.key_padding)
    problem = dataclasses.replace(first, key_padding=given)
    assert_equals_reference(grouped.grouped, problem)
    given.data[:, :4] = True  # unnoticed by autograd
    assert_equals_reference(grouped.grouped, problem)


def test_weights_are_those_before_dropout():
    problem = dataclasses.replace(problem_of("mma", n=20), dropout=0.5, need_weights=True)
    weights = grouped.grouped(problem).weights
    torch.testing.assert_close(weights, reference(problem).weights)
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
