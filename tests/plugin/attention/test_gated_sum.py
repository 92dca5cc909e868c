"""The gated sum with its gradient written down, and when it must not be used."""

import pytest
import torch
from torch import nn

from fairseq_hybrid_attn.attention.fusion import GatedSum

L, N, B, D = 4, 5, 3, 16


def gated_sum(dtype=torch.float64):
    torch.manual_seed(0)
    return GatedSum(D, 4, L, squeeze_ratio=4).to(dtype)


def branches(dtype=torch.float64):
    torch.manual_seed(1)
    return torch.randn(L, N, B, D, dtype=dtype, requires_grad=True)


def defined(fusion, x):
    """HySAN Eq. 13 and 14."""
    gates = torch.sigmoid(torch.relu(x @ fusion.squeeze.weight.T) @ fusion.expand.weight.T)
    return (x * gates).sum(0), gates


def results(compute, fusion, x):
    fused, gates = compute(x)
    inputs = (x, *fusion.parameters())
    return fused, gates, *torch.autograd.grad(fused.sin().sum() + gates.cos().sum(), inputs)


@pytest.mark.parametrize("dtype, bound", [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_is_the_definition(dtype, bound):
    fusion, x = gated_sum(dtype), branches(dtype)
    expected = results(lambda x: defined(fusion, x), fusion, x)
    for got, want in zip(results(lambda x: fusion(x, x, x), fusion, x), expected, strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=bound)


def test_gradient_is_that_of_finite_differences():
    fusion = gated_sum()
    inputs = (branches(), fusion.squeeze.weight, fusion.expand.weight)
    assert torch.autograd.gradcheck(
        lambda x, *weights: fusion(x, x, x), inputs, check_undefined_grad=True
    )


def test_compiled():
    """In one graph, which holds for other lengths as well."""
    fusion = gated_sum()
    compiled = torch.compile(fusion, backend="aot_eager", fullgraph=True, dynamic=True)
    for n in (N, N + 3):
        x = torch.randn(L, n, B, D, dtype=torch.float64, requires_grad=True)
        expected = results(lambda x: defined(fusion, x), fusion, x)
        for got, want in zip(
            results(lambda x: compiled(x, x, x), fusion, x), expected, strict=True
        ):
            torch.testing.assert_close(got, want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("register", ["register_forward_hook", "register_forward_pre_hook"])
@pytest.mark.parametrize("name", ["squeeze", "expand"])
def test_who_listens_to_a_layer_is_called(name, register):
    fusion, x = gated_sum(), branches()
    called = []
    handle = getattr(getattr(fusion, name), register)(lambda *told: called.append(1))
    torch.testing.assert_close(fusion(x, x, x)[0], defined(fusion, x)[0])
    assert called == [1]
    handle.remove()
    fusion(x, x, x)
    assert called == [1]


class Adapted(nn.Linear):
    """A layer with something besides its weights, as adapters and quantisers make them."""

    def forward(self, x):
        return super().forward(x) + 1


def test_a_layer_that_is_more_than_its_weights_is_asked():
    fusion, x = gated_sum(), branches()
    plain = fusion(x, x, x)[1]
    adapted = Adapted(D // 4, D, bias=False, dtype=torch.float64)
    adapted.load_state_dict(fusion.expand.state_dict())
    fusion.expand = adapted
    torch.testing.assert_close(fusion(x, x, x)[1].logit(), plain.logit() + 1)
