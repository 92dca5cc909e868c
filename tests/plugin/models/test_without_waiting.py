"""On a GPU, the host reads one number in a forward pass; for each it waits, and then the card does.

Tensors on the device ``meta`` have a shape and no numbers: ``.item()``, ``bool()``, ``nonzero()``,
``unique()`` and copies to the CPU raise.  Models take the way for GPUs there.
"""

from contextlib import nullcontext

import pytest
import torch
from models import CONFIGURATIONS, LANGUAGE_MODELS, build_language_model, build_tiny
from test_supervised import batch, criterion


@pytest.fixture(autouse=True)
def meta(monkeypatch):
    """torch knows no autocast without numbers."""
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind: False)
    monkeypatch.setattr(torch, "autocast", lambda *_, **settings: nullcontext())


def without_fairseqs_question(model):
    """Its decoder asks once in a forward pass whether there is padding, unless this is set."""
    model.decoder.cross_self_attention = True
    return model


RATES = {"dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1}


@pytest.mark.parametrize("name", [*CONFIGURATIONS, *LANGUAGE_MODELS])
def test_a_step_reads_nothing(name):
    model = (build_language_model if name in LANGUAGE_MODELS else build_tiny)(name, **RATES)
    words = torch.ones(3, 7, dtype=torch.long, device="meta")
    given = (words,) if name in LANGUAGE_MODELS else (words, None, words[:, :5])
    without_fairseqs_question(model).train().to("meta")(*given)[0].sum().backward()
    assert model.decoder.layers[0].fc1.weight.grad.is_meta


def test_the_losses_read_nothing():
    sample = batch()
    for part in (sample, sample["net_input"]):
        part.update({key: x.to("meta") for key, x in part.items() if torch.is_tensor(x)})
    model = without_fairseqs_question(build_tiny("hysan-gated", **RATES)).train().to("meta")
    loss, _, logged = criterion()(model, sample)
    loss.backward()
    assert logged["attention_loss"].is_meta and logged["supervised_sentences"].is_meta
