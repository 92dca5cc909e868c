"""The translations of a report: scores, sentences worth reading, and where models differ."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics import CHRF
from tqdm import tqdm

from ...errors import UserError
from ..corpora.test_sets import read_test_sets, slices
from ..corpora.tokenisers import KINDS, detokeniser
from ..corpora.words import base_language
from ..files.text import read_lines, require_equal
from ..look.sentences import Sentences
from ..scores import systems as lengths
from ..scores.generate_output import join_subwords, read_finished, read_generated
from ..scores.lengths_measure import ScoresByLength, compare_systems, score_by_length
from ..scores.metrics import build_metric, default_scores, language
from .findings import SentenceScores, SetScore
from .subjects import Subject
from .translating import generated

#: Shown of the worst, median and best sentences, and of those where a model gains or loses most.
SHOWN, DIFFERING = (7, 6, 7), 5


@dataclass(frozen=True)
class ReportTranslations:
    """The translations of a test set."""

    systems: dict[str, list[str]]  #: by the models' names, in their order
    source: list[str]  #: for display
    references: list[str]
    target: str  #: their language
    lowercase: bool
    sets: dict[str, slice]  #: the named parts of the test set, and the whole
    words: list[int]  #: of each source sentence

    def scores(self) -> list[SetScore]:
        todo = [
            (name, suffix, part)
            for suffix, part in self.sets.items()
            for name in default_scores(self.target)
        ]
        return [self._score(*one) for one in tqdm(todo, unit=" scores", file=sys.stderr)]

    def _score(self, name: str, suffix: str, part: slice) -> SetScore:
        references = self.references[part]
        systems = {system: lines[part] for system, lines in self.systems.items()}
        metric = build_metric(name, self.target, self.lowercase)
        return SetScore(
            name=f"{name}{suffix}",
            label=metric.label,
            signature=metric.score(next(iter(systems.values())), references).signature,
            sentences=len(references),
            systems=compare_systems(
                {system: metric.counts(lines, references) for system, lines in systems.items()}
            ),
            # What a system scores that does nothing.
            source=metric.score(self.source[part], references).value,
        )

    def by_length(self, bounds: Sequence[int]) -> ScoresByLength:
        return score_by_length(
            "bleu",
            self.systems,
            self.references,
            self.words,
            self.target,
            bounds=bounds,
            lowercase=self.lowercase,
        )

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
    ranked = sorted(examples, key=lambda one: one.scores[system])
    worst, median, best = SHOWN
    if len(ranked) <= sum(SHOWN):
        return {"all": ranked}
    middle = (len(ranked) - median) // 2
    middle = min(max(middle, worst), len(ranked) - best - median)
    return {
        "worst": ranked[:worst],
        "median": ranked[middle : middle + median],
        "best": ranked[-best:],
    }


def differing(
    examples: Sequence[SentenceScores], first: str, other: str
) -> dict[str, list[SentenceScores]]:
    """The sentences where ``other`` gains and loses most against ``first``."""
    ranked = sorted(examples, key=lambda one: one.scores[other] - one.scores[first])
    return {
        f"{other} is better": [
            e for e in ranked[: -DIFFERING - 1 : -1] if _gain(e, first, other) > 0
        ],
        f"{other} is worse": [e for e in ranked[:DIFFERING] if _gain(e, first, other) < 0],
    }


def _gain(one: SentenceScores, first: str, other: str) -> float:
    return one.scores[other] - one.scores[first]


def translate(
    subjects: Sequence[Subject],
    sentences: Sequence[Sentences],
    checksums: Sequence[str],
    args: argparse.Namespace,
) -> tuple[ReportTranslations, list[str]]:
    """Read, or first make, the translations of all models; and notes about how they are scored."""
    first = subjects[0]
    target = language(first.target)
    tokens = [joined(s.target, one.subwords) for s, one in zip(sentences, subjects, strict=True)]
    count = len(tokens[0])
    notes = []
    if first.reference:
        references = read_lines(first.reference)
        require_equal({str(first.reference): len(references), first.subset: count})
        tokenizers = [
            one.tokenizer or _guessed(lines, references, one.target)
            for one, lines in zip(subjects, tokens, strict=True)
        ]
    else:
        tokenizers = [one.tokenizer or "none" for one in subjects]
        references = list(map(detokeniser(tokenizers[0], target), tokens[0]))
        notes.append(
            "The reference is that of the binarised set, with its subwords joined and its words "
            f"detokenised ({tokenizers[0]}). Scores against untouched text are others: "
            "--reference FILE."
        )
    systems = {}
    given = {one.name: one for one in args.systems or ()}
    for one, tokenizer, of_model, checksum in zip(
        subjects, tokenizers, sentences, checksums, strict=True
    ):
        if one.name in given:
            handed, where = given[one.name], args.reference or one.reference
            kinds = where, count, one.target, one.subwords, tokenizer
            systems[one.name] = handed.read(*kinds)
        elif one.hypotheses:
            systems[one.name] = read_finished(one.hypotheses, first.reference, count)
        else:
            made = generated(one, len(of_model), checksum, args)
            missing = "empty" if args.too_long == "skip" else "error"
            kinds = one.subwords, tokenizer, one.target, missing
            systems[one.name], _ = read_generated(made, count, *kinds)
    words = joined(sentences[0].source, first.subwords)
    if first.raw_source:
        source = read_lines(first.raw_source)
        require_equal({str(first.raw_source): len(source), first.subset: count})
    else:  # for display alone
        source = list(map(detokeniser(_undone(tokenizers[0], first.source), first.source), words))
    if first.source_words:
        words = read_lines(first.source_words)
        require_equal({str(first.source_words): len(words), first.subset: count})
    sets = read_test_sets(first.test_sets, count) if first.test_sets else {}
    return ReportTranslations(
        systems=systems,
        source=source,
        references=references,
        target=target,
        lowercase=first.lowercase,
        sets=slices(sets, count),
        words=lengths.count_words(words, "the source", "these are counted as they are"),
    ), notes


def joined(sentences: Sequence[Sequence[str]], subwords: str) -> list[str]:
    return [join_subwords(" ".join(pieces), subwords) for pieces in sentences]


def _undone(kind: str, lang: str) -> str:
    """The kind of tokeniser to undo in the other language: the same, if it is for that one."""
    return kind if kind in _kinds(lang) else "none"


def _kinds(lang: str) -> list[str]:
    return [
        k
        for k, one in KINDS.items()
        if base_language(lang) in (one.languages or [base_language(lang)])
    ]


def _guessed(tokens: list[str], references: list[str], lang: str) -> str:
    """The tokeniser whose inverse makes the reference of the set's own tokens most often."""
    right = Counter(
        {
            kind: sum(map(str.__eq__, map(detokeniser(kind, lang), tokens), references))
            for kind in _kinds(lang)
            if kind in ("none", "moses", "mecab", "jieba")  # the others are undone like these
        }
    )
    kind, count = right.most_common(1)[0]
    if count * 2 < len(references):
        raise UserError(
            f"--reference: only {count:,} of its {len(references):,} sentences are those of the "
            "test set; is it the reference of another set? If so, name the right one; otherwise "
            "--tokenizer says how the words of the data were split"
        )
    return kind
