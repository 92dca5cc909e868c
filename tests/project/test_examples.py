"""examples/: code on top of the package that tables in configs/ use."""

from argparse import Namespace
from pathlib import Path

import pytest
import torch
from fairseq.utils import import_user_module

from fairseq_hybrid_attn.attention.fusion import GatedSum, fusions_for

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def fusions():
    import_user_module(Namespace(user_dir=str(ROOT / "examples/hysan_scales")))
    return fusions_for({})


def branches(number: int) -> torch.Tensor:
    return torch.randn(number, 5, 2, 32, dtype=torch.float64)


def test_mean_of_branches(fusions):
    fusion, x = fusions["mean"](32, 4, 4), branches(4)
    expected = (x[0] + x[1] + x[2] + x[3]) / 4
    torch.testing.assert_close(fusion(x, x[0], x[0]), (expected, None))
    shares = fusion.mixture(x[0], x[0])  # [l, 1, 1, 1, 1]
    torch.testing.assert_close((shares.view(4, 1, 1, 1) * x).sum(0), expected)


def test_gates_of_nothing_start_at_one_in_l(fusions):
    nothing = torch.zeros(4, 5, 2, 32)
    _, gates = fusions["gated-from-mean"](32, 4, 4)(nothing, nothing[0], nothing[0])
    torch.testing.assert_close(gates, torch.full_like(gates, 1 / 4))


@pytest.mark.parametrize("word, number", [("gated-from-mean", 2), ("gated-with-bias", 4)])
def test_with_a_bias_of_0_gates_are_the_papers(fusions, word, number):
    ours, x = fusions[word](32, 4, number).double(), branches(number)
    paper = GatedSum(32, 4, number, squeeze_ratio=16).double()
    paper.load_state_dict({k: v for k, v in ours.state_dict().items() if k != "expand.bias"})
    torch.testing.assert_close(ours(x, x[0], x[0]), paper(x, x[0], x[0]))
