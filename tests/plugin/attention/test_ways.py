"""Every way of computing a problem, against the reference in double precision."""

import dataclasses
from itertools import product

import pytest
import torch
from attention_problems import (
    BRANCHES,
    FACTORS,
    WAYS,
    able,
    check,
    check_no_worse_than_reference,
    converted,
    covering,
    drawn,
    error,
    make,
    tensors,
)
from torch._subclasses import FakeTensor, FakeTensorMode

from fairseq_hybrid_attn.attention import compute as choice
from fairseq_hybrid_attn.attention import masks
from fairseq_hybrid_attn.attention.compute import LONG, LONG_IN_HALF, compute
from fairseq_hybrid_attn.attention.reference import reference
from fairseq_hybrid_attn.attention.sdpa import sdpa
from fairseq_hybrid_attn.patterns import GLOBAL, PAST, Band, local_past

PROBLEMS = {family: covering(factors) for family, factors in FACTORS.items()}
ONLY = {"lengths": (300, 300), "batch": (2, 1)}
PROBLEMS["long"] = [drawn(seed) | {"branches": x} | ONLY for seed, x in enumerate(BRANCHES)]


def problem_of(settings, seed):
    known = {name: value for name, value in settings.items() if name != "learned"}
    return make(**known, need_weights=settings.get("learned") is not None, seed=seed)


@pytest.mark.parametrize("family", PROBLEMS)
def test_equals_reference(family):
    for seed, settings in enumerate(PROBLEMS[family]):
        learned, rounding = settings.get("learned") or "outputs", not settings["numbers"][0]
        told = f"problem {seed}: {settings}"
        check(problem_of(settings, seed), learned=learned, rounding=rounding, told=told)


def test_half_precision_is_no_worse_than_that_of_the_reference():
    for name in ("hysan", "heads", "decoder"):
        for n, scale, mix in ((1, 3.0, None), (100, 1.0, None), (60, 20.0, None), (60, 1, "bhn1")):
            settings = {"lengths": (n, max(n, 60)), "numbers": (True, scale), "mix": mix}
            for dtype in (torch.float16, torch.bfloat16):
                problem = make(name, dtype=dtype, padded="right", batch=(5, 2), **settings)
                for way_name, way in able(problem).items():
                    told = f"{way_name} {name} {dtype} {settings}"
                    # PyTorch's kernel rounds at other places than the definition.
                    margins = (5, 5) if way_name == "sdpa" else (1.02, 1.05)
                    check_no_worse_than_reference(way, problem, told, margins)


def test_digits_are_kept_however_far_below_the_best_key():
    """Where a branch sees only keys with almost no share of all."""
    for gap, (name, n, best) in product(
        (5.0, 15.0, 17.0, 19.0, 21.0, 40.0, 90.0),
        (
            ("hysan", 12, -1),
            *(("hysan", 80, best) for best in (-1, 0, 50)),
            *(("heads", 80, best) for best in (-1, 0, 50)),
        ),
    ):
        problem = make(name, n, batch=(3, 4), need_weights=n == 12)
        with torch.no_grad():
            problem.q[..., 0] = 1.0
            problem.k[..., 0] = 0.0
            problem.k[:, :, best, 0] = gap + 100 * (n == 12 and gap == 90)
        learned, told = "both" if problem.need_weights else "outputs", f"{gap} {name} {best}"
        check(problem, learned=learned, told=told)
        if n == 12:
            check(problem, learned="tanh", bounds=(2e-6, 2e-6), told=told)


