"""Every path, on every problem that it is able to solve, against the reference in double precision.

``attention_problems.py`` makes the problems, sends each path all the ways it has, and names the
bounds.
"""

import dataclasses
import logging

import pytest
import torch
from attention_problems import (
    BRANCHES,
    FACTORS,
    PADDED,
    REFERENCE,
    WAYS,
    able,
    assert_no_worse_than_reference,
    assert_nothing_comes_of_nothing,
    check,
    converted,
    covering,
    drawn,
    error,
    make,
    solve,
    tensors,
)
from models import CONFIGURATIONS, build_tiny, pad

from fairseq_hybrid_attn.attention import paths
from fairseq_hybrid_attn.attention.paths import CALLS, PATH_VARIABLE, PATHS, choose, compute
from fairseq_hybrid_attn.attention.reference import reference
from fairseq_hybrid_attn.patterns import GLOBAL, PAST, Band

PROBLEMS = {family: covering(factors) for family, factors in FACTORS.items()}
PROBLEMS["anything"] = [drawn(seed) for seed in range(150)]


def problem_of(settings, seed):
    known = {name: value for name, value in settings.items() if name != "learned"}
    return make(**known, need_weights=settings.get("learned") is not None, seed=seed)


@pytest.mark.parametrize("branches", BRANCHES)
@pytest.mark.parametrize("family", PROBLEMS)
def test_equals_reference(family, branches):
    for seed, settings in enumerate(PROBLEMS[family]):
        if settings["branches"] == branches:
            check(
                problem_of(settings, seed),
                learned=settings.get("learned") or "outputs",
                rounding=not settings["numbers"][0],
                told=f"problem {seed}: {settings}",
            )


def test_how_many_problems_each_way_solves():
    """A path that becomes unable would otherwise not be noticed."""
    counts = {name: [0] * len(PROBLEMS) for name in WAYS}
    for number, problems in enumerate(PROBLEMS.values()):
        for seed, settings in enumerate(problems):
            for name in able(problem_of(settings, seed)):
                counts[name][number] += 1
    everything = [243, 190, 163, 150]
    assert [len(problems) for problems in PROBLEMS.values()] == everything
    expected = {
        "reference": everything,
        "short": everything,
        "blocks": [189, 75, 11, 90],
        "regions": [56, 0, 5, 55],
        "grouped": [72, 52, 13, 43],
        "grouped, in blocks": [72, 31, 3, 40],
        "grouped, by groups": [28, 0, 1, 25],
        "step": [14, 99, 7, 0],
    }
    assert counts == {name: expected.get(name, expected[name.split(",")[0]]) for name in WAYS}


ANY = {"batch": (2, 2), "numbers": (False, 1.0)}
LARGE = {"width": 4, "numbers": (True, 5.0)}
LONG = [
    ("not a band", 300, ANY | {"padded": "left"}),
    ("only not a band", 300, ANY | {"padded": "right"}),
    ("beside", 300, ANY | {"padded": "left"}),
    ("far away", 300, ANY),
    ("a gap", 300, ANY | {"padded": "left"}),
    ("wide", 300, ANY | {"padded": "right"}),
    ("nobody", 300, ANY | {"padded": "left"}),
    ("hysan", 450, ANY | {"padded": "left"}),
    ("hybrid", 450, ANY | {"padded": "scattered", "mix": "bhn1"}),
    ("heads", 450, ANY | {"padded": "left"}),
    ("half bands", 500, LARGE),
    ("heads", 600, LARGE | {"padded": "right"}),
    ("heads", (3, 600), LARGE | {"padded": "scattered"}),
    ("hysan", 1031, LARGE | {"padded": "scattered", "batch": (3, 1)}),
    ("hysan", 3100, LARGE | {"padded": "left", "batch": (1, 1)}),
]


@pytest.mark.parametrize("name, lengths, settings", LONG)
def test_long_sentences(name, lengths, settings):
    """Several blocks of a kernel, also such as are nothing but padding."""
    problem = make(name, lengths, **settings)
    ways = able(problem)
    if lengths in (1031, 3100):
        assert choose(problem) == "regions"
        ways = {"regions": ways["regions"]}
    check(problem, ways=ways, rounding=not settings["numbers"][0])


