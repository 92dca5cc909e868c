"""Observe a model's attention while the model is forced to decode a given translation.

Any encoder-decoder of fairseq works, from this package or from fairseq.  A model whose encoder or
decoder has no attention modules (LSTM, convolutional) gives what it has: the cross-attention that
its decoder returns, as one layer with one head.

Shape letters: l branches, h heads, n queries, m keys, d the model's width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor

from ...attention import AttentionRecord, PatternedAttention
from ...attention.fusion import GateKind
from ...errors import UserError
from ...models.transformer import PatternedTransformer
from ...patterns import FUTURE, GLOBAL, PAST, Pattern, local, local_past
from ...vocabulary import Vocabulary
from . import CROSS, DECODER, ENCODER, KINDS

#: The modules that can be recorded.
Attention: TypeAlias = PatternedAttention | MultiheadAttention

#: For attention that no paper here names.
_PLAIN: Vocabulary = {
    "global": GLOBAL,
    "past": PAST,
    "future": FUTURE,
    "localK": local,
    "local-pastK": local_past,
}

_ATTRIBUTES = {ENCODER: "self_attn", DECODER: "self_attn", CROSS: "encoder_attn"}


@dataclass(frozen=True)
class Layer:
    kind: str
    number: int  # 1 = the lowest
    heads: tuple[tuple[str, ...], ...]  # the paper's word for each head's pattern, [l][h]
    patterns: tuple[tuple[Pattern, ...], ...]  # the patterns themselves, [l][h]
    gate: GateKind | None  # what its fusion says that its gates are

    @property
    def branches(self) -> tuple[str, ...]:
        """The word for each branch, ``mixed heads`` if its heads differ; numbered if alike."""
        words = [branch[0] if len(set(branch)) == 1 else "mixed heads" for branch in self.heads]
        return tuple(
            f"{number} · {word}" if words.count(word) > 1 else word
            for number, word in enumerate(words, start=1)
        )

    def gates(self, seen: LayerAttention) -> dict[int, Tensor]:
        """The gates of each branch that has some, by its number: ``[h, n]``, or ``[1, n]``."""
        if self.gate is None or seen.gates is None:
            return {}
        values = (seen.gates if self.gate.branch is None else seen.gates[None]).double()
        if not self.gate.of_heads:
            values = values.mean(-1, keepdim=True)
        branches = range(len(values)) if self.gate.branch is None else [self.gate.branch]
        return dict(zip(branches, values.mT, strict=True))

    def allowed(self, queries: int, keys: int) -> Tensor:
        """Which keys each head may attend to, bool ``[l, h, n, m]``."""
        masks = {
            # Only cross-attention, which is global, has other numbers of queries and keys.
            pattern: torch.ones(queries, keys, dtype=torch.bool)
            if pattern == GLOBAL
            else pattern.mask(queries, keys)
            for branch in self.patterns
            for pattern in branch
        }
        return torch.stack([torch.stack([masks[p] for p in branch]) for branch in self.patterns])


@dataclass(frozen=True)
class LayerAttention:
    """What an attention did with a sentence; in single precision, on the CPU, without padding."""

    weights: Tensor  # [l, h, n, m]; a row sums to 1, or is 0 where no key is allowed
    gates: Tensor | None = None  # [l, n, w] if each branch has gates, or else [n, w]


#: What each layer did with a sentence, the lowest first, by kind.  Queries and keys are the
#: subwords and, last, the end symbol.  In the decoder's self-attention they are what it reads: the
#: start symbol (fairseq's end symbol), then the subwords.  A query of cross-attention is the piece
#: that is predicted.
SentenceAttention = dict[str, list[LayerAttention]]


class Attentions:
    """The attention modules of a model.

    ``full_context`` lets the decoder see the whole target (Garg et al. 2019), for a model that was
    trained to align this way.
    """

    def __init__(self, model: Any, kinds: Sequence[str] = KINDS, *, full_context: bool = False):
        if not (hasattr(model, "encoder") and hasattr(model, "decoder")):
            raise UserError(
                f"the model is a {type(model).__name__}, not an encoder-decoder; only models that "
                "translate can be analysed"
            )
        self.model = model
        self.kinds = tuple(kinds)
        self.full_context = full_context
        # Of each kind that has some, the lowest layer first.
        self.modules = {k: modules for k in kinds if (modules := _modules(model, k))}

    @cached_property
    def layers(self) -> dict[str, list[Layer]]:
        """The layers of each kind that has attention modules.

        A decoder without such modules may return its cross-attention: one layer with one head.
        """
        described = {
            kind: [
                Layer(
                    kind=kind,
                    number=number,
                    heads=_head_words(self.model, kind, module),
                    patterns=_patterns(kind, module),
                    gate=getattr(getattr(module, "fusion", None), "gate_kind", None),
                )
                for number, module in enumerate(modules, start=1)
            ]
            for kind, modules in self.modules.items()
        }
        if CROSS in self.kinds:
            described.setdefault(CROSS, [Layer(CROSS, 1, (("global",),), ((GLOBAL,),), None)])
        return described

    def missing(self) -> dict[str, str]:
        reasons = {}
        for kind in self.kinds:
            if kind in self.layers:
                continue
            side = self.model.encoder if kind == ENCODER else self.model.decoder
            reasons[kind] = f"{type(side).__name__} has no self-attention modules"
            if getattr(side, "cross_self_attention", False):
                reasons[kind] = "the decoder's self-attention attends to the source as well"
        return reasons

    @torch.no_grad()
    def observe(self, sample: dict) -> list[SentenceAttention]:
        """Observe each sentence of a batch; kinds that the model does not have are left out.

        The target of ``sample`` is padded on the right.
        """
        model, inputs = self.model, sample["net_input"]
        source = inputs["src_tokens"]
        with _recorded([m for modules in self.modules.values() for m in modules]) as records:
            encoder_out = model.encoder(source, src_lengths=inputs["src_lengths"])
            if {DECODER, CROSS} & set(self.kinds):
                output = _decode(
                    model, inputs["prev_output_tokens"], encoder_out, self.full_context
                )
        batches = {k: [_seen(records[m]) for m in modules] for k, modules in self.modules.items()}
        if CROSS in self.kinds and CROSS not in batches:
            returned = _returned(output)
            if returned is not None:
                batches[CROSS] = [LayerAttention(weights=returned.float().cpu()[None, :, None])]

        columns = _source_columns(model, encoder_out, source).cpu()
        rows = sample["target"].ne(model.decoder.dictionary.pad()).cpu()
        sides = {ENCODER: (columns, columns), DECODER: (rows, rows), CROSS: (rows, columns)}
        return [
            {
                kind: [
                    _of_sentence(batch, number, *sides[kind], layer)
                    for batch, layer in zip(layers, self.layers[kind], strict=True)
                ]
                for kind, layers in batches.items()
            }
            for number in range(len(source))
        ]


@contextmanager
def _recorded(modules: Sequence[Attention]) -> Iterator[dict[Attention, AttentionRecord]]:
    """What each of these modules computes while the block runs.

    The modules themselves are recorded, so ``need_attn``, normalisation or activation checkpointing
    in the layers around them do not matter.
    """
    records: dict[Attention, AttentionRecord] = {}
    with ExitStack() as stack:
        for module in modules:
            is_ours = isinstance(module, PatternedAttention)
            record = module.recorded_by if is_ours else partial(_stock_recorded_by, module)
            stack.enter_context(record(partial(records.__setitem__, module)))
        yield records


@contextmanager
def _stock_recorded_by(
    attention: MultiheadAttention, listener: Callable[[AttentionRecord], None]
) -> Iterator[None]:
    """Make fairseq's own attention return the weights of its heads, and pass them on.

    With ``skip_embed_dim_check``, the module takes the softmax itself.  PyTorch's function for
    all of attention would return the mean over the heads.
    """

    def ask(module, args, kwargs):
        return args, {**kwargs, "need_weights": True, "need_head_weights": True}

    def take(module, args, returned):
        output, weights = returned  # weights [h, b, n, m]
        weights = weights.transpose(0, 1)[None]
        listener(AttentionRecord(weights=weights, branches=None, gates=None, output=output))

    before = attention.skip_embed_dim_check
    attention.skip_embed_dim_check = True
    hooks = (
        attention.register_forward_pre_hook(ask, with_kwargs=True),
        attention.register_forward_hook(take),
    )
    try:
        yield
    finally:
        attention.skip_embed_dim_check = before
        for hook in hooks:
            hook.remove()


def _modules(model: Any, kind: str) -> list[Attention]:
    side = model.encoder if kind == ENCODER else model.decoder
    if kind == DECODER and getattr(side, "cross_self_attention", False):
        return []  # its keys are those of both sides
    modules = [getattr(layer, _ATTRIBUTES[kind], None) for layer in getattr(side, "layers", ())]
    return [module for module in modules if isinstance(module, Attention)]


def _seen(record: AttentionRecord) -> LayerAttention:
    """What was recorded of a batch: weights ``[l, b, h, n, m]``, gates as in its fusion."""
    gates = None if record.gates is None else record.gates.float().cpu()
    assert record.weights is not None  # they were asked for
    return LayerAttention(weights=record.weights.float().cpu(), gates=gates)


def _of_sentence(
    batch: LayerAttention, number: int, queries: Tensor, keys: Tensor, layer: Layer
) -> LayerAttention:
    """One sentence of a batch without padding, where ``queries`` or ``keys [b, …]`` are False."""
    rows, columns = queries[number], keys[number]
    weights = batch.weights[:, number][:, :, rows][..., columns]
    expected = layer.allowed(*weights.shape[-2:]).any(-1).float()
    if not (weights.sum(-1) - expected).abs().le(1e-2).all():  # false for NaN as well
        raise UserError(
            "the attention that this model returns does not add up to 1 over the sentence"
        )
    gates = None
    if layer.gate:
        gates = _checked_gates(batch, layer, layer.gate).select(-2, number)[..., rows, :]
        if not gates.isfinite().all():
            raise UserError(
                "gates of this model are not finite: it has diverged, or half precision is too "
                "narrow for it"
            )
    return LayerAttention(weights=weights, gates=gates)


def _checked_gates(batch: LayerAttention, layer: Layer, kind: GateKind) -> Tensor:
    """The gates of a batch; refuse those that are not of the shape that their fusion says."""
    l, b, h, n, _ = batch.weights.shape  # noqa: E741
    where = f"{layer.kind} layer {layer.number}: its fusion's gate_kind is {kind.name}"
    if kind.branch not in (None, *range(l)):
        raise UserError(
            f"{where}, of branch {kind.branch}; this layer has the branches 0 to {l - 1}"
        )
    expected = [l, n, b] if kind.branch is None else [n, b]
    shape = [] if batch.gates is None else list(batch.gates.shape)
    if batch.gates is None or shape[:-1] != expected or (kind.of_heads and shape[-1] not in (1, h)):
        last = f"1 or {h}" if kind.of_heads else "any"
        raise UserError(
            f"{where}, so that forward() must return gates of shape {[*expected, last]}, "
            f"not {shape or None}"
        )
    return batch.gates


def _decode(model, previous: Tensor, encoder_out, full_context: bool):
    settings = {"encoder_out": encoder_out}
    if full_context:
        settings["full_context_alignment"] = True
    try:
        try:
            return model.decoder.extract_features(previous, **settings)
        except NotImplementedError:  # it can only return vocabulary scores too
            return model.decoder(previous, **settings)
    except TypeError as error:
        if full_context and "full_context_alignment" in str(error):
            raise UserError("--full-context: this model's decoder cannot do that") from None
        raise


def _returned(output) -> Tensor | None:
    """The attention ``[b, t, s]`` in what a decoder returns, as fairseq's generator finds it."""
    extra = output[1] if len(output) > 1 else None
    if isinstance(extra, dict):
        extra = extra.get("attn")
    if isinstance(extra, (list, tuple)):
        extra = extra[0] if extra else None
    return extra


