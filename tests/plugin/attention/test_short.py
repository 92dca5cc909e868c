"""What only the batched path can get wrong; test_paths.py holds it against the reference."""

import dataclasses

import torch
from attention_problems import WAYS, make, solve
from torch.utils.checkpoint import checkpoint

from fairseq_hybrid_attn.attention import short as module
from fairseq_hybrid_attn.attention.reference import reference
from fairseq_hybrid_attn.attention.short import short

SHORT = WAYS["short"]


def everything(way, problem):
    parts, gradients = solve(way, problem)
    return [*parts, *gradients.values()]


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
    given, gradients = make("hysan", 7, dropout=0.5), []
    leaves = (given.q, given.k, given.v)

    def layer(q, k, v):
        return short(dataclasses.replace(given, q=q, k=k, v=v)).outputs.tanh()

    for again in (False, True):
        torch.manual_seed(3)
        output = checkpoint(layer, *leaves, use_reentrant=False) if again else layer(*leaves)
        gradients.append(torch.autograd.grad(output.sum(), leaves))
    assert all(a.equal(b) for a, b in zip(*gradients, strict=True))


def test_autocast_changes_no_more_than_its_inputs():
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
