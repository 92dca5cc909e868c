"""Gates: how much of each branch goes into the output of an attention.

The hybrid gate (Xu et al. 2019, Eq. 4, 5) is the share of the local branch, one number for each
position or, in the authors' published code, for each position and head.  HySAN's squeeze gate
(Song et al. 2018, Eq. 14) has a number for each branch, position and number of the branch's output;
here its mean over the latter is taken.

Means over a layer are over all positions that the model reads, subwords and end symbol; means over
parts of speech (hybrid gate, Fig. 4) are over words: the mean of a word's subwords counts once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...patterns import Band
from ..inference.attentions import ENCODER, SHARE, Layer, Observed, Seen
from ..inference.means import RunningMean
from ..inference.sentences import Sentences
from ..text.words import Words, words_of


@dataclass(frozen=True, order=True)
class Place:
    """Where a gate is.

    Attributes:
        kind: ``encoder`` or ``decoder``.
        layer: from 1.
        gate: ``share`` (of the local branch) or ``squeeze``.
        branch: which it is the gate of.
        head: from 1, of a gate that each head has; None: of all heads.
    """

    kind: str
    layer: int
    gate: str
    branch: str
    head: int | None = None


def gate_values(layer: Layer, seen: Seen) -> dict[Place, np.ndarray]:
    """The values of a layer's gates in a sentence, each ``[n]``."""
    if seen.gates is None:
        return {}
    values = seen.gates.double().numpy()
    here = (layer.kind, layer.number, layer.gate)
    if layer.gate != SHARE:  # [l, n, d]
        of_branches = values.mean(-1)
        return {Place(*here, branch): of_branches[n] for n, branch in enumerate(layer.branches)}
    local = layer.branches[1]  # the branches are global, local
    found = {Place(*here, local): values.mean(-1)}  # [n, 1 or h]
    if values.shape[-1] > 1:
        for head in range(values.shape[-1]):
            found[Place(*here, local, head + 1)] = values[:, head]
    return found


class Gates:
    """The gates of a model over many sentences.

    Args:
        layers: of the model, by kind.

    Attributes:
        layers: likewise, only those with gates.
        places: over positions.
        tags: of the encoder, over words, by part of speech.
    """

    def __init__(self, layers: dict[str, list[Layer]]):
        self.layers = {
            kind: gated for kind, all_ in layers.items() if (gated := [x for x in all_ if x.gate])
        }
        self.places: dict[Place, RunningMean] = defaultdict(RunningMean)
        self.tags: dict[tuple[Place, str], RunningMean] = defaultdict(RunningMean)

    def add(self, observed: Observed, words: Words = (), tags: Sequence[str] | None = None) -> None:
        """Add a sentence.

        Args:
            observed: what was seen of it.
            words: of the source, which subwords each has.
            tags: of these words; None if there are none.
        """
        for kind, gated in self.layers.items():
            for layer in gated:
                values = gate_values(layer, observed[kind][layer.number - 1])
                for place, numbers in values.items():
                    self.places[place].add(numbers)
                    if tags is None or kind != ENCODER:
                        continue
                    for word, tag in zip(words, tags, strict=True):
                        self.tags[place, tag].add(numbers[word].mean())

    def use(
        self, sentences: Sentences, subwords: str, tags: Sequence[Sequence[str]] | None
    ) -> Callable[[int, Observed], None]:
        """What adds each sentence that :func:`~..inference.attentions.watch` looks at.

        Args:
            sentences: that are looked at.
            subwords: how words are split.
            tags: of the words of each sentence's source; None if there are none.
        """

        def add(number: int, observed: Observed) -> None:
            words = words_of(sentences.source[number], subwords)
            self.add(observed, words, tags[number] if tags else None)

        return add

    def share(self) -> float | None:
        """The mean share of the local branch over all layers that have it (Fig. 2); else None."""
        whole = RunningMean()
        for place, tally in self.places.items():
            if place.gate == SHARE and place.head is None:
                whole.count += tally.count
                whole.total += tally.total
        return whole.mean

    def window(self) -> int | None:
        """Tokens that the local branch of a hybrid gate sees, 2m + 1; None without such."""
        for layers in self.layers.values():
            for layer in layers:
                pattern = layer.patterns[-1][0]
                if layer.gate == SHARE and isinstance(pattern, Band):
                    return pattern.behind + pattern.ahead + 1
        return None

    def rows(self) -> list[dict]:
        """Mean and deviation over positions, a dictionary for each gate and head."""
        return [
            {**vars(place), "positions": tally.count, **_numbers(tally)}
            for place, tally in sorted(self.places.items(), key=lambda item: _order(item[0]))
        ]

    def tag_rows(self) -> list[dict]:
        """Mean and deviation over words, a dictionary for each gate and part of speech."""
        return [
            {**vars(place), "tag": tag, "words": tally.count, **_numbers(tally)}
            for (place, tag), tally in sorted(
                self.tags.items(), key=lambda item: (_order(item[0][0]), item[0][1])
            )
            if place.head is None
        ]


def _order(place: Place) -> tuple:
    return (place.kind != ENCODER, place.layer, place.head or 0)


def _numbers(tally: RunningMean) -> dict:
    return {"mean": tally.mean, "deviation": tally.deviation}
