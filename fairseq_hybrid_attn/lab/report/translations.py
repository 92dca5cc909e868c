"""The translations of a report: scores, sentences worth reading, and where models differ."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sacrebleu.metrics import CHRF
from tqdm import tqdm

from ..corpora.test_sets import slices
from ..corpora.tokenisers import detokeniser
from ..files.text import read_lines, require_equal
from ..look.sentences import Sentences
from ..scores.generate_output import join_subwords
from ..scores.lengths_command import count_words
from ..scores.lengths_measure import ScoresByLength, compare_systems, score_by_length
from ..scores.metrics import build_metric, default_scores, language
from .findings import SentenceScores, SetScore
from .subjects import Subject

#: Shown of the worst, median and best sentences, and of those where a model gains or loses most.
SHOWN, DIFFERING = (7, 6, 7), 5


@dataclass(frozen=True)
class ReportTranslations:
    """The translations of a test set."""

    source: list[str]  #: for display
    references: list[str]
    target: str  #: their language
    lowercase: bool
    sets: dict[str, slice]  #: the named parts of the test set, and the whole
    words: list[int]  #: of each source sentence
    systems: dict[str, list[str]] = field(default_factory=dict)  #: by model, in their order

    def scores(self) -> list[SetScore]:
        names, numbers = default_scores(self.target), range(len(self.references))
        metrics = [build_metric(name, self.target, self.lowercase) for name in names]
        counts = {
            metric: {
                system: metric.counts(lines, self.references)
                for system, lines in self.systems.items()
            }
            for metric in tqdm(metrics, unit=" scores", file=sys.stderr)
        }
        return [
            SetScore(
                name=f"{metric.name}{suffix}",
                label=metric.label,
                signature=metric.signature(),
                sentences=len(numbers[part]),
                systems=compare_systems(
                    {system: whole.of(numbers[part], suffix) for system, whole in of_all.items()}
                ),
            )
            for suffix, part in self.sets.items()
            for metric, of_all in counts.items()
        ]

    def by_length(self) -> ScoresByLength:
        of_sentences = self.systems, self.references, self.words
        return score_by_length("bleu", *of_sentences, self.target, lowercase=self.lowercase)

    def examples(self) -> list[SentenceScores]:
        """All sentences with the chrF of each translation; see :func:`chosen`."""
        chrf = CHRF(lowercase=self.lowercase)
        return [
            SentenceScores(
                number=number,
                source=source,
                reference=reference,
                translations=dict(zip(self.systems, hypotheses, strict=True)),
                scores={
                    name: chrf.sentence_score(line, [reference]).score
                    for name, line in zip(self.systems, hypotheses, strict=True)
                },
            )
            for number, (source, reference, *hypotheses) in enumerate(
                zip(self.source, self.references, *self.systems.values(), strict=True), start=1
            )
        ]


def chosen(examples: Sequence[SentenceScores], system: str) -> dict[str, list[SentenceScores]]:
    """The worst, the median and the best sentences of a system, without repeating any."""
    ranked = sorted(examples, key=lambda example: example.scores[system])
    worst, median, best = SHOWN
    if len(ranked) <= sum(SHOWN):
        return {"all": ranked}
    middle = (len(ranked) - median) // 2
    return {
        "worst": ranked[:worst],
        "median": ranked[middle : middle + median],
        "best": ranked[-best:],
    }


def differing(
    examples: Sequence[SentenceScores], first: str, other: str
) -> dict[str, list[SentenceScores]]:
    """The sentences where ``other`` gains and loses most against ``first``."""
    ranked = sorted(examples, key=lambda example: _gain(example, first, other))
    return {
        f"{other} is better": [
            e for e in ranked[: -DIFFERING - 1 : -1] if _gain(e, first, other) > 0
        ],
        f"{other} is worse": [e for e in ranked[:DIFFERING] if _gain(e, first, other) < 0],
    }


def _gain(example: SentenceScores, first: str, other: str) -> float:
    return example.scores[other] - example.scores[first]


def read_text(first: Subject, sentences: Sentences) -> tuple[ReportTranslations, list[str]]:
    """The test set, still without translations, as the first model has it; notes about scores."""
    target, count = language(first.target), len(sentences)
    notes = []
    if first.reference:
        references = _lines(first.reference, first.subset, count)
    else:
        tokens = joined(sentences.target, first.subwords)
        references = list(map(detokeniser(first.tokenizer, target), tokens))
        notes.append(
            "The reference is that of the binarised set, with its subwords joined and its words "
            f"detokenised ({first.tokenizer}). Scores against untouched text are others: "
            "--reference FILE."
        )
    raw, tokenised = first.text("raw"), first.text("tokenised")
    words = joined(sentences.source, first.subwords)
    if tokenised:
        words = _lines(tokenised[0], first.subset, count)
    return ReportTranslations(
        source=_lines(raw[0], first.subset, count) if raw else words,
        references=references,
        target=target,
        lowercase=first.lowercase,
        sets=slices(first.test_sets, count),
        words=count_words(words, "the source", "these are counted as they are"),
    ), notes


def _lines(path: Path, subset: str, count: int) -> list[str]:
    text = read_lines(path)
    require_equal({str(path): len(text), subset: count})
    return text


def joined(sentences: Sequence[Sequence[str]], subwords: str) -> list[str]:
    return [join_subwords(" ".join(pieces), subwords) for pieces in sentences]
