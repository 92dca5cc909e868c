"""Layers compiled one by one: no break, few graphs, and the outputs and gradients of all models."""

import copy

import pytest
import torch
from fairseq import checkpoint_utils
from models import CONFIGURATIONS, PAD, assert_all_close, build_tiny, check_incremental, gradients
from torch import nn
from torch._dynamo.utils import counters

from fairseq_hybrid_attn.models.transformer import compile_layers

#: Unlike all lengths below: a compiler takes equal sizes for one.
SIZES = {"encoder_embed_dim": 40, "encoder_ffn_embed_dim": 56, "activation_fn": "gelu"}
ONE = {"encoder_layers": 1, "decoder_layers": 1}
LENGTHS = [(7, 5), (12, 11), *((3 + 2 * n, 2 + n * 7 % 29) for n in range(14))]
FAST = "hysan-gated"
#: The layers of the others are those of one of these, or their parts are.
SLOW = CONFIGURATIONS.keys() - {FAST, "mma-nopos", "lstm-on-top-prenorm"}
SLOW -= {"future-only", "past-only", "gate-concat", "gate-local"}


def compiled(name, **settings):
    model = build_tiny(name, compile=True, **SIZES, **settings)
    compile_layers(model, backend="aot_eager", fullgraph=True)
    return model.train()


def words(b, n, *, left=None):
    """Random words; ``left``: of the first sentence, half is padding."""
    tokens = torch.randint(4, 16, (b, n))
    if left is not None:
        half = n // 2
        tokens[0, :half] = PAD if left else tokens[0, :half]
        tokens[0, half + 1 :] = tokens[0, half + 1 :] if left else PAD
    return tokens


@pytest.fixture(autouse=True)
def room():
    with torch._dynamo.config.patch(recompile_limit=64):
        yield
    counters.clear()


@pytest.mark.parametrize(
    "name", [FAST, *(pytest.param(name, marks=pytest.mark.slow) for name in sorted(SLOW))]
)
def test_any_length_in_few_graphs_with_the_same_outputs_and_gradients(name):
    own = {"localness_layers": "1"} if name in ("neighbor", "local-h", "local-s") else {}
    own |= {"hybrid_layers": "1"} if name.startswith("gate") else {}
    plain, other = build_tiny(name, **SIZES, **ONE, **own).train(), compiled(name, **ONE, **own)
    assert other.state_dict().keys() == plain.state_dict().keys()
    torch.manual_seed(0)
    counters.clear()
    for number, (n, m) in enumerate(LENGTHS):
        b = 2 + number % 5
        source = words(b, n, left=True if number % 2 else None)
        target = words(b, m, left=False if number % 3 else None)
        results = [model(source, None, target)[0] for model in (plain, other)]
        real = [result[target.ne(PAD)] for result in results]
        torch.testing.assert_close(*real, rtol=1e-5, atol=1e-5)
        if number in (0, 1, 9):
            sum(result.tanh().pow(2).sum() for result in real).backward()
            expected, found = gradients(plain), gradients(other)
            assert_all_close(found, expected, rtol=1e-5, atol=2e-5)
    assert counters["stats"]["unique_graphs"] <= 3 and not counters["graph_break"]


@pytest.mark.slow
def test_dropout_has_its_rate_and_scale():
    """Of outputs of an identity; two layers drop other elements."""
    model = compiled("hysan-gated", **ONE, dropout=0.25, attention_dropout=0.5)
    layer = model.encoder.layers[0]
    for linear in (layer.fc2, layer.self_attn.out_proj):
        nn.init.zeros_(linear.weight)
        nn.init.ones_(linear.bias)
    kept = []
    layer.self_attn_layer_norm.register_forward_pre_hook(lambda _, x: kept.append(x[0]))
    x = torch.zeros(50, 40, 40)
    for _ in range(2):
        layer(x, encoder_padding_mask=torch.zeros(40, 50).bool())
    for y in kept:
        assert ((y == 0) | ((y - 4 / 3).abs() < 1e-6)).all()
        assert abs((y == 0).float().mean() - 0.25) < 0.01
    assert not kept[0].equal(kept[1])


def test_what_is_not_training_runs_as_it_is(double_softmax):
    """Beam search; a layer that is hooked, as by supervised attention; copies."""
    model = compiled("hysan-gated", **ONE).eval().double()
    counters.clear()
    with torch.no_grad():
        check_incremental(model)
    layer, hooked = model.encoder.layers[0], []
    layer.register_forward_hook(lambda module, given, output: hooked.append(output))
    model.encoder(torch.tensor([[5, 6, 2]]))
    assert not counters["stats"] and hooked[0].requires_grad
    again = copy.deepcopy(model).train()
    assert all(layer._compiled_call_impl is None for layer in again.encoder.layers)


def test_a_checkpoint_does_not_ask_for_it(tmp_path):
    state = {
        "cfg": {"model": {"compile": True}, "task": {}},
        "model": {},
        "args": None,
        "optimizer_history": [{"num_updates": 1, "optimizer_name": "", "lr_scheduler_state": {}}],
        "last_optimizer_state": {},
        "extra_state": {"train_iterator": {"epoch": 1}},
    }
    path = str(tmp_path / "model.pt")
    torch.save(state, path)
    assert not checkpoint_utils.load_checkpoint_to_cpu(path)["cfg"]["model"]["compile"]
