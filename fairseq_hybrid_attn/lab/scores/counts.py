"""What scores are computed from: counts of each sentence, added up; and resampling of sentences.

A score is a function of sums over sentences: BLEU, of the n-grams that match and the lengths; TER,
of edits and words; an alignment error rate, of the sizes of link sets; a loss, of bits and tokens.
With the counts of each sentence, a score needs no text any more.  The bootstrap (Koehn 2004) draws
as many sentences as there are, with replacement, the same ones for all systems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from . import sacrebleus

SAMPLES = 10_000
SEED = 12345  # sacrebleu's default, with which it draws the same sentences
_BLOCK = 500  # draws that are added up at once, or fewer of many sentences
_AT_ONCE = 2_000_000  # sentences in these draws
_KEPT = 10_000  # sentences; draws of more are made anew each time, as they need too much memory

#: A score of sums, ``[..., columns]``: ``[...]``, NaN where it is undefined.
Formula = Callable[[np.ndarray], np.ndarray]


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole == 0, np.nan, part / whole)


#: By the kind of counts.
FORMULAS: dict[str, Formula] = {
    **sacrebleus.FORMULAS,
    # Columns: links, sure, possible, sure found, possible found; in per cent.
    "aer": lambda sums: (
        100 - _share(100 * (sums[..., 3] + sums[..., 4]), sums[..., 0] + sums[..., 1])
    ),
    "precision": lambda sums: _share(100 * sums[..., 4], sums[..., 0]),
    "recall": lambda sums: _share(100 * sums[..., 3], sums[..., 1]),
    "loss": lambda sums: _share(sums[..., 0], sums[..., 1]),  # bits, tokens
    "comet": lambda sums: _share(sums[..., 0], sums[..., 1]),  # scores, sentences
}


@dataclass(frozen=True, eq=False)
class SentenceCounts:
    """The counts of each sentence behind a score.

    Attributes:
        kind: one of :data:`FORMULAS`.
        rows: ``[sentences, columns]``.
        text: what identifies the sentences, and what they are compared with.
        signature: how they were counted, in sacrebleu's notation; empty if that is clear.
        part: None for a whole test set; parts of a set that do not overlap have numbers that
            differ, with which they are resampled independently.
    """

    kind: str
    rows: np.ndarray
    text: str
    signature: str = ""
    part: int | None = None

    def as_dict(self) -> dict:
        rows = self.rows.astype(int) if self._are_whole else self.rows
        how = {"kind": self.kind, "text": self.text, "signature": self.signature}
        return {**how, "rows": rows.tolist()}

    @classmethod
    def of_dict(cls, content: Mapping[str, Any]) -> SentenceCounts:
        rows = np.array(content["rows"], float)
        return cls(content["kind"], rows, content["text"], content["signature"])

    @property
    def origin(self) -> tuple[str, str]:
        """Text and signature: scores of one origin may be compared."""
        return self.text, self.signature

    @property
    def value(self) -> float:
        """The score of all sentences; NaN if it is undefined."""
        return float(FORMULAS[self.kind](self.rows.sum(axis=0)))

    @cached_property
    def drawn(self) -> np.ndarray | None:
        """The score of each draw of sentences, ``[SAMPLES]``.

        None if it is undefined for one of them, or if there are fewer than two sentences.
        """
        if len(self.rows) < 2:
            return None
        scores = FORMULAS[self.kind](self._sums())
        return None if np.isnan(scores).any() else scores

    @property
    def _are_whole(self) -> bool:
        return bool((self.rows == np.rint(self.rows)).all())

    def _sums(self) -> np.ndarray:
        """The sums of each draw, ``[SAMPLES, columns]``."""
        rows, count = self.rows, len(self.rows)
        exact = self._are_whole and rows.max() * count < 2**24  # in single precision
        rows = rows.astype(np.float32 if exact else np.float64)
        blocks = _kept_draws(count) if count <= _KEPT else draws(count)
        sums = np.concatenate([block.astype(rows.dtype) @ rows for block in blocks]).astype(float)
        # In another order, so that parts of one size are drawn independently.
        part = self.part
        return sums if part is None else np.random.default_rng([SEED, part]).permutation(sums)

    def of(self, sentences: Sequence[int], text: str, part: int | None = None) -> SentenceCounts:
        """The counts of some of the sentences (from 0)."""
        return replace(self, rows=self.rows[list(sentences)], text=text, part=part)


def draws(sentences: int) -> Iterator[np.ndarray]:
    """How often each draw has each sentence, in blocks ``[draws, sentences]`` of all samples."""
    random = np.random.default_rng(SEED)
    block = max(1, min(_BLOCK, _AT_ONCE // sentences))
    for n in range(0, SAMPLES, block):
        size = min(block, SAMPLES - n)
        drawn = random.integers(sentences, size=(size, sentences))
        drawn += sentences * np.arange(size)[:, None]
        times = np.bincount(drawn.ravel(), minlength=size * sentences)
        yield times.astype(np.uint8).reshape(size, sentences)


@lru_cache(maxsize=4)
def _kept_draws(sentences: int) -> list[np.ndarray]:
    return list(draws(sentences))


@dataclass(frozen=True)
class Score:
    """A score of a whole set: what all commands compute, store and read.

    ``counts`` are None where sentences cannot be resampled, or their counts were not kept.
    """

    value: float
    signature: str  # how it was computed, in sacrebleu's notation
    counts: SentenceCounts | None = field(default=None, compare=False)

    @classmethod
    def of(cls, counts: SentenceCounts) -> Score:
        return cls(counts.value, counts.signature, counts)

    def as_dict(self) -> dict:
        counts = self.counts and self.counts.as_dict()
        return {"value": self.value, "signature": self.signature, "counts": counts}

    @classmethod
    def of_dict(cls, content: Mapping[str, Any]) -> Score:
        counts = content.get("counts")
        counted = None if counts is None else SentenceCounts.of_dict(counts)
        return cls(float(content["value"]), str(content["signature"]), counted)


def scores_as_dict(scores: Mapping[str, Score]) -> dict:
    return {name: score.as_dict() for name, score in scores.items()}
