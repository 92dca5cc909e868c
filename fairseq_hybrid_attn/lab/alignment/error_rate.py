"""Alignment error rate, precision and recall (Och & Ney 2003, "A Systematic Comparison of Various
Statistical Alignment Models", section 6).

For the links A of an alignment, and sure links S and possible links P (all of S among them) that
people made:

    precision = |A n P| / |A|,  recall = |A n S| / |S|,  AER = 1 - (|A n S| + |A n P|) / (|A| + |S|)

A corpus' rates are those of its counts, added up over the sentences; they are no means of the
sentences' rates.  A rate whose denominator is 0 is undefined, None: precision without links, recall
without sure ones, AER without either.  Such a sentence adds nothing to the corpus' rates, whatever
its gold has of possible links, and is counted among the undefined ones.

All rates are in per cent, as papers print them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .link_files import GoldSentence, Links


@dataclass(frozen=True)
class Counts:
    """The sizes of the sets, of a sentence or added up.

    Attributes:
        links: of A.
        sure: of S.
        possible: of P, the sure ones among them.
        sure_found: of A n S.
        possible_found: of A n P.
    """

    links: int = 0
    sure: int = 0
    possible: int = 0
    sure_found: int = 0
    possible_found: int = 0

    @classmethod
    def of(cls, links: Links, gold: GoldSentence) -> Counts:
        """Of a sentence."""
        return cls(
            links=len(links),
            sure=len(gold.sure),
            possible=len(gold.possible),
            sure_found=len(links & gold.sure),
            possible_found=len(links & gold.possible),
        )

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.links + other.links,
            self.sure + other.sure,
            self.possible + other.possible,
            self.sure_found + other.sure_found,
            self.possible_found + other.possible_found,
        )

    @property
    def aer(self) -> float | None:
        """Alignment error rate."""
        found = _rate(self.sure_found + self.possible_found, self.links + self.sure)
        return None if found is None else 100 - found

    @property
    def precision(self) -> float | None:
        """Part of the links that are possible."""
        return _rate(self.possible_found, self.links)

    @property
    def recall(self) -> float | None:
        """Part of the sure links that were found."""
        return _rate(self.sure_found, self.sure)

    def as_dict(self) -> dict:
        """Rates and counts, for JSON."""
        return {
            "aer": self.aer,
            "precision": self.precision,
            "recall": self.recall,
            "links": self.links,
            "sure": self.sure,
            "possible": self.possible,
            "sure_found": self.sure_found,
            "possible_found": self.possible_found,
        }


@dataclass
class AlignmentScore:
    """Counts of a corpus, added to sentence by sentence.

    Attributes:
        total: of all sentences.
        sentences: of each.
    """

    total: Counts = Counts()
    sentences: list[Counts] = field(default_factory=list)

    def add(self, links: Links, gold: GoldSentence) -> None:
        """Add a sentence."""
        counts = Counts.of(links, gold)
        self.sentences.append(counts)
        self.total += counts

    @property
    def undefined(self) -> list[int]:
        """The sentences (from 0) whose AER is undefined: no links and no sure ones in the gold."""
        return [number for number, counts in enumerate(self.sentences) if counts.aer is None]


def score(alignments: Iterable[Links], gold: Sequence[GoldSentence]) -> AlignmentScore:
    """AlignmentScore the alignments of a corpus.

    Args:
        alignments: one for each sentence.
        gold: as many.
    """
    result = AlignmentScore()
    for links, sentence in zip(alignments, gold, strict=True):
        result.add(links, sentence)
    return result


def _rate(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None
