"""Attention maps: who attends to whom in a sentence, between subwords or words.

Words are merged from subwords as for alignment: attention is summed over the pieces of a key word
and averaged over those of a query word, so that rows still add up to 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..corpora.words import Words, text_of, word_attention, words_of
from ..models import CROSS, DECODER, ENCODER
from ..models.attentions import Attentions, Layer, SentenceAttention
from ..models.on_text import ModelOnText
from . import UNITS

#: How the end symbol is shown, and what the decoder reads first.
END, START = "</s>", "<s>"

#: From the weights of a layer, and what it allows, to what JSON has of them.
WeightsForm = Callable[[np.ndarray, np.ndarray], object]


def rounded(numbers: np.ndarray, allowed: np.ndarray | None = None) -> list:
    """A :data:`WeightsForm` of lists, ``[branches][heads][queries][keys]``, to 6 digits."""
    return numbers.astype(float).round(6).tolist()


@dataclass(frozen=True)
class Map:
    """The attention of one kind in a sentence, from n queries to m keys, the lowest layer first.

    ``weights`` are ``[branches, heads, n, m]`` of each layer; ``allowed``, of the same shapes, is
    whether the pattern lets the query see the key.  ``gates`` are those of each layer's branches
    that have some, by the branch's number from 0: ``[heads, n]``, or ``[1, n]`` for all heads.
    """

    kind: str
    queries: list[str]
    keys: list[str]
    layers: list[Layer]
    weights: list[np.ndarray]
    allowed: list[np.ndarray]
    gates: list[dict[int, np.ndarray]]

    def merged(self, queries: Words, keys: Words, names: tuple[list[str], list[str]]) -> Map:
        """The map between groups of its tokens, called ``names``."""
        return Map(
            kind=self.kind,
            queries=names[0],
            keys=names[1],
            layers=self.layers,
            weights=[word_attention(weights, keys, queries) for weights in self.weights],
            allowed=[
                word_attention(allowed.astype(np.float32), keys, queries) > 0
                for allowed in self.allowed
            ],
            gates=[
                {
                    b: word_attention(of[..., None], [[0]], queries)[..., 0]
                    for b, of in gates.items()
                }
                for gates in self.gates
            ],
        )

    @property
    def branched(self) -> bool:
        return any(len(layer.heads) > 1 for layer in self.layers)

    def as_dict(self, form: WeightsForm) -> dict:
        layers = []
        numbers = zip(self.layers, self.weights, self.allowed, self.gates, strict=True)
        for layer, weights, allowed, gates in numbers:
            about = {"layer": layer.number, "branches": layer.branches, "heads": layer.heads}
            about["weights"] = form(weights, allowed)
            if layer.gate:
                about["gate"] = f"{layer.gate.name}: {layer.gate.meaning}"
                about["gates"] = [
                    rounded(gates[b]) if b in gates else None for b in range(len(layer.heads))
                ]
            layers.append(about)
        return {"queries": self.queries, "keys": self.keys, "layers": layers}


@dataclass(frozen=True)
class SentenceMaps:
    """All maps of a sentence, which counts from 0, by unit (of ``UNITS``), then by kind."""

    number: int
    source: list[str]
    target: list[str]
    units: dict[str, dict[str, Map]]


@dataclass(frozen=True)
class ModelMaps:
    """The maps of a model; a sentence that it cannot take is missing."""

    name: str
    description: str
    sentences: Sequence[SentenceMaps]

    def of(self, number: int) -> dict[str, dict[str, Map]]:
        """The maps of a sentence (from 0) by unit and kind; none if it is missing."""
        found = (sentence.units for sentence in self.sentences if sentence.number == number)
        return next(found, {unit: {} for unit in UNITS})

    def as_dict(self, form: WeightsForm) -> dict:
        """All of it for JSON, with the weights of each layer in this ``form``."""
        return {
            "name": self.name,
            "description": self.description,
            "sentences": [
                {
                    "sentence": sentence.number + 1,
                    "source": sentence.source,
                    "target": sentence.target,
                    "maps": {
                        unit: {kind: map_.as_dict(form) for kind, map_ in maps.items()}
                        for unit, maps in sentence.units.items()
                    },
                }
                for sentence in self.sentences
            ],
        }


#: Sentences that are shown unless others are asked for.
FIRST = 5


def measure_maps(model: ModelOnText, kinds: Sequence[str], numbers: Sequence[int]) -> ModelMaps:
    """The maps of these sentences (from 0)."""
    attentions = model.attentions(kinds)
    sentences = model.observe(attentions, numbers, partial(sentence_maps, model, attentions))
    return ModelMaps(model.name, model.description, sentences)


def shown(
    model: ModelOnText, flag: str, listed: str | None, first: Sequence[int], skip_long: bool
) -> list[int]:
    """The sentences (from 0) to show.

    Those of the ``first`` model, if this is another; or those that ``flag`` lists; or else the
    first usable ones.
    """
    if listed is None and not first:
        return model.usable("all", skip_long=True)[:FIRST]
    numbers = first or model.chosen(flag, listed or "all")
    return model.usable(numbers, skip_long=skip_long or listed is None)


def sentence_maps(
    model: ModelOnText, attentions: Attentions, number: int, observed: SentenceAttention
) -> SentenceMaps:
    """Make the maps of a sentence, which counts from 0, from what was observed."""
    sentences = model.sentences
    source, target = sentences.source[number], sentences.translations[number]
    subwords = model.subwords
    source_words, target_words = (_words(side, subwords) for side in (source, target))
    show, show_target = model.shown
    shown = {"source": show, "read": show_target, "predicted": show_target}
    # Of each side of a map: the subwords, and which of them are a word.
    sides = {
        "source": ([*source, END], [*source_words, [len(source)]]),
        "read": ([START, *target], [[0], *([p + 1 for p in word] for word in target_words)]),
        "predicted": ([*target, END], [*target_words, [len(target)]]),
    }
    axes = {
        ENCODER: ("source", "source"),
        DECODER: ("read", "read"),
        CROSS: ("predicted", "source"),
    }
    units: dict[str, dict[str, Map]] = {unit: {} for unit in UNITS}
    for kind, seen in observed.items():
        (queries, query_words), (keys, key_words) = (sides[side] for side in axes[kind])
        layers = attentions.layers[kind]
        pieces = Map(
            kind=kind,
            queries=queries,
            keys=keys,
            layers=layers,
            weights=[of_layer.weights.numpy() for of_layer in seen],
            allowed=[layer.allowed(len(queries), len(keys)).numpy() for layer in layers],
            gates=[
                {branch: of.numpy() for branch, of in layer.gates(of_layer).items()}
                for layer, of_layer in zip(layers, seen, strict=True)
            ],
        )
        units["subwords"][kind] = pieces
        of_queries, of_keys = (
            [named(text_of(word, tokens, subwords) or tokens[word[0]]) for word in words]
            for named, words, tokens in (
                (shown[axes[kind][0]], query_words, queries),
                (shown[axes[kind][1]], key_words, keys),
            )
        )
        units["words"][kind] = pieces.merged(query_words, key_words, (of_queries, of_keys))
    return SentenceMaps(
        number=number,
        source=[show(text_of(word, source, subwords)) for word in source_words],
        target=[show_target(text_of(word, target, subwords)) for word in target_words],
        units=units,
    )


def _words(pieces: list[str], subwords: str) -> Words:
    """Words that contain all pieces, even in a sentence of nothing but marks."""
    return words_of(pieces, subwords) or [list(range(len(pieces)))]
