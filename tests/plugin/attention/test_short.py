"""What is particular to the batched path; test_paths.py holds it against the reference."""

import dataclasses

import pytest
import torch
from attention_problems import REFERENCE, WAYS, converted, error, make, solve, tensors
from torch.utils.checkpoint import checkpoint

from fairseq_hybrid_attn.attention import short as module
from fairseq_hybrid_attn.attention.problem import AttentionProblem
from fairseq_hybrid_attn.attention.reference import reference
from fairseq_hybrid_attn.attention.short import short
from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, local

SHORT = WAYS["short"]


def everything(way, problem):
    parts, gradients = solve(way, problem)
    return [*parts, *gradients.values()]


def test_a_branch_that_sees_only_keys_far_below_the_best():
    """Scores 0, 60, 200: shared by all branches, the softmax of those that do not see the
    last key would be zero."""
    given = AttentionProblem(
        q=torch.ones(1, 1, 3, 1),
        k=torch.tensor([0.0, 60.0, 200.0]).view(1, 1, 3, 1),
        v=torch.tensor([1.0, 2.0, 3.0]).view(1, 1, 3, 1),
        branches=((GLOBAL,), (PAST,), (FUTURE,), (local(1),)),
        need_weights=True,
    )
    result = short(given)
    expected = torch.tensor([[3.0, 3, 3], [1, 2, 3], [3, 3, 3], [2, 3, 3]])
    torch.testing.assert_close(result.outputs[:, 0, 0, :, 0], expected)
    torch.testing.assert_close(result.weights, reference(given).weights)


def test_digits_are_kept_however_far_below():
    """Around the place where a branch gets its own softmax; closer than all paths have to."""
    for gap in (5.0, 15.0, 17.0, 19.0, 21.0, 40.0, 90.0):
        given = make("hysan", 12, numbers=(False, 1.0))
        with torch.no_grad():
            given.q[..., 0] = 1.0
            given.k[..., 0] = 0.0
            given.k[:, :, -1, 0] = gap  # the last key draws everything, of those who see it
        ours, exact = (
            everything(SHORT, given),
            everything(REFERENCE, converted(given, torch.double)),
        )
        for x, want in zip(ours, exact, strict=True):
            assert error(x, want) <= 2e-6 * max(1.0, want.abs().max()), gap


@pytest.mark.parametrize("mix", [False, True])
def test_dropout_is_drawn_anew_for_each_branch(mix):
    torch.manual_seed(0)
    n, p = 400, 0.3
    given = AttentionProblem(
        q=torch.zeros(1, 1, n, 1),
        k=torch.zeros(1, 1, n, 1),
        v=torch.eye(n).view(1, 1, n, n),
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
    if not mix:  # independent of each other
        assert abs((kept[0] * kept[1]).mean() - (1 - p) ** 2) < 0.01


def test_dropout_of_nearly_nothing_and_of_all():
    for p in (1e-9, 0.5, 1.0):
        given = make("hysan", 5, dropout=p)
        outputs, *gradients = everything(SHORT, given)
        assert all(x.isfinite().all() for x in (outputs, *gradients))
        assert (outputs == 0).all() == (p == 1.0)
        if p == 1e-9:
            whole = reference(dataclasses.replace(given, dropout=0)).outputs
            torch.testing.assert_close(outputs, whole)


def test_activations_may_be_computed_again():
    """With the same random numbers, as --checkpoint-activations does."""
    given = make("hysan", 7, dropout=0.5)

    def layer(q, k, v):
        return short(dataclasses.replace(given, q=q, k=k, v=v)).outputs.tanh()

    gradients = []
    for again in (False, True):
        leaves = tuple(tensors(converted(given, torch.float32)).values())
        torch.manual_seed(3)
        output = checkpoint(layer, *leaves, use_reentrant=False) if again else layer(*leaves)
        gradients.append(torch.autograd.grad(output.sum(), leaves))
    assert all(a.equal(b) for a, b in zip(*gradients, strict=True))


def test_without_gradients_nothing_is_kept():
    given = make("hysan", 7)
    with torch.no_grad():
        assert short(given).outputs.grad_fn is None
    with torch.inference_mode():
        inferred = short(given).outputs
    assert short(given).outputs.equal(inferred)


def test_the_same_again_and_autocast_changes_no_more_than_its_inputs():
    given = make("hysan", 25, dropout=0.1, padded="left")
    results = []
    for _ in range(2):
        torch.manual_seed(0)
        results.append(everything(SHORT, given))
    assert all(a.equal(b) for a, b in zip(*results, strict=True))
    for dtype in (torch.float16, torch.bfloat16):
        given = make("hysan", 10, dtype=dtype)
        plain = everything(SHORT, given)
        with torch.autocast("cpu", dtype=dtype):
            cast = everything(SHORT, given)
            assert short(make("hysan", 10)).outputs.dtype == torch.float32
        assert all(a.equal(b) for a, b in zip(plain, cast, strict=True))


def test_masks_are_remembered_within_bounds():
    module._masks.cache_clear()
    for n in range(1, 200):
        short(make("hybrid", n, batch=(1, 1)))
    info = module._masks.cache_info()
    assert info.currsize <= info.maxsize and info.hits == 0
    assert info.maxsize * module.LARGEST_CACHED_MASK * 4 <= 64 * 2**20
    short(make("six", 600, batch=(1, 1)))
    assert module._masks.cache_info().misses == info.misses
    short(make("hybrid", 199, batch=(1, 1)))
    assert module._masks.cache_info().hits == 1
