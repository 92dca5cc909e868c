"""examples/: code on top of the package that tables in configs/ use."""

from argparse import Namespace
from pathlib import Path

import pytest
import torch
from fairseq.utils import import_user_module

from fairseq_hybrid_attn import UserError, vocabulary
from fairseq_hybrid_attn.attention.fusion import GatedSum
from fairseq_hybrid_attn.vocabulary import fusions_for

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def fusions():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocabulary, "_FUSIONS", {})
        import_user_module(Namespace(user_dir=str(ROOT / "examples/hysan_scales")))
        yield fusions_for({})


def branches(number: int) -> torch.Tensor:
    return torch.randn(number, 5, 2, 32, dtype=torch.float64)


@pytest.mark.parametrize("number", [2, 3])
def test_mean_of_branches(fusions, number):
    mean, x = fusions["mean"](32, 4, number), branches(number)
    expected = sum(x[i] for i in range(number)) / number
    torch.testing.assert_close(mean(x, x[0], x[0]), (expected, None))
    shares = mean.mixture(x[0], x[0])  # [l, 1, 1, 1, 1]
    torch.testing.assert_close((shares.view(number, 1, 1, 1) * x).sum(0), expected)


@pytest.mark.parametrize("number", [2, 3, 4])
def test_gates_that_see_nothing_give_the_mean(fusions, number):
    gated, x = fusions["gated-from-mean"](32, 4, number).double(), branches(number)
    gated.squeeze.weight.data.zero_()
    fused, gates = gated(x, x[0], x[0])
    torch.testing.assert_close(gates, torch.full_like(gates, 1 / number))
    torch.testing.assert_close(fused, x.mean(0))


@pytest.mark.parametrize("word, number", [("gated-from-mean", 2), ("gated-with-bias", 4)])
def test_with_a_bias_of_0_gates_are_the_papers(fusions, word, number):
    ours, x = fusions[word](32, 4, number).double(), branches(number)
    paper = GatedSum(32, 4, number, squeeze_ratio=16).double()
    paper.load_state_dict({k: v for k, v in ours.state_dict().items() if k != "expand.bias"})
    torch.testing.assert_close(ours(x, x[0], x[0]), paper(x, x[0], x[0]))


@pytest.mark.parametrize("width, number", [(24, 4), (32, 1)])
def test_what_gates_with_a_bias_need(fusions, width, number):
    with pytest.raises(UserError, match="need two branches, and a width that 16 divides"):
        fusions["gated-from-mean"](width, 4, number)
