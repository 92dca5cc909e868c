"""The fused label-smoothed cross-entropy is fairseq's: loss, gradient and log, in less memory."""

from types import SimpleNamespace

import every_model
import pytest
import torch
from every_model import sample
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from models import PAD, assert_all_close, build_stock, build_tiny, dictionary, gradients

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.criterions import cross_entropy
from fairseq_hybrid_attn.criterions.cross_entropy import (
    FusedLabelSmoothedCrossEntropy,
    SmoothedCrossEntropy,
    ends_in_softmax,
)


def both(**settings):
    """fairseq's criterion and ours."""
    task = SimpleNamespace(target_dictionary=dictionary(12))
    theirs = {name: value for name, value in settings.items() if name != "autocast_bf16"}
    yield LabelSmoothedCrossEntropyCriterion(task, False, 0.1, **theirs)
    yield FusedLabelSmoothedCrossEntropy(task, False, 0.1, **settings)


def batch():
    found = sample()
    return {**found, "ntokens": int(found["target"].ne(PAD).sum())}


@pytest.mark.parametrize("name", ["stock", "stock-checkpointed", "hysan", "mma", "lstm", "fconv"])
def test_loss_gradient_and_log_are_those_of_fairseq(name, monkeypatch):
    """In several blocks, for any scale of the loss, and for each token by itself."""
    monkeypatch.setitem(cross_entropy._BLOCK, "cpu", 3 * 16)
    model = every_model.build(name)
    assert ends_in_softmax(model)
    for settings in ({}, {"ignore_prefix_size": 2, "report_accuracy": True}):
        for reduce, scale in ((True, 1), (True, 128), (False, 1)):
            results = []
            for criterion in both(**settings):
                loss, size, log = criterion(model, batch(), reduce)
                (loss.sum() * scale).backward()
                results.append(({"loss": loss, **gradients(model)}, size, log))
            (expected, size, log), (found, found_size, found_log) = results
            assert_all_close(found, expected, rtol=1e-6, atol=1e-6 * scale)
            assert found_size == size and found_log.keys() == log.keys()
            for key, value in log.items():
                torch.testing.assert_close(found_log[key], value, rtol=1e-6, atol=0)


def test_both_losses_have_gradients():
    """Each alone and mixed, also where they cancel each other in part, and per token."""
    tokens = torch.randn(4, 1, generator=torch.Generator().manual_seed(1))
    for of_loss, of_nll in ((1, 1), (0, 1), (1, -1), (0.3, -2.0), (tokens, 1 - tokens)):
        results = []
        for criterion in both():
            logits = torch.randn(2, 2, 16, generator=torch.Generator().manual_seed(2))
            logits.requires_grad_()
            target = {"target": torch.tensor([[5, 6], [7, PAD]])}
            losses = criterion.compute_loss(build_stock(), (logits * 1, None), target, reduce=False)
            loss, nll = (x.view(-1, 1) for x in losses)
            (of_loss * loss + of_nll * nll).sum().backward()
            results.append(logits.grad)
        torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-6)
        assert results[0].any() and not results[1][1, 1].any()


def test_gradient_of_large_logits():
    """Against double precision; padding has a gradient of exactly 0."""
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(4, 700, (50,), generator=generator)
    target[::7] = PAD
    for dtype, tolerance in ((torch.float32, 1e-6), (torch.bfloat16, 4e-3), (torch.float16, 5e-4)):
        logits = (20 * torch.randn(50, 700, generator=generator)).to(dtype)
        exact, ours = logits.double().requires_grad_(), logits.requires_grad_()
        logs = torch.log_softmax(exact, dim=1)
        nll, smooth = -logs.gather(1, target.unsqueeze(1))[:, 0], -logs.sum(dim=1)
        loss = ((0.9 - 0.1 / 699) * nll + 0.1 / 699 * smooth)[target != PAD].sum()
        losses, _ = SmoothedCrossEntropy.apply(ours * 1, target, 0.1, PAD)
        torch.testing.assert_close(losses.sum().double(), loss, rtol=1e-6, atol=0)
        (128 * loss).backward()
        (128 * losses.sum()).backward()
        torch.testing.assert_close(ours.grad.double(), exact.grad, rtol=tolerance, atol=1e-6 * 128)
        assert not ours.grad[::7].any()


