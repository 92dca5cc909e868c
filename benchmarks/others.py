"""A training step of other toolkits, and of ours, over stock fairseq's, at Transformer-Tiny's size.

In bfloat16, ours have --autocast-bf16, the others torch's autocast.  Torch's flash attention is
slow at 25 tokens, so they are timed without it, too.  A toolkit that cannot be imported is left out
(all: pip install transformers joeynmt).

All share embeddings and output layer, and have sinusoidal positions, layer norms behind sublayers,
ReLU, masks of padding, and dropout of embeddings and of the outputs of sublayers, nowhere else.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import torch
from fairseq.modules import SinusoidalPositionalEmbedding
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy, dropout, linear

from . import systems
from .common import CHOSEN, VANILLA, VANILLA_BF16, Settings, compare

#: The most tokens of a sentence.
LONGEST = 1024

#: A model, and what computes the mean loss of a batch.
Made = tuple[nn.Module, Callable[[dict], torch.Tensor]]


def torch_transformer(size: Settings, words) -> Made:
    """torch's own."""
    stacks = (size.width, size.heads, size.layers, size.layers, size.ffn)
    model = nn.Transformer(*stacks, dropout=0.1, batch_first=True)
    for layer in (*model.encoder.layers, *model.decoder.layers):
        layer.self_attn.dropout = layer.dropout.p = 0.0  # of weights; within the feed-forward layer
        getattr(layer, "multihead_attn", layer.self_attn).dropout = 0.0
    model.embedding = nn.Embedding(len(words), size.width, words.pad())
    nn.init.normal_(model.embedding.weight, std=size.width**-0.5)
    table = SinusoidalPositionalEmbedding.get_embedding(LONGEST, size.width)
    model.register_buffer("positions", table)
    model.register_buffer("future", torch.ones(LONGEST, LONGEST, dtype=torch.bool).triu(1))

    def embed(tokens):
        embedded = model.embedding(tokens) * math.sqrt(size.width)
        return dropout(embedded + model.positions[: tokens.size(1)], 0.1)

    def loss(sample):
        source, previous, target = _tensors(sample)
        n, padding = previous.size(1), source.eq(words.pad())
        masks = (None, model.future[:n, :n], None, padding, previous.eq(words.pad()), padding)
        # Said, since torch would look at the mask, which waits for a GPU.
        states = model(embed(source), embed(previous), *masks, None, True)
        return _cross_entropy(linear(states, model.embedding.weight), target, words)

    return model, loss


def marian(size: Settings, words) -> Made:
    """Hugging Face's, with torch's loss, which takes less time than that of its Trainer."""
    from transformers import MarianConfig, MarianMTModel

    stack = {"layers": size.layers, "ffn_dim": size.ffn, "attention_heads": size.heads}
    config = {f"{part}_{key}": n for part in ("encoder", "decoder") for key, n in stack.items()}
    config |= {"vocab_size": len(words), "d_model": size.width, "scale_embedding": True}
    config |= {"pad_token_id": words.pad(), "decoder_start_token_id": words.eos()}
    model = MarianMTModel(MarianConfig(**config, activation_function="relu", use_cache=False))

    def loss(sample):
        source, previous, target = _tensors(sample)
        logits = model(source, source.ne(words.pad()), previous, previous.ne(words.pad())).logits
        return _cross_entropy(logits, target, words)

    return model, loss


def _tensors(sample):
    inputs = sample["net_input"]
    return inputs["src_tokens"], inputs["prev_output_tokens"], sample["target"]


def _cross_entropy(logits, target, words):
    logits, target = logits.flatten(0, 1), target.flatten()
    return cross_entropy(logits, target, ignore_index=words.pad(), label_smoothing=0.1)


def joeynmt(size: Settings, words) -> Made:
    """Joey NMT's, with its own loss, which also counts correct tokens."""
    from joeynmt.config import _check_special_symbols
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    stack = {"num_layers": size.layers, "num_heads": size.heads, "ff_size": size.ffn}
    stack |= {"type": "transformer", "hidden_size": size.width, "layer_norm": "post"}
    stack |= {"embeddings": {"embedding_dim": size.width, "scale": True}, "dropout": 0.1}
    config = {"encoder": stack, "decoder": stack, "tied_embeddings": True, "tied_softmax": True}
    special = SimpleNamespace(**_check_special_symbols({}))  # padding is 1, as in fairseq
    vocabulary = Vocabulary(words.symbols[words.nspecial :], special)
    model = build_model(config, vocabulary, vocabulary)
    model.loss_function = ("crossentropy", 0.1)
    for name, module in model.named_modules():
        if name.endswith(("att.dropout", "pwff_layer.2")):
            module.p = 0.0

    def loss(sample):
        source, previous, target = _tensors(sample)
        batch = {"src": source, "src_length": None, "trg_input": previous, "trg": target}
        masks = {
            f"{side}_mask": batch[side].ne(words.pad()).unsqueeze(1) for side in ("src", "trg")
        }
        return model("loss", **batch, **masks)[0] / masks["trg_mask"].sum()

    return model, loss


def toolkit(make: Callable[..., Made], words, settings: Settings) -> systems.TrainingStep:
    """A training step of another toolkit."""
    torch.manual_seed(0)
    model, loss = make(settings, words)
    size = replace(settings, dtype="fp32") if settings.dtype == "bf16" else settings
    autocast = torch.autocast(settings.device, torch.bfloat16, enabled=settings.dtype == "bf16")
    batch = systems.batch(words, settings)
    model = model.to(**size.like).train()
    return systems.TrainingStep(model, autocast(loss), batch, settings.dtype)


def _without_flash(make, words, settings: Settings) -> systems.TrainingStep:
    step = make(words, settings)
    step.loss = sdpa_kernel(SDPBackend.MATH)(step.loss)
    return step


SYSTEMS = {
    "fairseq": partial(systems.training_step, "global-heads", VANILLA_BF16),
    "torch.nn.Transformer": partial(toolkit, torch_transformer),
    "transformers' Marian": partial(toolkit, marian),
}
for name, make in tuple(SYSTEMS.items()):
    SYSTEMS[f"{name}, no flash attention"] = partial(_without_flash, make)
SYSTEMS["joeynmt"] = partial(toolkit, joeynmt)
for name in ("global-heads", "mma", "hybrid-gate", "hysan-e1"):
    SYSTEMS[f"ours, {systems.SYSTEMS[name][0]}"] = partial(systems.training_step, name, CHOSEN)


def run(settings: Settings) -> Iterator[dict]:
    """Time all that can be imported, in single precision as well; yield results."""
    words, steps = systems.dictionary(settings), {}
    for name, make in SYSTEMS.items():
        try:
            for dtype in sorted({"fp32", settings.dtype}, reverse=True):
                steps[name, dtype] = make(words, replace(settings, dtype=dtype))
        except (ImportError, OSError) as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    calls = {" in ".join(key): step for key, step in steps.items()}
    calls[VANILLA] = SYSTEMS["fairseq"](words, replace(settings, dtype="fp32"))
    _, results = compare(calls, settings)
    kind = {"benchmark": "others", "measure": "other toolkits"}
    for (name, dtype), step in steps.items():
        own = {"case": name, "candidate": dtype, "parameters": step.parameters}
        sizes = {"sentences": settings.sentences, "queries": settings.length}
        yield {**kind, **own, **sizes, **results[f"{name} in {dtype}"]}
