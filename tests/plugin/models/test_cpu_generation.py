"""Translation with ``--cpu --bf16``: bfloat16 in products of matrices, not in scores."""

import copy
from types import SimpleNamespace

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from models import PAD, SENTENCES, build_tiny, pad

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.models import transformer


def prepared(name: str, bf16: bool):
    """A model as fairseq-generate prepares it, with sharp probabilities."""
    model = build_tiny(name)
    model.decoder.output_projection.weight.data.mul_(2)
    generation = SimpleNamespace(beam=3, print_alignment=False)
    common = SimpleNamespace(cpu=True, bf16=bf16)
    model.prepare_for_inference_(SimpleNamespace(common=common, generation=generation))
    return model


def translations(model):
    """The hypotheses of all sentences."""
    generator = SequenceGenerator([model], model.decoder.dictionary, beam_size=3, max_len_b=12)
    source = pad(SENTENCES, PAD, left=True)
    sample = {"net_input": {"src_tokens": source, "src_lengths": source.ne(PAD).sum(1)}}
    return generator.generate([model], sample)


@pytest.mark.parametrize("name", ["mma", "hysan-gated", "gate-query", "local-s", "lstm-on-top"])
def test_scores_are_those_of_double_precision(name, monkeypatch):
    """Rescored, each hypothesis has its log-probabilities; the steps' own are not rounded."""
    monkeypatch.setattr(transformer, "has_bfloat16", lambda: True)
    found, exact = translations(prepared(name, True)), translations(prepared(name, False))
    rescore = build_tiny(name).double()
    rescore.decoder.output_projection.weight.data.mul_(2)
    scores, expected = [], []
    for sentence, beams in zip(SENTENCES, found, strict=True):
        for beam in beams:
            words = beam["tokens"]
            source, prefix = torch.tensor([sentence]), torch.tensor([[2, *words[:-1]]])
            logits, _ = rescore(source, torch.tensor([len(sentence)]), prefix)
            likelihood = logits[0].log_softmax(-1).gather(1, words[:, None])[:, 0]
            torch.testing.assert_close(beam["score"].double(), likelihood.mean(), rtol=0, atol=2e-2)
            scores.append(beam["positional_scores"])
            expected.append(likelihood)
    scores, expected = torch.cat(scores), torch.cat(expected)
    assert scores.dtype == torch.float32 and not scores.equal(scores.bfloat16().float())
    torch.testing.assert_close(scores.double(), expected, rtol=0, atol=5e-2)
    assert not torch.is_autocast_enabled("cpu")
    assert any(
        beam["score"] != other["score"]
        for beams, others in zip(found, exact, strict=True)
        for beam, other in zip(beams, others, strict=True)
    )


def test_a_copy_has_weights_of_its_own(monkeypatch):
    monkeypatch.setattr(transformer, "has_bfloat16", lambda: True)
    model = prepared("hysan-gated", True)
    other = copy.deepcopy(model)
    for weight in other.encoder.parameters():
        weight.data.zero_()
    source = torch.tensor(SENTENCES[:1])
    one, two = (some.encoder(source)["encoder_out"][0] for some in (model, other))
    assert one.any() and not two.any()


def test_a_cpu_without_the_instructions_is_refused(monkeypatch):
    monkeypatch.setattr(transformer, "has_bfloat16", lambda: False)
    prepared("mma", False)
    with pytest.raises(UserError, match="no bfloat16 instructions.*omit --bf16"):
        prepared("mma", True)
