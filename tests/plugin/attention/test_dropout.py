"""Dropout on CPUs against what dropout is, and where models use it."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import torch
from fairseq.modules import FairseqDropout
from models import build_stock, build_tiny, logits

from fairseq_hybrid_attn.models.fast_dropout import Dropout


def test_elements_are_dropped_independently_and_the_others_scaled():
    torch.manual_seed(0)
    for p in (0.1, 0.3):
        x = torch.ones(1000, 1003, requires_grad=True)
        dropped = Dropout(p).train()(x)
        dropped.backward(torch.full_like(x, 2.0))
        assert x.grad.equal(2 * dropped)  # the gradient drops the same elements
        kept = dropped > 0
        torch.testing.assert_close(
            dropped[kept].unique(), torch.tensor([1 / (1 - p)]), rtol=1e-4, atol=0
        )
        spread = (p * (1 - p) / x.numel()) ** 0.5
        assert abs(kept.double().mean() - (1 - p)) < 4 * spread
        for by in (1, 2, 3, 4, 1003):  # neighbours share a random number of 64 bits
            flat = kept.flatten()
            both = (flat[by:] & flat[:-by]).double().mean()
            assert abs(both - (1 - p) ** 2) < 6 * spread, by
        assert kept.double().mean(0).std() < 1.2 * (p * (1 - p) / 1000) ** 0.5


def test_seed_precision_and_inference():
    module, x = Dropout(0.5).train(), torch.randn(7, 3)
    torch.manual_seed(1)
    first, second = module(x), module(x)
    torch.manual_seed(1)
    assert module(x).equal(first) and not first.equal(second)
    for dtype in (torch.bfloat16, torch.float64):
        assert module(x.to(dtype)).dtype == dtype
    assert module.eval()(x) is x
    module.apply_during_inference = True  # --retain-dropout
    assert not module(x).equal(x)
    assert not Dropout(1.0).train()(x).any()


def test_every_dropout_of_a_model_is_this_one():
    """With fairseq's names, for --retain-dropout-modules."""

    def dropouts(model):
        return [module for module in model.modules() if isinstance(module, FairseqDropout)]

    def names(found):
        return {module.module_name for module in found}

    wanted = names(dropouts(build_stock()))
    assert {"TransformerEncoder", "MultiheadAttention"} < wanted
    for name, more in (("hysan-gated", set()), ("lstm-on-top", {"FeedForward"})):
        found = dropouts(build_tiny(name, dropout=0.3))
        assert len(found) > 10 and {type(module) for module in found} == {Dropout}
        assert names(found) == wanted | more


def trained_twice(rank: int, meeting: str) -> list[list[float]]:
    """What a model in training computes as one of two processes, twice after the same seed."""
    torch.distributed.init_process_group("gloo", meeting, rank=rank, world_size=2)
    model = build_tiny("hysan-gated", dropout=0.3).train()
    computed = []
    for _ in range(2):
        torch.manual_seed(1)
        computed.append(logits(model, [[4, 5, 6, 2]], [[2, 4, 5]]).flatten().tolist())
    return computed


def test_processes_of_a_training_drop_other_elements(tmp_path):
    """As fairseq seeds them, all would drop the same; each repeats its own, so it can resume."""
    context = multiprocessing.get_context("fork")
    meeting = [f"file://{tmp_path}/meeting"] * 2
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        first, second = pool.map(trained_twice, range(2), meeting)
    assert first[0] == first[1] and second[0] == second[1]
    assert first[0] != second[0]
