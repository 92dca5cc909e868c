"""The reference path against double loops, and on the rows where softmax goes wrong."""

import pytest
import torch
from brute_force import CONDITIONS, attention_head

from fairseq_hybrid_attn.attention.problem import AttentionProblem
from fairseq_hybrid_attn.attention.reference import masked_softmax, reference
from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, local, local_past

PATTERNS = {"global": GLOBAL, "past": PAST, "future": FUTURE}
PATTERNS |= {f"local{k}": local(k) for k in range(1, 12)}
PATTERNS |= {f"local_past{k}": local_past(k) for k in range(1, 12)}

BRANCHES = {
    "one-global": [["global"]],
    "hysan": [["global"], ["past"], ["future"], ["local2"]],
    "decoder": [["past"], ["local_past2"]],
    "heads": [["global", "local1", "future", "past"]],
    "mixed": [["local3", "past", "past", "global"], ["future"]],
}


def padding_of(n, seed):
    """No padding, some on the right, some on the left, and a sentence of nothing else."""
    mask = torch.zeros(4, n, dtype=torch.bool)
    some = seed % n
    mask[1, n - some :] = True
    mask[2, :some] = True
    mask[3] = True
    return mask


@pytest.mark.parametrize("n", range(1, 8))
@pytest.mark.parametrize("name", BRANCHES)
def test_reference_is_the_double_loop(name, n):
    torch.manual_seed(n)
    branches = BRANCHES[name]
    q, k, v = (torch.randn(4, 4, n, 3, dtype=torch.float64) for _ in range(3))
    padding = padding_of(n, seed=n // 2 + 1)
    result = reference(
        AttentionProblem(
            q=q,
            k=k,
            v=v,
            branches=tuple(tuple(PATTERNS[word] for word in branch) for branch in branches),
            key_padding=padding,
            need_weights=True,
        )
    )
    for branch, words in enumerate(branches):
        for b in range(4):
            for h in range(4):
                outputs, weights = attention_head(
                    q[b, h].tolist(),
                    k[b, h].tolist(),
                    v[b, h].tolist(),
                    CONDITIONS[words[h % len(words)]],
                    (~padding[b]).tolist(),
                )
                torch.testing.assert_close(
                    result.outputs[branch, b, h],
                    torch.tensor(outputs, dtype=torch.float64),
                    rtol=0,
                    atol=1e-12,
                )
                torch.testing.assert_close(
                    result.weights[branch, b, h],
                    torch.tensor(weights, dtype=torch.float64),
                    rtol=0,
                    atol=1e-12,
                )


@pytest.mark.parametrize("k", range(1, 10))
@pytest.mark.parametrize("n", range(1, 8))
def test_every_width_is_the_double_loop(n, k):
    torch.manual_seed(n * 10 + k)
    q, keys, v = (torch.randn(1, 1, n, 2, dtype=torch.float64) for _ in range(3))
    for word in (f"local{k}", f"local_past{k}"):
        result = reference(AttentionProblem(q=q, k=keys, v=v, branches=((PATTERNS[word],),)))
        expected, _ = attention_head(
            q[0, 0].tolist(), keys[0, 0].tolist(), v[0, 0].tolist(), CONDITIONS[word], [True] * n
        )
        torch.testing.assert_close(
            result.outputs[0, 0, 0],
            torch.tensor(expected, dtype=torch.float64),
            rtol=0,
            atol=1e-12,
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 20.0, 200.0])
@pytest.mark.parametrize("n", [1, 2, 9])
def test_never_nan_and_no_gradient_through_rows_without_keys(n, dtype, scale):
    torch.manual_seed(0)
    q, k, v = (
        (torch.randn(4, 2, n, 4) * factor).to(dtype).requires_grad_()
        for factor in (scale, 1.0, 1.0)
    )
    padding = padding_of(n, seed=n - 1)
    result = reference(
        AttentionProblem(
            q=q,
            k=k,
            v=v,
            branches=((GLOBAL,), (PAST,), (FUTURE,), (local(1),)),
            key_padding=padding,
            need_weights=True,
        )
    )
    assert result.outputs.isfinite().all()
    # The fourth sentence is padding only: nothing to see, so exactly zero.
    assert (result.outputs[:, 3] == 0).all()
    (result.outputs.float() ** 2).sum().backward()
    for tensor in (q, k, v):
        assert tensor.grad.isfinite().all()
        assert (tensor.grad[3] == 0).all()


def test_forbidden_scores_cannot_be_seen_whatever_they_are():
    scores = torch.tensor([[1.0, 2.0, float("inf")], [1.0, 2.0, 3e38], [-3e38, -3e38, 0.0]])
    allowed = torch.tensor([True, True, False])
    weights = masked_softmax(scores, allowed)
    expected = torch.tensor([1.0, 2.0]).softmax(-1)
    torch.testing.assert_close(weights[0], torch.cat([expected, torch.zeros(1)]))
    torch.testing.assert_close(weights[1], torch.cat([expected, torch.zeros(1)]))
    torch.testing.assert_close(weights[2], torch.tensor([0.5, 0.5, 0.0]))


def test_dropout_is_drawn_anew_for_each_branch():
    torch.manual_seed(0)
    n = 40
    problem = AttentionProblem(
        q=torch.zeros(1, 1, n, 1),
        k=torch.zeros(1, 1, n, 1),
        v=torch.ones(1, 1, n, 1),
        branches=((GLOBAL,), (GLOBAL,)),
        dropout=0.5,
        need_weights=True,
    )
    result = reference(problem)
    # Equal weights 1/n: an output is the share of keys that were kept, times 2.
    assert not result.outputs[0].equal(result.outputs[1])
    for branch in result.outputs:
        assert abs(branch.mean().item() - 1) < 0.1
        assert branch.std() > 0.05
    assert result.weights.sum(-1).allclose(torch.ones(()))


def test_half_precision_scores_beyond_its_range():
    """q k = -90,000 and 90,000, where float16 ends at 65,504."""
    q = torch.tensor([[-300.0, 0], [300.0, 0]]).half()
    problem = AttentionProblem(
        q=q[None, None],
        k=torch.tensor([[300.0, 0], [300.0, 0]]).half()[None, None],
        v=torch.ones(1, 1, 2, 1).half(),
        branches=((PAST,), (GLOBAL,)),
        need_weights=True,
    )
    result = reference(problem)
    assert (result.outputs == 1).all()
    with torch.autocast("cpu", dtype=torch.float16):
        assert (reference(problem).outputs == 1).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_softmax_of_half_precision_is_taken_in_single(dtype):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 1, 50, 8).to(dtype) for _ in range(3))
    result = reference(AttentionProblem(q=q, k=k, v=v, branches=((GLOBAL,),), need_weights=True))
    assert result.weights.dtype == torch.float32
    assert (result.weights.sum(-1) - 1).abs().max() < 1e-6
    assert result.outputs.dtype == dtype


def test_a_width_beyond_all_numbers_sees_everything():
    assert local(10**30).mask(4, 4).all()