def test_dropout_is_drawn_anew_for_each_weight():
    """The weights returned are those before; outputs times identity are those after."""
    p = 0.3
    twice = ((GLOBAL,), (GLOBAL,))
    for branches, n in (("global", 400), (twice, 400), ("hysan", 60), ("heads", 60)):
        settings = {"numbers": (True, 0.3), "mix": "1111", "need_weights": True}
        problem = make(branches, n, batch=(1, 1) if n == 400 else (2, 1), **settings)
        if n == 400:
            problem = dataclasses.replace(problem, q=torch.zeros(1, 1, n, 8))
        identity = torch.eye(n).expand(*problem.v.shape[:2], n, n)
        problem = dataclasses.replace(problem, v=identity)
        weights, dropped = reference(problem).weights, dataclasses.replace(problem, dropout=p)
        for name, way in {**able(dropped), "sdpa": WAYS["sdpa"]}.items():
            dropped = dataclasses.replace(dropped, need_weights=name != "sdpa")
            results = []
            for given in (dataclasses.replace(dropped, mix=None), dropped):
                torch.manual_seed(0)
                results.append(way(given))
            plain, mixed = results
            if name != "sdpa":
                torch.testing.assert_close(plain.weights, weights)
            torch.testing.assert_close(mixed.outputs[0], (problem.mix * plain.outputs).sum(0))
            assert not plain.outputs[weights == 0].any(), name
            kept = plain.outputs[weights > 0] / weights[weights > 0] * (1 - p)  # 0 or 1
            assert ((kept - (kept > 0.5).float()).abs() < 1e-3).all(), name
            if n == 400:  # 160,000 draws: a standard deviation is 0.0011, of a row 0.023
                kept = kept.view(-1, n, n)
                for branch in kept:
                    assert abs(branch.mean() - (1 - p)) < 0.006, name
                    assert (branch.mean(0) - (1 - p)).abs().max() < 0.12, name
                    assert (branch.mean(1) - (1 - p)).abs().max() < 0.12, name
                    neighbours = (branch[:, 1:] * branch[:, :-1]).mean()
                    assert abs(neighbours - (1 - p) ** 2) < 0.01, name
                if len(kept) > 1:  # independent of each other
                    assert abs((kept[0] * kept[1]).mean() - (1 - p) ** 2) < 0.01, name


def test_gradients_with_dropout_are_those_of_differences():
    """Of outputs and weights; without dropout, the reference has them."""
    for name, settings in (("hysan", {"bias": "b1nm"}), ("hysan", {"mix": "bhn1"}), ("heads", {})):
        settings |= {"batch": (2, 1), "width": 2, "padded": "left", "dtype": torch.float64}
        problem = make(name, 4, dropout=0.4, need_weights=True, **settings)
        leaves = tensors(problem)
        for way_name, way in able(problem).items():

            def function(*given, solved=way, problem=problem, leaves=leaves):
                torch.manual_seed(1)
                result = solved(
                    dataclasses.replace(problem, **dict(zip(leaves, given, strict=True)))
                )
                return result.outputs, result.weights

            right = torch.autograd.gradcheck(function, tuple(leaves.values()), fast_mode=True)
            assert right, f"{way_name} {name} {settings}"


def test_only_some_gradients_are_needed():
    for name, lengths in (("hysan", 30), ("heads", 30), ("decoder", (1, 30))):
        for extra in ({}, {"mix": "bhn1", "bias": "b1nm"}):
            problem = make(name, lengths, padded="left", **extra)
            for wanted in tensors(problem):
                check(converted(problem, torch.float32, [wanted]), told=f"{name} {wanted}")


def test_training_after_inference():
    """Masks that were made in inference mode could not be used for gradients."""
    for name, lengths in (("hysan", 61), ("heads", 61), ("heads", 130), ("decoder", (1, 37))):
        for padded in ("none", "right"):
            problem = make(name, lengths, padded=padded)
            masks._remembered.clear()
            for way in able(problem).values():
                with torch.inference_mode():
                    inferred = way(problem).outputs
                torch.testing.assert_close(way(problem).outputs, inferred)
            check(problem)


def test_keys_that_are_not_seen_do_not_matter_whatever_they_hold():
    """Not even in the last digit."""
    for branches, lengths, changed, by, same in (
        ("decoder", 130, slice(90, None), 0.5, slice(0, 90)),
        (((PAST,), (Band(3, 0),)), 130, slice(90, None), 0.5, slice(0, 90)),
        (((PAST, Band(2, 0)),), 130, slice(90, None), 0.5, slice(0, 90)),
        (((local_past(3),),), (1, 10), slice(0, 6), 1e6, slice(0, 1)),
        (((local_past(3),),), (1, 200), slice(0, 196), 1e6, slice(0, 1)),
    ):
        problem = make(branches, lengths, batch=(1, 2), numbers=(False, 1.0))
        k, v = problem.k.detach().clone(), problem.v.detach().clone()
        k[:, :, changed] += by
        v[:, :, changed] -= 3 * by
        for name, way in able(problem).items():
            before = way(problem).outputs
            after = way(dataclasses.replace(problem, k=k, v=v)).outputs
            assert torch.equal(before[:, :, :, same], after[:, :, :, same]), name
            assert lengths != 130 or not torch.equal(before, after), name