def test_half_precision_is_no_worse_than_that_of_the_reference():
    for name in ("hysan", "heads", "decoder"):
        for n, scale, mix in ((1, 3.0, None), (100, 1.0, None), (60, 20.0, None), (60, 1, "bhn1")):
            settings = {"lengths": (n, max(n, 60)), "numbers": (True, scale), "mix": mix}
            for dtype in (torch.float16, torch.bfloat16):
                problem = make(name, dtype=dtype, padded="right", batch=(8, 2), **settings)
                for way_name, way in able(problem).items():
                    told = f"{way_name} {name} {dtype} {settings}"
                    assert_no_worse_than_reference(way, problem, told)


def test_nothing_comes_of_nothing_in_every_precision():
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        for scale in (1e-3, 1.0, 20.0, 200.0):
            for padded in PADDED[1:]:
                for name, n in (("hysan", 20), ("heads", 20), ("decoder", 1)):
                    settings = {"numbers": (True, scale), "padded": padded, "dtype": dtype}
                    problem = make(name, (n, 20), **settings)
                    for way_name, way in able(problem).items():
                        told = f"{way_name} {name} {settings}"
                        assert_nothing_comes_of_nothing(problem, *solve(way, problem), told)


@pytest.mark.parametrize("gap", [5.0, 15.0, 17.0, 19.0, 21.0, 40.0, 90.0])
def test_digits_are_kept_however_far_below_the_best_key(gap):
    """Around the place where a branch gets its own softmax."""
    for name in ("hysan", "heads"):
        for best in (-1, 0, 50):
            problem = make(name, 80)
            with torch.no_grad():
                problem.q[..., 0] = 1.0
                problem.k[..., 0] = 0.0
                problem.k[:, :, best, 0] = gap
            ways = {name: way for name, way in able(problem).items() if way.path != "regions"}
            check(problem, ways=ways, told=f"{name} {best}")


def test_gradients_are_those_of_differences():
    """With dropout as well, of outputs and weights."""
    dropped = {"dropout": 0.4, "need_weights": True}
    for name, lengths, settings in [
        *((name, 18, {"mix": mix}) for name in ("hysan", "hybrid") for mix in (None, "bhn1")),
        *(("decoder", (1, m), {"mix": mix}) for m in (7, 130) for mix in (None, "bhn1")),
        ("heads", 18, {}),
        *(("hysan", 4, dropped | {"mix": mix, "bias": "b1nm"}) for mix in (None, "bhn1")),
        ("heads", 4, dropped),
    ]:
        common = {"batch": (2, 1), "width": 2, "padded": "left", "dtype": torch.float64}
        problem = make(name, lengths, **common, **settings)
        leaves = tensors(problem)
        for way_name, way in able(problem).items():

            def function(*given, path=PATHS[way.path].compute, problem=problem, leaves=leaves):
                torch.manual_seed(1)
                result = path(dataclasses.replace(problem, **dict(zip(leaves, given, strict=True))))
                return (result.outputs, result.weights)[: 1 + problem.need_weights]

            with way.taken():
                assert torch.autograd.gradcheck(function, tuple(leaves.values()), fast_mode=True), (
                    f"{way_name} {name} {settings}"
                )


def test_only_some_gradients_wanted():
    for name, lengths in (("hysan", 30), ("heads", 30), ("decoder", (1, 30))):
        for extra in ({}, {"mix": "bhn1", "bias": "b1nm"}):
            problem = make(name, lengths, padded="left", **extra)
            for wanted in tensors(problem):
                check(converted(problem, torch.float32, [wanted]), told=f"{name} {wanted}")


def test_training_after_inference():
    """Masks that were made in inference mode could serve no gradient."""
    for name, lengths in (("hysan", 61), ("heads", 61), ("heads", 130), ("decoder", (1, 37))):
        for padded in ("none", "right"):
            problem = make(
                name,
                lengths,
                padded=padded,
            )
            for cached in (
                *(paths.blocks.layout, paths.short._masks),
                *(paths.grouped._kept_bias, paths.step._kept_bias),
            ):
                cached.cache_clear()
            for way in able(problem).values():
                with torch.inference_mode(), way.taken() as path:
                    path(problem)
            check(problem)


