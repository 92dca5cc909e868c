"""Alignment error rate, precision and recall (Och & Ney 2003, "A Systematic Comparison of Various
Statistical Alignment Models", section 6).

With the links A of an alignment and, of a gold alignment, the sure links S and the possible links P
(which contain S):

    precision = |A n P| / |A|,  recall = |A n S| / |S|,  AER = 1 - (|A n S| + |A n P|) / (|A| + |S|)

The rates of a corpus come from its counts, summed over the sentences; they are not means of the
sentences' rates.  A rate with denominator 0 is undefined, None: precision without links, recall
without sure ones, AER without either.  A sentence without AER does not change the corpus's AER,
whatever its possible links; such sentences are listed.

All rates are in per cent, as papers print them.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property

from ..corpora.link_files import GoldSentence, Links


@dataclass(frozen=True)
class Counts:
    """The sizes of the sets, of a sentence or summed."""

    links: int = 0  # |A|
    sure: int = 0  # |S|
    possible: int = 0  # |P|
    sure_found: int = 0  # |A n S|
    possible_found: int = 0  # |A n P|

    @classmethod
    def of(cls, links: Links, gold: GoldSentence) -> Counts:
        found = len(links & gold.sure), len(links & gold.possible)
        return cls(len(links), len(gold.sure), len(gold.possible), *found)

    def __add__(self, other: Counts) -> Counts:
        return Counts(*map(operator.add, astuple(self), astuple(other)))

    @property
    def aer(self) -> float | None:
        found = _rate(self.sure_found + self.possible_found, self.links + self.sure)
        return None if found is None else 100 - found

    @property
    def precision(self) -> float | None:
        return _rate(self.possible_found, self.links)

    @property
    def recall(self) -> float | None:
        return _rate(self.sure_found, self.sure)

    def as_dict(self) -> dict:
        rates = {"aer": self.aer, "precision": self.precision, "recall": self.recall}
        return rates | vars(self)


@dataclass(frozen=True)
class AlignmentScore:
    """The counts of each sentence of a corpus."""

    sentences: list[Counts]

    @cached_property
    def total(self) -> Counts:
        return sum(self.sentences, start=Counts())

    @property
    def undefined(self) -> list[int]:
        """The sentences (from 0) without AER: no links, and no sure ones in the gold."""
        return [number for number, counts in enumerate(self.sentences) if counts.aer is None]


def score(alignments: Iterable[Links], gold: Sequence[GoldSentence]) -> AlignmentScore:
    """Score the alignments of a corpus against as many gold ones."""
    return AlignmentScore([Counts.of(*pair) for pair in zip(alignments, gold, strict=True)])


def _rate(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None