def test_evaluation_and_other_probabilities_are_left_to_fairseq():
    model = build_stock()
    stock, ours = both()
    with torch.no_grad():
        assert ours(model, batch())[0].equal(stock(model, batch())[0])
        output = model(**batch()["net_input"])
        logits = output[0].clone()
        ours.compute_loss(model, output, batch())
        assert output[0].equal(logits)
    adaptive = build_stock(adaptive_softmax_cutoff=[8, 12], share_decoder_input_output_embed=False)
    own = build_stock()
    own.get_normalized_probs = lambda net_output, log_probs: -net_output[0].exp()
    assert not ends_in_softmax(own)
    assert ours(own, batch())[0].equal(stock(own, batch())[0])
    # Its probabilities have no gradient.
    with pytest.raises(UserError, match="--criterion adaptive_loss"):
        ours(adaptive, batch())


def test_nothing_of_the_size_of_the_logits_is_kept():
    """Stock keeps the log-probabilities, and makes their gradient beside that of the logits."""
    peaks = {}
    for criterion in both():
        features = torch.randn(1, 512, 8, requires_grad=True)
        weight = torch.randn(4000, 8, requires_grad=True)
        model = build_stock()
        kept = []

        def pack(tensor, kept=kept):
            kept.append((tensor.untyped_storage().data_ptr(), tensor.numel()))
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            output = torch.nn.functional.linear(features, weight)
            target = {"target": torch.randint(4, 4000, (1, 512))}
            criterion.compute_loss(model, (output, None), target)
        large = {storage for storage, numbers in kept if numbers >= 512 * 4000}
        peaks[type(criterion)] = len(large - {output.untyped_storage().data_ptr()})
    assert list(peaks.values()) == [1, 0]


def test_gradient_penalties_are_refused():
    """PyTorch would silently leave them out."""
    model = build_stock()
    loss, _, _ = list(both())[1](model, batch())
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(loss, list(model.parameters()), create_graph=True)


def test_bfloat16_on_a_cpu(monkeypatch):
    """Near single precision for every model, with gradients in single precision."""
    monkeypatch.setattr(cross_entropy, "has_bfloat16", lambda kind: True)
    (_, exact), (_, ours) = both(), both(autocast_bf16=True)
    for model in (*map(every_model.build, every_model.MODELS), build_tiny("local-s")):
        if any(hasattr(module, "precheckpoint_forward") for module in model.modules()):
            with pytest.raises(UserError, match="--checkpoint-activations computes layers again"):
                ours(model, batch())
            continue
        losses, grads = [], []
        for criterion in (exact, ours):
            loss, _, _ = criterion(model, batch())
            loss.backward()
            losses.append(loss)
            found = gradients(model).values()
            grads.append(torch.cat([gradient.flatten() for gradient in found]))
        assert grads[1].dtype == torch.float32 and not losses[0].equal(losses[1])
        torch.testing.assert_close(losses[1], losses[0], rtol=0.005, atol=0)
        assert (grads[1] - grads[0]).norm() < 0.05 * grads[0].norm(), type(model)
        with torch.no_grad():
            assert ours(model, batch())[0].equal(exact(model, batch())[0])
    monkeypatch.setattr(cross_entropy, "has_bfloat16", lambda kind: False)
    (_, ours), model = both(autocast_bf16=True), build_stock()
    with torch.no_grad():
        ours(model, batch())  # validation, with the settings of a checkpoint
    with pytest.raises(UserError, match="no bfloat16 instructions"):
        ours(model, batch())
