"""BLEU by the length of the source sentence (MMA, Fig. 2; after Bahdanau et al. 2015).

The test set is divided into groups by the number of words of the source sentence, and each group is
scored as a corpus of its own: its BLEU is of its n-grams added up, not a mean over sentences.
MMA's groups are (0,10], (10,20], … (50,∞).  What it counts it does not say; **[reading]** words of
the tokenised source, before they are split into subwords.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ...errors import UserError
from ..scoring.metrics import Metric, Score, build_metric, check_parallel
from ..scoring.significance import SAMPLES, SEED, paired_bootstrap

#: The name of :func:`length_ratio` among the scores of tables.
LENGTH_RATIO = "length_ratio"

#: The upper bounds of MMA's groups but the last, which has none.
BOUNDS = (10, 20, 30, 40, 50)


@dataclass(frozen=True)
class Group:
    """Source sentences of more than ``above`` words and at most ``to``; no limit if None."""

    above: int
    to: int | None

    def __contains__(self, words: int) -> bool:
        return self.above < words and (self.to is None or words <= self.to)

    def __str__(self) -> str:
        return f"({self.above},∞)" if self.to is None else f"({self.above},{self.to}]"

    def sentences(self, lengths: Sequence[int]) -> list[int]:
        """The numbers (from 0) of the sentences that are in it."""
        return [number for number, words in enumerate(lengths) if words in self]


def groups_of(bounds: Iterable[int] = BOUNDS) -> list[Group]:
    """Groups with these upper bounds, and one of all that is longer.

    A sentence without words is in none.

    Args:
        bounds: rising, above 0.
    """
    edges = [0, *bounds]
    if any(low >= high for low, high in zip(edges, edges[1:], strict=False)):
        raise ValueError(f"bounds {edges[1:]}: use numbers above 0 that rise")
    return [Group(low, high) for low, high in zip(edges, [*edges[1:], None], strict=True)]


def word_counts(lines: Iterable[str]) -> list[int]:
    """Words of each sentence: what has white space around it."""
    return [len(line.split()) for line in lines]


def length_ratio(metric: Metric, translations: list[str], references: list[str]) -> Score:
    """Words of the translations for each word of the references, as a metric counts them.

    It is the ratio that sacrebleu prints beside a score, and BLEU's brevity penalty looks at; above
    1, translations are longer than references.

    Raises:
        UserError: if one has more sentences than the other, or the references have no words.
    """
    check_parallel({"translations": translations}, references)
    score = metric.bleu.corpus_score(metric.prepare(translations), [metric.prepare(references)])
    if not score.ref_len:
        raise UserError("the references have no words")
    line = f"length ratio {score.sys_len / score.ref_len:.3f}"
    return Score(score.sys_len / score.ref_len, metric.signature(), line)


def cut_to(translation: str, reference: str) -> str:
    """A translation that ends where its reference does, at the latest.

    Words are what has white space around it.
    """
    return " ".join(translation.split()[: len(reference.split())])


@dataclass(frozen=True)
class SystemScore:
    """A system's score on a group.

    Args:
        value: from 0 to 100.
        mean: over the resampled groups; None where a group has but one sentence.
        interval: half the width of the 95 % interval: mean ± interval; None likewise.
        p_value: of the paired bootstrap against the first system; None for that and likewise.
    """

    value: float
    mean: float | None = None
    interval: float | None = None
    p_value: float | None = None


@dataclass(frozen=True)
class GroupScores:
    """A group's size and scores.

    Args:
        label: of the group.
        sentences: how many it has.
        words: of their source sides.
        scores: by system; empty for a group without sentences.
    """

    label: str
    sentences: int
    words: int
    scores: dict[str, SystemScore]


@dataclass(frozen=True)
class ScoresByLength:
    """Scores of systems, group by group.

    Args:
        score: its name, as in ``scoring``.
        label: its name for people.
        signature: sacrebleu's.
        systems: their names; the first is the one that others are compared with.
        groups: in order of length.
        whole: the whole set.
        without_words: the sentences (from 0) whose source has no words; they are in no group.
        samples: of the bootstrap.
        seed: of the bootstrap.
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
        """Plain data, for JSON; sentences are counted from 1."""
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
    kytea_model: Path | None = None,
    samples: int = SAMPLES,
) -> dict[str, SystemScore]:
    """Each system's score on a set, and how it compares with the first.

    Arguments as of :func:`score_by_length`.

    Raises:
        UserError: likewise.
    """
    if len(references) == 1:  # cannot be resampled
        metric = build_metric(score, target_lang, lowercase, kytea_model)
        return {
            name: SystemScore(metric.score(lines, references).value)
            for name, lines in systems.items()
        }
    first = next(iter(systems))
    resampled = paired_bootstrap(
        *(score, systems[first], systems, references, target_lang, lowercase),
        samples=samples,
        kytea_model=kytea_model,
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
    groups: Sequence[Group] | None = None,
    lowercase: bool = False,
    kytea_model: Path | None = None,
    samples: int = SAMPLES,
    progress: Callable[[list], Iterable] = iter,
) -> ScoresByLength:
    """Score systems on each group of sentences.

    Args:
        score: one of ``scoring.METRICS``.
        systems: their translations as text, by name; others are compared with the first.
        references: parallel to them.
        lengths: words of the source sentences, parallel to them.
        target_lang: two or three letters, lower case.
        groups: by length; those of :data:`BOUNDS` if None.
        lowercase: ignore case.
        kytea_model: see ``scoring.build_metric``.
        samples: of the bootstrap.
        progress: gives back what it is given, one by one, and shows how far that is.

    Raises:
        UserError: if a system has not as many translations as there are references, or the
            score cannot be had for this language.
    """
    check_parallel({**systems, "the source": lengths}, references)
    first = next(iter(systems))
    metric = build_metric(score, target_lang, lowercase, kytea_model)
    signature = metric.score(systems[first], references).signature
    settings = {"lowercase": lowercase, "kytea_model": kytea_model, "samples": samples}

    def scores_of(label: str, numbers: list[int]) -> GroupScores:
        wanted = [references[number] for number in numbers]
        theirs = {name: [lines[n] for n in numbers] for name, lines in systems.items()}
        found = compare_systems(score, theirs, wanted, target_lang, **settings) if numbers else {}
        return GroupScores(label, len(numbers), sum(lengths[n] for n in numbers), found)

    parts = [(str(group), group.sentences(lengths)) for group in groups or groups_of()]
    parts.append(("all", list(range(len(references)))))
    *scored, whole = (scores_of(*part) for part in progress(parts))
    return ScoresByLength(
        score=score,
        label=metric.label,
        signature=signature,
        systems=tuple(systems),
        groups=tuple(scored),
        whole=whole,
        without_words=tuple(number for number, words in enumerate(lengths) if not words),
        samples=samples,
        seed=SEED,
    )
