"""What is particular to the batched path; that it is right is for test_paths.py to say."""

import dataclasses

import pytest
import torch
from test_paths import BRANCHES, converted, problem, solve
from torch.utils.checkpoint import checkpoint

from fairseq_hybrid_attn.attention import short as module
from fairseq_hybrid_attn.attention.problem import AttentionProblem
from fairseq_hybrid_attn.attention.reference import reference
from fairseq_hybrid_attn.attention.short import short
from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, Pattern, local


@pytest.fixture(params=["whole", "recomputed", "in parts"])
def parts(request, monkeypatch):
    """Weights kept; weights computed again; a head at a time."""
    monkeypatch.setattr(module, "SMALL", {"whole": 2**30}.get(request.param, 0))
    monkeypatch.setattr(module, "CHUNK", {"in parts": 1}.get(request.param, 2**30))


def both(given):
    """Each result and gradient of this path, with that of the reference in double precision."""
    ours, theirs = solve(short, given), solve(reference, converted(given, torch.float64))
    return zip(sum(ours, []), sum(theirs, []), strict=True)


def agree(given, atol=1e-12):
    for x, y in both(given):
        torch.testing.assert_close(x, y, rtol=0, atol=atol)


@pytest.mark.parametrize("scale", [0.35, 20.0])
@pytest.mark.parametrize("padded", ["none", "left", "right"])
@pytest.mark.parametrize("mix", [False, True])
@pytest.mark.parametrize("branches", BRANCHES)
def test_whole_and_in_parts(parts, branches, mix, padded, scale):
    given = {"dtype": torch.float64, "n": 9, "padded": padded, "scale": scale}
    agree(problem(BRANCHES[branches], mix=mix, bias=True, need_weights=True, **given))


