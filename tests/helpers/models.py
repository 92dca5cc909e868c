"""Small models for the tests, built as fairseq builds them."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from fairseq.data import Dictionary
from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY, build_model
from fairseq.models.transformer import TransformerModelBase
from omegaconf import OmegaConf

import fairseq_hybrid_attn.models  # noqa: F401  (registers the architectures)
from fairseq_hybrid_attn.models.config import nested_config

_OURS = sorted(
    name
    for name, model in MODEL_REGISTRY.items()
    if model.__module__.startswith("fairseq_hybrid_attn")
)
#: Every architecture of this package that translates, and every language model.
ARCHITECTURES = [name for name in _OURS if issubclass(MODEL_REGISTRY[name], TransformerModelBase)]
LANGUAGE_MODELS = [name for name in _OURS if name not in ARCHITECTURES]
PAD, EOS = 1, 2

TINY = {
    "encoder_embed_dim": 16,
    "encoder_ffn_embed_dim": 32,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "squeeze_ratio": 4,
    "dropout": 0.0,
    "max_source_positions": 64,
    "max_target_positions": 64,
}

#: Likewise for language models, whose limits come from the task.
TINY_LM = {
    "decoder_embed_dim": 16,
    "decoder_input_dim": 16,
    "decoder_output_dim": 16,
    "decoder_ffn_embed_dim": 32,
    "decoder_layers": 2,
    "decoder_attention_heads": 4,
    "dropout": 0.0,
    "max_target_positions": 64,
    "tokens_per_sample": 64,
    "add_bos_token": False,
    "tpu": False,
}

PRENORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}

#: A ragged batch: sources, and targets as the decoder is fed them.
SENTENCES = [[5, 6, 7, 8, 9, 10, 11, 2], [2], [9, 4, 2], [12, 4, 4, 4, 5, 2]]
PREFIXES = [[2, 5, 6, 7], [2], [2, 11, 10], [2, 4, 4, 4, 5, 6]]

#: One or more configurations of every model, enough to reach each branch of the code.
CONFIGURATIONS = {
    "mma": ("transformer_mma", {}),
    "mma-nopos": ("transformer_mma", {"no_encoder_positions": True}),
    "mma-rotary": ("transformer_mma", {"relative_positions": "rotary"}),
    "hysan-gated": ("transformer_hysan", {}),
    "hysan-alibi": ("transformer_hysan", {"relative_positions": "alibi"}),
    "hysan-sum": ("transformer_hysan", {"branch_fusion": "sum"}),
    "hysan-concat": ("transformer_hysan", {"branch_fusion": "concat"}),
    "hysan-prenorm": ("transformer_hysan", PRENORM),
    "gate-hidden": ("transformer_hybrid_gate", {}),
    "gate-query": ("transformer_hybrid_gate", {"gate_input": "query"}),
    "gate-concat": ("transformer_hybrid_gate", {"hybrid_fusion": "concat"}),
    "gate-local": ("transformer_hybrid_gate", {"hybrid_fusion": "local"}),
    "neighbor": ("transformer_localness", {"localness": "neighbor"}),
    "local-h": ("transformer_localness", {"localness": "local-h"}),
    "local-s": ("transformer_localness", {"localness": "local-s"}),
    "past-only": ("transformer_forward_encoding_mask", {}),
    "future-only": ("transformer_backward_encoding_mask", {}),
    "lstm-on-top": ("transformer_lstm_on_top", {}),
    "lstm-on-top-prenorm": ("transformer_lstm_on_top", PRENORM),
}


def dictionary(symbols: int) -> Dictionary:
    """A dictionary of ``symbols`` words besides fairseq's four special ones."""
    words = Dictionary()
    for number in range(symbols):
        words.add_symbol(f"w{number}")
    return words


def task_of(symbols: int = 12, *, left_pad_source=True, limits=(64, 64)) -> SimpleNamespace:
    """As much of a translation task as models and sentences need, with one dictionary."""
    words = dictionary(symbols)
    return SimpleNamespace(
        source_dictionary=words,
        target_dictionary=words,
        cfg=SimpleNamespace(left_pad_source=left_pad_source),
        max_positions=lambda: limits,
    )


