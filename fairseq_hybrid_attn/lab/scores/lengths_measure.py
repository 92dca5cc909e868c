"""BLEU by the length of the source sentence (MMA, Fig. 2; after Bahdanau et al. 2015).

The test set is divided into groups by the number of words of the source sentence.  Each group is
scored as a separate corpus: BLEU over all of its n-grams, not a mean over sentences.
MMA's groups are (0,10], (10,20], … (50,∞).  The paper does not say what it counts; **[reading]**
words of the tokenised source, before they are split into subwords.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from . import Group
from .counts import SentenceCounts, half_width, p_value
from .metrics import Metric, check_parallel

#: The upper bounds of MMA's groups; the last group has none.
BOUNDS = (10, 20, 30, 40, 50)


def groups_of(bounds: Iterable[int] = BOUNDS) -> list[Group]:
    """Groups with these rising upper bounds, and one for all longer sentences."""
    edges = [0, *bounds]
    return [Group(low, high) for low, high in zip(edges, [*edges[1:], None], strict=True)]


def word_counts(lines: Iterable[str]) -> list[int]:
    return [len(line.split()) for line in lines]


@dataclass(frozen=True)
class SystemScore:
    """A system's score on a group, from 0 to 100, compared with the first system.

    ``interval`` is half the width of the 95 % interval by resampling the group.  It is None for a
    group of one sentence, and so is p, which the first system does not have.
    """

    value: float
    interval: float | None = None
    p_value: float | None = None


@dataclass(frozen=True)
class GroupScores:
    """A group: its size, and scores by system (empty without sentences)."""

    label: str
    sentences: int
    scores: dict[str, SystemScore]


@dataclass(frozen=True)
class ScoresByLength:
    """Scores of systems, compared with the first, on groups in order of length and on the whole.

    Sentences ``without_words`` (from 0) are in no group.
    """

    score: str
    label: str
    signature: str
    systems: tuple[str, ...]
    groups: tuple[GroupScores, ...]
    whole: GroupScores
    without_words: tuple[int, ...]

    def as_dict(self) -> dict:
        """Plain data for JSON; sentences are counted from 1."""
        return {**asdict(self), "without_words": [number + 1 for number in self.without_words]}


def compare_systems(systems: dict[str, SentenceCounts]) -> dict[str, SystemScore]:
    """The score of each system, compared with the first; all of the same sentences."""
    first = next(iter(systems.values()))
    return {
        name: SystemScore(
            counts.value,
            half_width(counts.drawn),
            None if counts is first else p_value(counts, first),
        )
        for name, counts in systems.items()
    }


def score_by_length(
    metric: Metric,
    systems: Mapping[str, list[str]],
    references: list[str],
    lengths: list[int],
    bounds: Iterable[int] = BOUNDS,
) -> ScoresByLength:
    """Score systems, translations as text by name, on each group of sentences.

    ``lengths`` are words of the source sentences.
    """
    check_parallel({**systems, "the source": lengths}, references)
    counts = {name: metric.counts(lines, references) for name, lines in systems.items()}

    def scores_of(label: str, numbers: list[int]) -> GroupScores:
        chosen = {name: of_all.of(numbers, label) for name, of_all in counts.items()}
        return GroupScores(label, len(numbers), compare_systems(chosen) if numbers else {})

    groups = {
        str(group): [number for number, words in enumerate(lengths) if words in group]
        for group in groups_of(bounds)
    }
    return ScoresByLength(
        score=metric.name,
        label=metric.label,
        signature=metric.signature(),
        systems=tuple(systems),
        groups=tuple(scores_of(*group) for group in groups.items()),
        whole=scores_of("all", list(range(len(references)))),
        without_words=tuple(number for number, words in enumerate(lengths) if not words),
    )
