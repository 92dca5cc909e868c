"""Every path in single precision against the reference in double precision.

The bounds are those that any path has to keep: 5e-6 for outputs and 2e-5 (of the largest) for
gradients, at real tokens.  Scores of 60 and more have, in general, absolute rounding errors for
which single precision itself, the reference in it, passes 5e-6; there a path may be off by 1.5
times what the reference is, but not where the scores are exact (``test_large_scores``).  A path
that says it is not able to solve a problem is skipped; whether it would be the fastest is not
asked.
"""

import dataclasses
import logging
import random

import attention_problems
import pytest
import torch
from models import CONFIGURATIONS, build_tiny, pad

from fairseq_hybrid_attn.attention import paths
from fairseq_hybrid_attn.attention.paths import CALLS, PATH_VARIABLE, PATHS, choose, compute
from fairseq_hybrid_attn.attention.problem import AttentionProblem
from fairseq_hybrid_attn.attention.reference import reference
from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, Band, local, local_past

BRANCHES = {
    "global": ((GLOBAL,),),
    "local": ((local(1),),),
    "hysan": ((GLOBAL,), (PAST,), (FUTURE,), (local(5),)),
    "hybrid": ((GLOBAL,), (local(1),)),
    "all": ((GLOBAL,), (PAST,), (FUTURE,), (local(1),), (local(2),), (local(5),)),
    "decoder": ((PAST,), (local_past(5),)),
    "heads": ((GLOBAL, local(1), FUTURE, PAST),),
    # No paper has these: bands beside the diagonal leave queries without any key.
    "beside": ((Band(ahead=-1),),),
    "beside and all": ((Band(-1, 3),), (GLOBAL,)),
    "empty": ((Band(5, -7),),),
    "heads beside": ((Band(behind=-3), Band(ahead=-2), Band(-2, 5), local(1)),),
}
WORDS = (GLOBAL, PAST, FUTURE, *map(local, (1, 2, 5, 9)), *map(local_past, (1, 2, 5)))
TENSORS = ("q", "k", "v", "bias", "mix")