def test_the_future_is_not_seen_by_a_last_digit():
    for branches in (BRANCHES["decoder"], ((PAST,), (Band(3, 0),)), ((PAST, Band(2, 0)),)):
        problem = make(branches, 130, batch=(1, 2), numbers=(False, 1.0))
        k, v = problem.k.detach().clone(), problem.v.detach().clone()
        k[:, :, 90:] += 0.5  # not so much that another path has to help
        v[:, :, 90:] -= 3
        for name, way in able(problem).items():
            with way.taken() as path:
                before = path(problem).outputs
                after = path(dataclasses.replace(problem, k=k, v=v)).outputs
            assert torch.equal(before[:, :, :, :90], after[:, :, :, :90]), name
            assert not torch.equal(before[:, :, :, 90:], after[:, :, :, 90:]), name


def test_single_precision_stays_so_within_an_autocast():
    """But for the products that autocast takes to half precision, as it does the reference."""
    for name in ("hysan", "decoder", "hybrid", "heads"):
        for n in (1, 40, 130):
            problem = make(name, (n, 130), numbers=(False, 1.0))
            want = reference(converted(problem, torch.float64)).outputs
            for way_name, way in able(problem).items():
                with torch.autocast("cpu", dtype=torch.bfloat16), way.taken() as path:
                    outputs = path(problem).outputs
                bound = 0.1 if way.path in ("reference", "step") else 5e-6
                assert error(outputs, want) <= bound, way_name


def test_a_second_derivative_is_right_or_refused():
    """A penalty on gradients must not be left out silently."""

    def penalty(way, given):
        with way.taken() as path:
            outputs = path(given).outputs
            (grad,) = torch.autograd.grad(outputs.sum(), given.k, create_graph=True)
            return torch.autograd.grad(grad.pow(2).sum(), given.k)[0]

    refused = set()
    for name in ("hysan", "hybrid", "heads"):
        for n in (1, 40):
            problem = make(name, (n, max(n, 3)), batch=(1, 2), dtype=torch.float64)
            want = penalty(REFERENCE, converted(problem, torch.float64))
            for way_name, way in able(problem).items():
                try:
                    torch.testing.assert_close(penalty(way, problem), want, msg=way_name)
                except RuntimeError as error:
                    assert "derivative" in str(error)
                    refused.add(way.path)
    assert refused == {"short", "blocks", "regions", "grouped", "step"}


# --- which path ------------------------------------------------------------------------------


def test_what_each_path_is_able_to():
    weights, bias, dropout = {"need_weights": True}, {"bias": torch.zeros(1)}, {"dropout": 0.1}
    fewer = {"q": torch.zeros(4, 2, 7, 8)}
    nobody = {x: torch.zeros(0, 2, 50, 8) for x in ("q", "k", "v")}
    whole, heads, two, half, beside, odd = (
        {"branches": branches}
        for branches in (
            *(((GLOBAL, GLOBAL),), ((GLOBAL, PAST),), ((GLOBAL,), (PAST,))),
            *(((Band(behind=3),),), ((Band(3, -1),),), BRANCHES["not a band"]),
        )
    )
    for path, n, can, cannot in (
        ("short", 50, (weights, bias, dropout, fewer, heads, odd), (nobody,)),
        ("blocks", 50, (fewer, whole, beside, odd), (weights, bias, dropout, heads, nobody)),
        ("regions", 50, (whole,), (weights, bias, dropout, heads, fewer, beside, odd, half)),
        ("regions", 16, (two,), ()),
        ("regions", 15, (), (two,)),
        ("step", 1, (weights, whole, half), (bias, dropout, heads, fewer, beside, odd)),
        ("grouped", 50, (whole, heads, half), (bias | heads, beside, odd, two)),
        ("grouped", 128, (heads | weights,), ()),
        ("grouped", 129, (heads, heads | weights | dropout), (heads | weights,)),
        ("fused-cuda", 50, (), ({},)),
    ):
        problem = make("decoder" if path == "step" else "hysan", (n, n if n > 1 else 50))
        for is_able, changes in ((True, can), (False, cannot)):
            for change in changes:
                changed = dataclasses.replace(problem, **change)
                assert PATHS[path].able(changed) == is_able, f"{path} {n} {change}"