def _source_columns(model, encoder_out, source: Tensor) -> Tensor:
    """Which columns of the attention are source pieces, bool ``[b, s]``."""
    if isinstance(encoder_out, (tuple, list)):
        # fairseq's LSTM encoder moves left padding to the right; it returns its mask [s, b].
        return ~encoder_out[3].t().bool()
    return source.ne(model.encoder.dictionary.pad())


def _head_words(model: Any, kind: str, attention: Attention) -> tuple[tuple[str, ...], ...]:
    """The word for the pattern of every head, ``[branches][heads]``."""
    if isinstance(attention, PatternedAttention) and attention.bias is not None:
        return ((getattr(attention.bias, "word", "biased"),) * attention.num_heads,)
    words = _PLAIN
    if isinstance(model, PatternedTransformer) and kind != CROSS:
        own = model.vocabulary(model.cfg, kind)
        words = {**own, **{word: meaning for word, meaning in _PLAIN.items() if word not in own}}
    patterns = _patterns(kind, attention)
    return tuple(tuple(word_of(pattern, words) for pattern in heads) for heads in patterns)


def _patterns(kind: str, attention: Attention) -> tuple[tuple[Pattern, ...], ...]:
    """The pattern of every head, ``[branches][heads]``; fairseq's own decoder sees the past."""
    heads = attention.num_heads
    if isinstance(attention, PatternedAttention):
        return tuple(tuple(branch) * (heads // len(branch)) for branch in attention.branches)
    return ((PAST if kind == DECODER else GLOBAL,) * heads,)


def word_of(pattern: Pattern, words: Vocabulary) -> str:
    """The word for a pattern, or for its family with a number; its ``repr`` if it has none."""
    for word, meaning in words.items():
        if meaning == pattern:
            return word
    for word, family in words.items():
        if not callable(family):
            continue
        # The family may have been called with one of the whole numbers in the pattern.
        for number in vars(pattern).values():
            with suppress(ValueError):  # not a number of this family
                if isinstance(number, int) and family(number) == pattern:
                    return word.removesuffix("K") + str(number)
    return repr(pattern)