def problem(
    branches,
    *,
    n=7,
    m=None,
    b=3,
    h=4,
    dtype=torch.float32,
    seed=0,
    padded="none",
    scale=1.0,
    mix=False,
    bias=False,
    **settings,
):
    """A problem of numbers that ``dtype`` holds."""
    torch.manual_seed(seed)
    m = n if m is None else m
    q, k, v = (torch.randn(b, h, m, 8, dtype=torch.float64) for _ in range(3))
    padding = None
    if padded != "none":
        padding = torch.zeros(b, m, dtype=torch.bool)
        padding[b // 2, slice(m // 2 + 1, m) if padded == "right" else slice(0, m // 2)] = True
        if padded == "expanded":
            padding = padding[b // 2 : b // 2 + 1].expand(b, m)
    given = AttentionProblem(
        q=q[:, :, m - n :] * scale,
        k=k,
        v=v,
        branches=branches,
        key_padding=padding,
        bias=torch.randn(b, 1, n, m, dtype=torch.float64) if bias else None,
        mix=torch.rand(len(branches), b, random.Random(seed).choice((1, h)), n, 1).double() * 2 - 1
        if mix
        else None,
        **settings,
    )
    return converted(given, dtype)


def converted(given, dtype):
    """The same numbers as new leaves of the graph."""
    new = {
        name: tensor.detach().to(dtype).requires_grad_()
        for name in TENSORS
        if (tensor := getattr(given, name)) is not None
    }
    return dataclasses.replace(given, **new)


def solve(path, given):
    """Outputs (and weights) and gradients, of real queries only."""
    result = path(given)
    b, m, n = given.k.size(0), given.k.size(2), given.q.size(2)
    real = torch.ones(b, n, dtype=torch.bool)
    if given.key_padding is not None:
        real = ~given.key_padding[:, m - n :]
    assert result.outputs.isfinite().all()
    results = [result.outputs.permute(1, 3, 0, 2, 4)[real]]
    if given.need_weights:
        results.append(result.weights.permute(1, 3, 0, 2, 4)[real])
    torch.tanh(results[0]).sum().backward()
    gradients = [getattr(given, x).grad for x in TENSORS if getattr(given, x) is not None]
    return results, gradients


def skip_unless_able(path, given):
    if not PATHS[path].able(given):
        pytest.skip(f"{path} leaves this problem to others")


def check(path, single):
    skip_unless_able(path, single)
    results, gradients = solve(PATHS[path].compute, single)
    # The same numbers: what single precision cannot hold is no fault of a path.
    expected, expected_gradients = solve(reference, converted(single, torch.float64))
    defined, _ = solve(reference, converted(single, torch.float32))
    for got, want, their in zip(results, expected, defined, strict=True):
        assert got.shape == want.shape
        rounding = (their.double() - want).abs().max()
        assert (got.double() - want).abs().max() <= max(5e-6, 1.5 * rounding)
    for got, want in zip(gradients, expected_gradients, strict=True):
        assert got.isfinite().all()
        assert (got.double() - want).abs().max() <= 2e-5 * max(1.0, want.abs().max())


@pytest.mark.parametrize("scale", [0.35, 5.0])
@pytest.mark.parametrize("padded", ["none", "right", "left", "expanded"])
@pytest.mark.parametrize("n, m", [(1, 1), (2, 2), (25, 25), (64, 64), (1, 40), (3, 40)])
@pytest.mark.parametrize("branches", BRANCHES)
@pytest.mark.parametrize("path", PATHS)
def test_single_precision_path(path, branches, n, m, padded, scale):
    shape = {"n": n, "m": m, "seed": n + m, "padded": padded, "scale": scale}
    wanted = {"need_weights": (n + len(branches)) % 2 == 0}
    if not PATHS[path].able(problem(BRANCHES[branches], **shape, **wanted)):
        wanted = {"need_weights": False}
    check(path, problem(BRANCHES[branches], **shape, **wanted))


@pytest.mark.parametrize("mix", [False, True])
@pytest.mark.parametrize("padded", ["none", "left"])
@pytest.mark.parametrize("scale", [5.0, 20.0])
@pytest.mark.parametrize("width", [8, 64])
@pytest.mark.parametrize("branches", ["hysan", "all", "decoder", "heads"])
@pytest.mark.parametrize("path", PATHS)
def test_large_scores(path, branches, width, scale, padded, mix):
    """Scores of standard deviation 5 and 20 that single precision holds: no bound is given away."""
    n = 1 if path == "step" else 110
    shape = {"n": n, "m": 110, "b": 2, "h": 4, "width": width, "scale": scale}
    exact = attention_problems.make(BRANCHES[branches], padded=padded, mix=mix, **shape)
    skip_unless_able(path, exact)
    attention_problems.assert_equals_reference(PATHS[path].compute, exact)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("path", PATHS)
def test_anything(path, seed):
    """Any shape, branches, widths, padding, bias, mix."""
    draw = random.Random(seed)
    h = draw.choice((1, 2, 4))
    branches = tuple(
        tuple(draw.choice(WORDS) for _ in range(draw.choice((1, h))))
        for _ in range(draw.choice((1, 2, 4)))
    )
    n = draw.choice((1, 2, 3, 5, 17, 33, 70))
    check(
        path,
        problem(
            branches,
            n=n,
            m=n + draw.choice((0, 0, 0, 4)),
            b=draw.choice((1, 3)),
            h=h,
            seed=seed,
            padded=draw.choice(("none", "right", "left", "expanded")),
            scale=draw.choice((0.35, 1.0, 5.0)),
            mix=draw.random() < 0.4,
            bias=draw.random() < 0.2,
            need_weights=draw.random() < 0.2,
        ),
    )


@pytest.mark.parametrize("mix", [False, True])
@pytest.mark.parametrize("padded", ["none", "left"])
@pytest.mark.parametrize("branches", ["hysan", "hybrid", "heads"])
@pytest.mark.parametrize("path", PATHS)
def test_long_sentences(path, branches, padded, mix):
    if mix and branches == "heads":
        pytest.skip("one branch is not mixed")
    check(path, problem(BRANCHES[branches], n=450, b=2, padded=padded, mix=mix, scale=1.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 20.0])
@pytest.mark.parametrize("n", [1, 2, 9, 33])
@pytest.mark.parametrize("path", PATHS)
def test_a_sentence_of_padding_gathers_nothing(path, n, scale, dtype):
    given = problem(BRANCHES["hysan"], n=n, dtype=dtype, scale=scale)
    padding = torch.zeros(3, n, dtype=torch.bool)
    padding[0, : n // 2] = True
    padding[2] = True
    given = dataclasses.replace(given, key_padding=padding)
    skip_unless_able(path, given)
    outputs = PATHS[path].compute(given).outputs
    assert outputs.isfinite().all()
    assert (outputs[:, 2] == 0).all()
    # A query that looks back from the left padding sees nothing but padding.
    assert (outputs[1, 0, :, : n // 2] == 0).all()
    (outputs.float() ** 2).sum().backward()
    for tensor in (given.q, given.k, given.v):
        assert tensor.grad.isfinite().all()
        assert (tensor.grad[2] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mix", [False, True])
@pytest.mark.parametrize("branches", ["hysan", "heads", "decoder"])
@pytest.mark.parametrize("path", PATHS)
def test_half_precision_is_no_worse_than_that_of_the_reference(path, branches, mix, dtype):
    if mix and branches == "heads":
        pytest.skip("one branch is not mixed")
    given = problem(BRANCHES[branches], n=50, b=8, dtype=dtype, mix=mix)
    skip_unless_able(path, given)
    expected = sum(solve(reference, converted(given, torch.float64)), [])
    theirs = sum(solve(reference, converted(given, dtype)), [])
    ours = sum(solve(PATHS[path].compute, given), [])
    for want, their, our in zip(expected, theirs, ours, strict=True):
        assert our.dtype == their.dtype
        error, allowed = ((x.double() - want).pow(2).mean().sqrt() for x in (our, their))
        assert error <= 1.02 * allowed


@pytest.mark.parametrize("branches", BRANCHES)
@pytest.mark.parametrize("path", PATHS)
def test_transposed_inputs(path, branches):
    """As a layer makes them: a view of ``[n, b, h * d_k]``."""
    given = problem(BRANCHES[branches], n=11)
    skip_unless_able(path, given)
    expected, gradients = solve(PATHS[path].compute, given)
    turned = {}
    for name in ("q", "k", "v"):
        plain = getattr(given, name).detach()
        turned[name] = plain.permute(2, 0, 1, 3).contiguous().permute(1, 2, 0, 3).requires_grad_()
        assert not turned[name].is_contiguous()
    got, got_gradients = solve(PATHS[path].compute, dataclasses.replace(given, **turned))
    for mine, want in zip(got + got_gradients, expected + gradients, strict=True):
        torch.testing.assert_close(mine, want, rtol=0, atol=2e-6)


@pytest.mark.parametrize("branches", ["hysan", "decoder", "hybrid", "heads"])
@pytest.mark.parametrize("n", [1, 40, 130])
@pytest.mark.parametrize("path", PATHS)
def test_single_precision_stays_so_within_an_autocast(path, n, branches):
    """But for the products that autocast takes to half precision, as it does the reference."""
    given = problem(BRANCHES[branches], n=n, m=130, scale=1.0)
    skip_unless_able(path, given)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = PATHS[path].compute(given).outputs
    want = reference(converted(given, torch.float64)).outputs
    assert outputs.isfinite().all()
    assert (outputs.double() - want).abs().max() <= (0.1 if path in ("reference", "step") else 5e-6)


@pytest.mark.parametrize("n", [1, 9, 130, 1030])
@pytest.mark.parametrize("branches", ["hysan", "decoder", "heads"])
def test_compilers_and_exporters_get_the_definition(branches, n):
    given = problem(BRANCHES[branches], n=n, m=max(n, 5), b=1, h=4)

    def function(q, k, v):
        return compute(dataclasses.replace(given, q=q, k=k, v=v)).outputs

    tensors = [x.detach() for x in (given.q, given.k, given.v)]
    with torch.no_grad():
        traced = torch.jit.trace(function, tensors)
        assert torch.equal(traced(*tensors), reference(given).outputs)


@pytest.mark.parametrize("n", [1, 40, 100, 1030])
@pytest.mark.parametrize("branches", ["hysan", "hybrid"])
@pytest.mark.parametrize("path", PATHS)
def test_a_second_derivative_is_right_or_refused(path, branches, n):
    """A penalty on gradients must not be left out without a word."""
    given = problem(BRANCHES[branches], n=n, m=max(n, 3), b=1, h=1, dtype=torch.float64)
    skip_unless_able(path, given)

    def penalty(path, given):
        outputs = PATHS[path].compute(given).outputs
        (grad,) = torch.autograd.grad(outputs.sum(), given.k, create_graph=True)
        return torch.autograd.grad(grad.pow(2).sum(), given.k)[0]

    try:
        got = penalty(path, given)
    except RuntimeError as error:
        assert "no second derivative" in str(error)
    else:
        want = penalty("reference", converted(given, torch.float64))
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("forced", ["", "blocks", "regions"])
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_model_trained_by_another_path_is_the_same(name, forced, monkeypatch):
    """20 steps by the paths that are chosen, or those for long sentences, and by the reference.

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
        for _ in range(20):
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


def test_the_reference_is_left_when_it_is_not_asked_for(monkeypatch):
    given = problem(BRANCHES["hysan"])
    assert choose(given) != "reference"
    monkeypatch.setenv(PATH_VARIABLE, "reference")
    assert choose(given) == "reference"


def test_a_path_is_forced_only_where_it_is_able(monkeypatch):
    never = paths.Path(reference, lambda problem: False, lambda problem: False)
    monkeypatch.setitem(PATHS, "never", never)
    monkeypatch.setenv(PATH_VARIABLE, "never")
    assert choose(problem(BRANCHES["hysan"])) != "never"


def test_an_unknown_path_is_refused(monkeypatch):
    monkeypatch.setenv(PATH_VARIABLE, "fastest")
    with pytest.raises(ValueError, match="fastest.*reference"):
        choose(problem(BRANCHES["hysan"]))


def test_the_log_says_once_which_path_is_in_use(monkeypatch, caplog):
    monkeypatch.setattr(paths, "CALLS", type(CALLS)())
    monkeypatch.setenv(PATH_VARIABLE, "reference")
    with caplog.at_level(logging.INFO, logger=paths.__name__):
        compute(problem(BRANCHES["hysan"]))
        compute(problem(BRANCHES["hysan"]))
    assert [record.getMessage() for record in caplog.records] == [
        "attention is computed by path reference"
    ]


def test_calls_are_counted():
    before = CALLS.total()
    compute(problem(BRANCHES["heads"], n=3))
    assert CALLS.total() == before + 1