@pytest.mark.parametrize("mix", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("branches", ["hysan", "heads", "decoder"])
def test_gradcheck(parts, branches, dropout, mix):
    """All gradients, of outputs and weights, against differences."""
    given = problem(
        BRANCHES[branches],
        n=4,
        b=2,
        padded="left",
        dtype=torch.float64,
        mix=mix,
        bias=True,
        dropout=dropout,
        need_weights=True,
    )
    names = [x for x in ("q", "k", "v", "bias", "mix") if getattr(given, x) is not None]

    def function(*tensors):
        torch.manual_seed(1)
        result = short(dataclasses.replace(given, **dict(zip(names, tensors, strict=True))))
        return result.outputs, result.weights

    assert torch.autograd.gradcheck(function, [getattr(given, x) for x in names], fast_mode=True)


def test_a_branch_that_sees_only_keys_far_below_the_best():
    """Scores 0, 60, 200: shared by all branches, the softmax of those that do not see the
    last key would be zero."""
    scores = torch.tensor([0.0, 60.0, 200.0])
    given = AttentionProblem(
        q=torch.ones(1, 1, 3, 1),
        k=scores.view(1, 1, 3, 1),
        v=torch.tensor([1.0, 2.0, 3.0]).view(1, 1, 3, 1),
        branches=((GLOBAL,), (PAST,), (FUTURE,), (local(1),)),
        need_weights=True,
    )
    result = short(given)
    torch.testing.assert_close(
        result.outputs[:, 0, 0, :, 0],
        torch.tensor([[3.0, 3, 3], [1, 2, 3], [3, 3, 3], [2, 3, 3]]),
    )
    torch.testing.assert_close(result.weights, reference(given).weights)


@pytest.mark.parametrize("gap", [5.0, 15.0, 17.0, 19.0, 21.0, 40.0, 90.0])
def test_digits_are_kept_however_far_below(gap):
    """Around the place where a branch gets its own softmax."""
    given = problem(BRANCHES["hysan"], n=12, scale=0.35)
    with torch.no_grad():
        given.q[..., 0] = 1.0
        given.k[..., 0] = 0.0
        given.k[:, :, -1, 0] = gap  # the last key draws everything, of those who see it
    for x, y in both(given):
        assert (x.double() - y).abs().max() <= 2e-6 * max(1.0, y.abs().max())


@pytest.mark.parametrize("mix", [False, True])
def test_dropout_is_drawn_anew_for_each_branch(mix):
    torch.manual_seed(0)
    n, p = 400, 0.3
    given = AttentionProblem(
        q=torch.zeros(1, 1, n, 1),
        k=torch.zeros(1, 1, n, 1),
        v=torch.eye(n).view(1, 1, n, n)[..., :n],
        branches=((GLOBAL,), (GLOBAL,)),
        dropout=p,
        need_weights=True,
        mix=torch.tensor([1.0, 0.0]).view(2, 1, 1, 1, 1) if mix else None,
    )
    result = short(given)
    assert (result.weights - 1 / n).abs().max() < 1e-6  # before dropout
    kept = result.outputs.squeeze() * n * (1 - p)  # 0 or 1
    for branch in kept.view(-1, n, n):
        assert ((branch - branch.round()).abs() < 1e-3).all()
        # 160,000 draws: a standard deviation is 0.0011 for all, 0.023 for a row or column.
        assert abs(branch.mean() - (1 - p)) < 0.006
        assert (branch.mean(0) - (1 - p)).abs().max() < 0.12
        assert (branch.mean(1) - (1 - p)).abs().max() < 0.12
        assert abs((branch[:, 1:] * branch[:, :-1]).mean() - (1 - p) ** 2) < 0.01
    if not mix:
        both = (kept[0] * kept[1]).mean()
        assert abs(both - (1 - p) ** 2) < 0.01  # independent of each other


@pytest.mark.parametrize("p", [1e-9, 0.5, 1.0])
def test_dropout_of_nearly_nothing_and_of_all(p):
    given = problem(BRANCHES["hysan"], n=5, dropout=p)
    outputs = short(given).outputs
    outputs.sum().backward()
    assert outputs.isfinite().all() and given.q.grad.isfinite().all()
    if p == 1.0:
        assert (outputs == 0).all()
    if p == 1e-9:
        torch.testing.assert_close(
            outputs, reference(dataclasses.replace(given, dropout=0)).outputs
        )


def test_activations_may_be_computed_again():
    """With the same random numbers, as --checkpoint-activations does."""
    given = problem(BRANCHES["hysan"], dropout=0.5)
    gradients = []
    for again in (False, True):
        fresh = converted(given, torch.float32)

        def layer(q, k, v):
            return short(dataclasses.replace(given, q=q, k=k, v=v)).outputs.tanh()

        torch.manual_seed(3)
        inputs = (fresh.q, fresh.k, fresh.v)
        output = checkpoint(layer, *inputs, use_reentrant=False) if again else layer(*inputs)
        output.sum().backward()
        gradients.append([x.grad for x in inputs])
    assert all(a.equal(b) for a, b in zip(*gradients, strict=True))


def test_without_gradients_nothing_is_kept():
    given = problem(BRANCHES["hysan"])
    with torch.no_grad():
        assert short(given).outputs.grad_fn is None
    with torch.inference_mode():
        inferred = short(given).outputs
    # What was remembered meanwhile may serve training.
    trained = short(given).outputs
    trained.sum().backward()
    assert trained.equal(inferred)


def test_the_same_again():
    given = problem(BRANCHES["hysan"], n=25, dropout=0.1, padded="left")
    results = []
    for _ in range(2):
        torch.manual_seed(0)
        results.append(sum(solve(short, converted(given, torch.float32)), []))
    assert all(a.equal(b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_changes_no_more_than_its_inputs(dtype):
    given = problem(BRANCHES["hysan"], n=10, dtype=dtype)
    plain = sum(solve(short, converted(given, dtype)), [])
    with torch.autocast("cpu", dtype=dtype):
        cast = sum(solve(short, converted(given, dtype)), [])
    assert all(a.equal(b) for a, b in zip(plain, cast, strict=True))
    with torch.autocast("cpu", dtype=dtype):
        assert short(problem(BRANCHES["hysan"], n=10)).outputs.dtype == torch.float32


def test_gradients_that_are_not_asked_for():
    given = problem(BRANCHES["hysan"], mix=True, bias=True)
    expected = sum(solve(reference, converted(given, torch.float32)), [])[1:]
    for wanted, want in zip(("q", "k", "v", "bias", "mix"), expected, strict=True):
        frozen = converted(given, torch.float32)
        for name in ("q", "k", "v", "bias", "mix"):
            getattr(frozen, name).requires_grad_(name == wanted)
        short(frozen).outputs.tanh().sum().backward()
        torch.testing.assert_close(getattr(frozen, wanted).grad, want, rtol=0, atol=1e-5)


def test_only_the_weights_are_learned_from():
    given = problem(BRANCHES["hysan"], dtype=torch.float64, need_weights=True)
    gradients = []
    for path in (short, reference):
        fresh = converted(given, torch.float64)
        path(fresh).weights.pow(2).sum().backward()
        gradients.append((fresh.q.grad, fresh.k.grad))
    for mine, want in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, want, rtol=0, atol=1e-12)


def test_the_future_is_not_seen_at_all():
    """Not even by a last digit."""
    given = problem(BRANCHES["decoder"], n=9)
    before = short(given).outputs
    with torch.no_grad():
        given.k[:, :, 5:] = 3.0
        given.v[:, :, 5:] = -1.0
    assert short(given).outputs[..., :5, :].equal(before[..., :5, :])


def test_masks_are_remembered_within_bounds():
    module._masks.cache_clear()
    for n in range(1, 200):
        short(problem(BRANCHES["hybrid"], n=n, b=1, h=1))
    info = module._masks.cache_info()
    assert info.currsize <= info.maxsize
    assert info.maxsize * module.LARGEST_CACHED_MASK * 4 <= 64 * 2**20
    short(problem(BRANCHES["all"], n=600, b=1, h=1))
    assert module._masks.cache_info().misses == info.misses


def test_a_pattern_of_ones_own():
    @dataclasses.dataclass(frozen=True)
    class Others(Pattern):
        """All but oneself: a sentence of one word sees nothing."""

        def allows(self, offset):
            return offset != 0

    for n in (1, 2, 6):
        agree(problem(((Others(),), (GLOBAL,)), n=n, dtype=torch.float64, padded="right"))
        agree(problem(((Others(),),), n=n, dtype=torch.float64, need_weights=True))