def test_the_choice():
    for expected, name, lengths, settings in (
        ("step", "decoder", (1, 9), {}),
        ("step", "heads alike", (1, 300), {}),
        ("short", "decoder", (1, 9), {"bias": "b1nm"}),
        ("short", "beside", (1, 9), {}),
        ("grouped", "heads", (1, 9), {}),
        ("grouped", "heads", 1030, {}),
        ("grouped", "past", 20, {}),
        ("short", "heads beside", 20, {}),
        ("short", "hysan", 95, {}),
        ("blocks", "hysan", 96, {}),
        ("short", "hysan", 383, {"mix": "bhn1"}),
        ("blocks", "hysan", 384, {"mix": "bhn1"}),
        ("blocks", "hysan", 1023, {}),
        ("regions", "hysan", 1024, {}),
        ("short", "hysan", 1024, {"dropout": 0.1}),
        ("short", "hysan", 100, {"need_weights": True}),
        ("reference", "hysan", 20, {"batch": (0, 2)}),
    ):
        problem = make(name, lengths, **{"batch": (1, 1), "width": 2} | settings)
        assert choose(problem) == expected, f"{name} {lengths} {settings}"
    with torch.no_grad():
        assert choose(make("hysan", 511)) == "blocks"
        assert choose(make("hysan", 512)) == "regions"


def test_a_path_is_forced_only_where_it_is_able(monkeypatch):
    problem = make("hysan", 7)
    assert choose(problem) != "reference"
    monkeypatch.setenv(PATH_VARIABLE, "reference")
    assert choose(problem) == "reference"
    never = paths.Path(reference, lambda problem: False, lambda problem: False)
    monkeypatch.setitem(PATHS, "never", never)
    monkeypatch.setenv(PATH_VARIABLE, "never")
    assert choose(problem) != "never"
    monkeypatch.setenv(PATH_VARIABLE, "fastest")
    with pytest.raises(ValueError, match=r"fastest.*reference"):
        choose(problem)


def test_calls_are_counted_and_the_log_says_once_which_path_is_in_use(monkeypatch, caplog):
    monkeypatch.setattr(paths, "CALLS", type(CALLS)())
    monkeypatch.setenv(PATH_VARIABLE, "reference")
    with caplog.at_level(logging.INFO, logger=paths.__name__):
        for _ in range(2):
            compute(make("hysan", 7))
    assert paths.CALLS == {"reference": 2}
    assert [record.getMessage() for record in caplog.records] == [
        "attention is computed by path reference"
    ]


@pytest.mark.parametrize("branches", ["hysan", "decoder", "heads"])
def test_compilers_and_exporters_get_the_definition(branches):
    for n in (1, 9, 130, 1030):
        problem = make(branches, (n, max(n, 5)), batch=(1, 4))

        def function(q, k, v, problem=problem):
            return compute(dataclasses.replace(problem, q=q, k=k, v=v)).outputs

        given = [x.detach() for x in tensors(problem).values()]
        with torch.no_grad():
            traced = torch.jit.trace(function, given)
            assert torch.equal(traced(*given), reference(problem).outputs)


TRAINED = [(name, "") for name in CONFIGURATIONS] + [
    ("hysan-gated", "blocks"),
    ("hysan-gated", "regions"),
    ("gate-query", "blocks"),
]


@pytest.mark.parametrize("name, forced", TRAINED)
def test_a_model_trained_by_another_path_is_the_same(name, forced, monkeypatch):
    """A few steps by the paths that are chosen, or those for long sentences, and by the reference.

    In double precision, since single precision would tell a ReLU that flips from one that does
    not, and not much else.
    """
    sentences = [[5, 6, 7, 8, 2], [4, 9, 2], [*range(4, 16), *range(6, 14), 2]]
    source, target = pad(sentences, 1, left=True), pad(sentences, 1, left=False)
    trained = []
    for path in (forced, "reference"):
        monkeypatch.setenv(PATH_VARIABLE, path)
        model = build_tiny(name).double().train()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        for _ in range(8):
            optimizer.zero_grad()
            logits = model(source, source.ne(1).sum(1), target)[0]
            loss = torch.nn.functional.cross_entropy(
                logits.transpose(1, 2), target.roll(-1, dims=1), ignore_index=1
            )
            loss.backward()
            optimizer.step()
        trained.append([*model.parameters(), loss])
    for chosen, defined in zip(*trained, strict=True):
        torch.testing.assert_close(chosen, defined, rtol=0, atol=1e-9)
