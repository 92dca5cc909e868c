"""BLEU by the length of the source sentence (MMA, Fig. 2; after Bahdanau et al. 2015).

The test set is divided into groups by the number of words of the source sentence.  Each group is
scored as a separate corpus: BLEU over all of its n-grams, not a mean over sentences.
MMA's groups are (0,10], (10,20], … (50,∞).  The paper does not say what it counts; **[reading]**
words of the tokenised source, before they are split into subwords.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

from ...errors import UserError
from .metrics import Metric, Score, build_metric, check_parallel
from .significance import SAMPLES, SEED, paired_bootstrap

#: The name of :func:`length_ratio` among the scores of tables.
LENGTH_RATIO = "length_ratio"

#: The upper bounds of MMA's groups; the last group has none.
BOUNDS = (10, 20, 30, 40, 50)


@dataclass(frozen=True)
class Group:
    """Source sentences of more than ``above`` words and at most ``to``; None: no limit."""

    above: int
    to: int | None

    def __contains__(self, words: int) -> bool:
        return self.above < words and (self.to is None or words <= self.to)

    def overlaps(self, other: Group) -> bool:
        low, high = sorted((self, other), key=lambda group: group.above)
        return low.to is None or low.to > high.above

    def __str__(self) -> str:
        return f"({self.above},∞)" if self.to is None else f"({self.above},{self.to}]"

    def sentences(self, lengths: Sequence[int]) -> list[int]:
        """The numbers (from 0) of its sentences."""
        return [number for number, words in enumerate(lengths) if words in self]


def groups_of(bounds: Iterable[int] = BOUNDS) -> list[Group]:
    """Groups with these rising upper bounds, and one for all longer sentences."""
    edges = [0, *bounds]
    return [Group(low, high) for low, high in zip(edges, [*edges[1:], None], strict=True)]


def word_counts(lines: Iterable[str]) -> list[int]:
    return [len(line.split()) for line in lines]


def length_ratio(metric: Metric, translations: list[str], references: list[str]) -> Score:
    """Words in the translations per word in the references, as a metric counts words.

    sacrebleu prints it beside a score, and BLEU's brevity penalty depends on it.
    """
    check_parallel({"translations": translations}, references)
    score = metric.bleu.corpus_score(metric.prepare(translations), [metric.prepare(references)])
    if not score.ref_len:
        raise UserError("the references have no words")
    line = f"length ratio {score.sys_len / score.ref_len:.3f}"
    return Score(score.sys_len / score.ref_len, metric.signature(), line)


def cut_to(translation: str, reference: str) -> str:
    """Cut a translation to the number of words of its reference, separated by white space."""
    return " ".join(translation.split()[: len(reference.split())])


@dataclass(frozen=True)
class SystemScore:
    """A system's score on a group, from 0 to 100, compared with the first system.

    By bootstrap: the mean over resampled groups, half the width of the 95 % interval around it, and
    p.  None for a group of one sentence; there is no p for the first system.
    """

    value: float
    mean: float | None = None
    interval: float | None = None
    p_value: float | None = None


@dataclass(frozen=True)
class GroupScores:
    """A group: its size, words of its source, and scores by system (empty without sentences)."""

    label: str
    sentences: int
    words: int
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
    samples: int
    seed: int

    def as_dict(self) -> dict:
        """Plain data for JSON; sentences are counted from 1."""
        return {**asdict(self), "without_words": [number + 1 for number in self.without_words]}

    def rows(self) -> list[dict]:
        """A row for each group and system, for CSV; None where there is nothing."""
        empty = asdict(SystemScore(0.0)) | {"value": None}
        return [
            {
                "group": group.label,
                "sentences": group.sentences,
                "source_words": group.words,
                "system": system,
                "score": self.score,
                **(asdict(group.scores[system]) if group.scores else empty),
                "signature": self.signature,
            }
            for group in (*self.groups, self.whole)
            for system in self.systems
        ]


def compare_systems(
    score: str,
    systems: dict[str, list[str]],
    references: list[str],
    target_lang: str,
    *,
    lowercase: bool = False,
    samples: int = SAMPLES,
) -> dict[str, SystemScore]:
    """Score each system on a set, and compare it with the first."""
    if len(references) == 1:  # cannot be resampled
        metric = build_metric(score, target_lang, lowercase)
        return {
            name: SystemScore(metric.score(lines, references).value)
            for name, lines in systems.items()
        }
    first = next(iter(systems))
    resampled = paired_bootstrap(
        *(score, systems[first], systems, references, target_lang, lowercase), samples=samples
    )
    return {
        name: SystemScore(one.value, one.mean, one.interval, None if name == first else one.p_value)
        for name, one in resampled.items()
    }


def score_by_length(
    score: str,
    systems: dict[str, list[str]],
    references: list[str],
    lengths: list[int],
    target_lang: str,
    *,
    bounds: Iterable[int] = BOUNDS,
    lowercase: bool = False,
    samples: int = SAMPLES,
    progress: Callable[[list], Iterable] = iter,
) -> ScoresByLength:
    """Score systems, translations as text by name, on each group of sentences.

    ``score`` is one of ``metrics.METRICS``, ``lengths`` are words of the source sentences;
    ``progress`` wraps the iteration over groups.
    """
    check_parallel({**systems, "the source": lengths}, references)
    metric = build_metric(score, target_lang, lowercase)

    def scores_of(label: str, numbers: list[int]) -> GroupScores:
        chosen = {name: [lines[n] for n in numbers] for name, lines in systems.items()}
        found = numbers and compare_systems(
            *(score, chosen, [references[n] for n in numbers], target_lang),
            lowercase=lowercase,
            samples=samples,
        )
        return GroupScores(label, len(numbers), sum(lengths[n] for n in numbers), found or {})

    parts = [(str(group), group.sentences(lengths)) for group in groups_of(bounds)]
    parts.append(("all", list(range(len(references)))))
    *scored, whole = (scores_of(*part) for part in progress(parts))
    return ScoresByLength(
        score=score,
        label=metric.label,
        signature=metric.score(next(iter(systems.values())), references).signature,
        systems=tuple(systems),
        groups=tuple(scored),
        whole=whole,
        without_words=tuple(number for number, words in enumerate(lengths) if not words),
        samples=samples,
        seed=SEED,
    )