def build(arch: str, *, symbols: int = 12, **settings):
    """Build ``arch`` with shared dictionaries and the given settings, in evaluation mode."""
    config = MODEL_DATACLASS_REGISTRY[arch]
    known = {key: value for key, value in settings.items() if key in config.__dataclass_fields__}
    unknown = set(settings) - set(known) - set(TINY) - set(TINY_LM)
    if unknown:
        raise TypeError(f"{arch} has no {unknown}")
    cfg = OmegaConf.structured(config(**known))
    cfg._name = arch
    return build_model(cfg, task_of(symbols)).eval()


def build_tiny(name: str, **settings):
    """Build one of ``CONFIGURATIONS`` at a tiny size."""
    arch, own = CONFIGURATIONS[name]
    torch.manual_seed(0)
    return build(arch, **{**TINY, **own, **settings})


def build_language_model(arch: str, **settings):
    """Build a language model, ours or fairseq's, at a tiny size and in evaluation mode."""
    torch.manual_seed(0)
    return build(arch, **{**TINY_LM, **settings})


def build_stock(**settings):
    """Build fairseq's own Transformer at the same tiny size."""
    known = {key: value for key, value in TINY.items() if key != "squeeze_ratio"}
    cfg = MODEL_DATACLASS_REGISTRY["transformer_mma"](**{**known, **settings})
    torch.manual_seed(0)
    cfg = nested_config(OmegaConf.structured(cfg))
    return TransformerModelBase.build_model(cfg, task_of()).eval()


def logits(model, sources, prefixes, *, left: bool = True) -> torch.Tensor:
    """The model's output for a batch; sources are padded on the left, or on the right."""
    src = pad(sources, PAD, left=left)
    return model(src, src.ne(PAD).sum(1), pad(prefixes, PAD, left=False))[0]


def check_incremental(model, steps: int = 9) -> None:
    """Check that decoding step by step gives the logits of the same prefixes at once.

    Random hypotheses are extended, and reordered at each step as a beam search does.
    """
    generator = torch.Generator().manual_seed(1)
    beam, sources = 4, pad([[5, 6, 7, 8, 2], [9, 2], [4, 11, 2]], PAD, left=True)
    order = torch.arange(3).repeat_interleave(beam)
    encoder_out = model.encoder.reorder_encoder_out(model.encoder(sources), order)
    prefixes, state = torch.full((3 * beam, 1), EOS), {}
    for _ in range(steps):
        step = model.decoder(prefixes, encoder_out=encoder_out, incremental_state=state)[0]
        whole = model.decoder(prefixes, encoder_out=encoder_out)[0]
        torch.testing.assert_close(step[:, -1], whole[:, -1], rtol=0, atol=1e-10)
        # Within each sentence, hypotheses survive, multiply or die.
        new = torch.randint(beam, (3, beam), generator=generator)
        new = (new + beam * torch.arange(3).unsqueeze(1)).view(-1)
        words = torch.randint(4, 16, (3 * beam, 1), generator=generator)
        prefixes = torch.cat([prefixes[new], words], dim=1)
        model.decoder.reorder_incremental_state_scripting(state, new)


def gradients(model) -> dict[str, torch.Tensor]:
    """The gradients of a model's parameters by name; they are cleared in the model."""
    found = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad()
    return found


def assert_all_close(found: dict, expected: dict, **tolerance) -> None:
    """Check that two dictionaries of tensors agree, naming the one that does not."""
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(
            found[name], tensor, **tolerance, msg=lambda m, n=name: f"{n}: {m}"
        )


def pad(sentences: list[list[int]], padding: int, *, left: bool) -> torch.Tensor:
    """Sentences as one tensor ``[b, n]``, padded on one side."""
    longest = max(map(len, sentences))
    rows = []
    for sentence in sentences:
        fill = [padding] * (longest - len(sentence))
        rows.append(fill + sentence if left else sentence + fill)
    return torch.tensor(rows)


def parameters(model) -> int:
    """Number of parameters, shared ones counted once."""
    return sum(parameter.numel() for parameter in model.parameters())