def test_precision_under_autocast():
    """Autocast casts products to half precision, and nothing else."""
    for name in ("hysan", "decoder", "hybrid", "heads"):
        for n in (1, 40, 130):
            problem = make(name, (n, 130), numbers=(False, 1.0))
            want = reference(converted(problem, torch.float64)).outputs
            for way_name, way in able(problem).items():
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    outputs = way(problem).outputs
                assert error(outputs, want) <= 0.1, way_name


def test_a_second_derivative_is_right_or_refused():
    """A penalty on gradients must not be left out silently."""

    def penalty(way, given):
        (grad,) = torch.autograd.grad(way(given).outputs.sum(), given.k, create_graph=True)
        return torch.autograd.grad(grad.pow(2).sum(), given.k)[0]

    for name in ("hysan", "hybrid", "heads"):
        problem = make(name, 4, batch=(1, 2), dtype=torch.float64)

        def outputs(k, problem=problem):
            return reference(dataclasses.replace(problem, k=k)).outputs

        assert torch.autograd.gradgradcheck(outputs, problem.k)
        for n in (1, 40):
            problem = make(name, (n, max(n, 3)), batch=(1, 2), dtype=torch.float64)
            want = penalty(reference, problem)
            try:
                torch.testing.assert_close(penalty(sdpa, problem), want)
            except RuntimeError as fault:
                assert "derivative" in str(fault)


def test_the_choice(monkeypatch):
    """The table of ``compute``."""
    for name in ("sdpa", "reference"):
        monkeypatch.setattr(choice, name, lambda problem, name=name: name)
    half = {"dtype": torch.bfloat16}
    for settings, here, elsewhere in (
        ({"lengths": 9}, "reference", "sdpa"),
        ({"lengths": (1, 9), "dropout": 0.1}, "reference", "sdpa"),
        ({"lengths": 9, "need_weights": True}, "reference", "reference"),
        ({"lengths": (2, LONG)}, "sdpa", "sdpa"),
        ({"lengths": (2, LONG)} | half, "reference", "sdpa"),
        ({"lengths": (2, LONG_IN_HALF)} | half, "sdpa", "sdpa"),
        ({"lengths": (2, LONG), "need_weights": True}, "reference", "reference"),
        ({"lengths": (2, LONG), "bias": "b1nm"}, "reference", "sdpa"),
        ({"lengths": (2, LONG), "dropout": 0.1}, "reference", "sdpa"),
        ({"lengths": 9, "batch": (0, 2)}, "reference", "reference"),
    ):
        problem = make("hysan", **{"batch": (1, 1), "width": 2, **settings})
        assert compute(problem) == here, settings
        without_numbers = {name: x.detach().to("meta") for name, x in tensors(problem).items()}
        assert compute(dataclasses.replace(problem, **without_numbers)) == elsewhere, settings
        with monkeypatch.context() as patch:
            patch.setattr(choice, "is_tracing", lambda: True)
            assert compute(problem) in (elsewhere, "sdpa"), settings


def test_fake_tensors_leave_nothing_behind():
    """Else every real pass of that length would fail."""
    problem = make("hysan", 61, batch=(1, 2), padded="right")
    for padding in (None, problem.key_padding):
        given = dataclasses.replace(problem, key_padding=padding, need_weights=padding is None)
        masks._remembered.clear()
        with FakeTensorMode(allow_non_fake_inputs=True):
            assert isinstance(compute(given).outputs, FakeTensor)
        check(given)


def test_traces_are_right():
    for branches, n in zip(("hysan", "decoder", "heads", "hysan"), (9, 1, 130, 1030), strict=True):
        problem = make(branches, (n, max(n, 5)), batch=(1, 2))

        def function(q, k, v, problem=problem):
            return compute(dataclasses.replace(problem, q=q, k=k, v=v)).outputs

        given = [x.detach() for x in tensors(problem).values()]
        with torch.no_grad():
            traced = torch.jit.trace(function, given)
            torch.testing.assert_close(traced(*given), reference(problem).outputs)
