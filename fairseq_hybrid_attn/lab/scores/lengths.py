"""BLEU by the length of the source sentence (MMA, Fig. 2; after Bahdanau et al. 2015).

The test set is divided into groups by the number of words of the source sentence.  Each group is
scored as a separate corpus: BLEU over all of its n-grams, not a mean over sentences.
MMA's groups are (0,10], (10,20], … (50,∞).  The paper does not say what it counts; **[reading]**
words of the tokenised source, before they are split into subwords.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..corpora.words import kinds_of, split_words
from ..figures import style
from ..files.tabular import Grid
from . import Group, statistics
from .generate_output import warn
from .metrics import Metric, check_parallel
from .statistics import Compared, compare

#: The upper bounds of MMA's groups; the last group has none.
BOUNDS = (10, 20, 30, 40, 50)
#: Average length of a word, in characters, above which text seems to have no spaces.
_LONG = 15
#: Inches of a group, and the part of it that its systems' points share.
_GROUP = 0.95
_SHARED = 0.5


def groups_of(bounds: Iterable[int] = BOUNDS) -> list[Group]:
    """Groups with these rising upper bounds, and one for all longer sentences."""
    edges = [0, *bounds]
    return [Group(low, high) for low, high in zip(edges, [*edges[1:], None], strict=True)]


def word_counts(lines: Iterable[str]) -> list[int]:
    return [len(line.split()) for line in lines]


@dataclass(frozen=True)
class GroupScores:
    """A group: its size, and systems compared with the first (empty without sentences)."""

    label: str
    sentences: int
    systems: dict[str, Compared]


@dataclass(frozen=True)
class ScoresByLength:
    """Scores of systems, compared with the first, on groups in order of length and on the whole.

    Sentences ``without_words`` (from 0) are in no group.
    """

    label: str
    signature: str
    side: str  #: whose words are counted, ``source`` or ``reference``
    systems: tuple[str, ...]
    groups: tuple[GroupScores, ...]
    whole: GroupScores
    without_words: tuple[int, ...]

    def as_dict(self) -> dict:
        """Plain data for JSON, the whole as the last group; sentences are counted from 1."""
        groups = [
            {
                "label": group.label,
                "sentences": group.sentences,
                "systems": {name: of.as_dict() for name, of in group.systems.items()},
            }
            for group in (*self.groups, self.whole)
        ]
        return {"groups": groups, "without_words": [n + 1 for n in self.without_words]}


def score_by_length(
    metric: Metric,
    systems: Mapping[str, Sequence[list[str]]],
    references: Sequence[list[str]],
    lengths: list[int],
    bounds: Iterable[int] = BOUNDS,
    side: str = "source",
) -> ScoresByLength:
    """Score systems, translations as text of each seed by name, on each group of sentences.

    ``lengths`` are words of each sentence, of the ``side``.
    """
    check_parallel({f"the {side}": lengths}, *references)
    counts = {
        name: {seed: metric.counts(lines, *references) for seed, lines in enumerate(of_seeds, 1)}
        for name, of_seeds in systems.items()
    }

    def scores_of(label: str, numbers: list[int]) -> GroupScores:
        if not numbers:
            return GroupScores(label, 0, {})
        scores = {
            name: {seed: metric.score_of(one.of(numbers, label)) for seed, one in of_all.items()}
            for name, of_all in counts.items()
        }
        return GroupScores(label, len(numbers), compare(scores))

    groups = {
        str(group): [number for number, words in enumerate(lengths) if words in group]
        for group in groups_of(bounds)
    }
    return ScoresByLength(
        label=metric.label,
        signature=metric.signature(),
        side=side,
        systems=tuple(systems),
        groups=tuple(scores_of(*group) for group in groups.items()),
        whole=scores_of("all", list(range(len(references[0])))),
        without_words=tuple(number for number, words in enumerate(lengths) if not words),
    )


def count_words(lines: list[str], where: str) -> list[int]:
    """Count the words of each line; warn of subwords, and if there seem to be no spaces."""
    counts = word_counts(lines)
    for kind in kinds_of(map(split_words, lines)):
        warn(f"{where} looks like subwords of {kind}, which are counted as words")
    characters = sum(len("".join(line.split())) for line in lines)
    if characters > _LONG * sum(counts):
        warn(
            f"words of {where} have {characters / max(1, sum(counts)):.0f} characters on average; "
            "are there spaces between words?"
        )
    return counts


def grid(found: ScoresByLength) -> Grid:
    names = list(found.systems)
    rows = [
        [group.label, f"{group.sentences:,}", *statistics.line(names, group.systems)]
        for group in (*found.groups, found.whole)
    ]
    return Grid([f"{found.side} words", "sentences", *statistics.headings(names)], rows, left=1)


def notes(found: ScoresByLength) -> list[str]:
    """How it was computed."""
    seeds = {len(one.estimate.by_seed) for one in found.whole.systems.values()}
    few = [note for count, note in statistics.FEW_SEEDS.items() if count in seeds]
    return [f"{found.label}: {found.signature}", statistics.HOW, *few, *left_out(found)]


def left_out(found: ScoresByLength) -> list[str]:
    count = f"{len(found.without_words):,} sentences"
    told = f"in no group, since their {found.side} has no words: {count}"
    return [told] if found.without_words else []


def draw(
    groups: Sequence[GroupScores],
    systems: Sequence[str],
    label: str,
    theme: str = "light",
    side: str = "source",
) -> style.Figure:
    """Draw points with 95 % intervals, a line per system; a group without sentences is a gap."""
    with style.theme(theme, texts=[*systems, label]) as colours:
        figure = style.new_figure(max(4.5, 1.2 + _GROUP * len(groups)), 3.6)
        axes = figure.subplots()
        axes.grid(axis="x", visible=False)
        for number, system in enumerate(systems):
            # Side by side, so that intervals do not hide one another.
            shift = _SHARED * ((number + 0.5) / len(systems) - 0.5)
            found = [
                group.systems[system].estimate if system in group.systems else None
                for group in groups
            ]
            axes.errorbar(
                [place + shift for place in range(len(groups))],
                [float("nan") if one is None else one.value for one in found],
                yerr=[0.0 if one is None else one.half or 0.0 for one in found],
                label=system,
                capsize=2.5,
                elinewidth=1.0,
                **style.series(number, colours),
            )
        headings = [f"{group.label}\nn = {group.sentences:,}" for group in groups]
        axes.set_xticks(range(len(groups)), headings)
        axes.set_xlim(-0.6, len(groups) - 0.4)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(f"words of the {side} sentence (n: sentences)")
        axes.set_ylabel(label)
        style.legend_above(axes)
    return figure
