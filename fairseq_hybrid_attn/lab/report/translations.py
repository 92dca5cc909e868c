"""The translations of a report: scores, sentences worth reading, and where models differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sacrebleu.metrics.chrf import CHRF

from ..corpora.definition import TestSets
from ..corpora.tokenisers import detokeniser
from ..files.text import read_lines, require_equal
from ..models.on_text import ModelOnText, joined
from ..scores.lengths import count_words
from ..scores.metrics import build_metric, default_scores, language
from ..tables.by_length import score_by_length
from ..tables.measuring import TableNumbers
from ..tables.scoring import score_table
from .subjects import Subject

#: Sentences shown of the best, and as many of the worst.
SHOWN = 7


@dataclass(frozen=True)
class SentenceScores:
    """A sentence of the test set, from 1, with its translations and their chrF by system."""

    number: int
    source: str
    reference: str
    translations: dict[str, str]
    scores: dict[str, float]


@dataclass(frozen=True)
class TestSet:
    """A test set; ``systems`` are translations of it, by model, in the models' order."""

    about: str  #: languages and size, for display
    source: list[str]  #: for display
    references: list[str]
    target: str  #: their language
    lowercase: bool
    sets: TestSets  #: the named parts of the test set, if there are any
    words: list[int]  #: of each source sentence
    notes: list[str]  #: about its references

    def scores(self, systems: Mapping[str, list[str]]) -> TableNumbers:
        names = default_scores(self.target)
        metrics = [build_metric(name, self.target, self.lowercase) for name in names]
        texts = {name: [lines] for name, lines in systems.items()}
        table = score_table("", metrics, texts, [self.references], self.sets)
        return replace(table, label="score")

    def by_length(self, systems: Mapping[str, list[str]]) -> TableNumbers:
        bleu = build_metric("bleu", self.target, self.lowercase)
        texts = {name: [lines] for name, lines in systems.items()}
        return score_by_length(bleu, texts, [self.references], self.words)

    def examples(self, systems: Mapping[str, list[str]]) -> list[SentenceScores]:
        """All sentences with the chrF of each translation."""
        chrf = CHRF(lowercase=self.lowercase)
        texts = zip(self.source, self.references, *systems.values(), strict=True)
        examples = []
        for number, (source, reference, *hypotheses) in enumerate(texts, start=1):
            translations = dict(zip(systems, hypotheses, strict=True))
            scores = {
                name: chrf.sentence_score(line, [reference]).score
                for name, line in translations.items()
            }
            examples.append(SentenceScores(number, source, reference, translations, scores))
        return examples


def extremes(
    examples: Sequence[SentenceScores], value: Callable[[SentenceScores], float]
) -> tuple[list[SentenceScores], list[SentenceScores]]:
    """The sentences with the lowest values, and those with the highest; none twice."""
    ranked = sorted(examples, key=value)
    middle = len(ranked) // 2
    return ranked[:middle][:SHOWN], ranked[middle:][::-1][:SHOWN]


def read_test_set(first: Subject, subset: str, model: ModelOnText) -> TestSet:
    """The test set as the first model has it."""
    trained, sentences, count = first.trained, model.sentences, len(model.sentences)
    target = language(trained.languages[1])
    notes = []
    if first.reference:
        references = _lines(first.reference, subset, count)
    else:
        tokens = joined(sentences.target or [], model.subwords)
        references = list(map(detokeniser(first.tokenizer, target), tokens))
        notes.append(
            "The reference is that of the binarised set, with its subwords joined and its words "
            f"detokenised ({first.tokenizer}). Scores against untouched text are others: "
            "--reference FILE."
        )
    raw, tokenised = trained.text("raw", subset), trained.text("tokenised", subset)
    words = joined(sentences.source, model.subwords)
    if tokenised:
        words = _lines(tokenised[0], subset, count)
    corpus = trained.prepared.path.name if trained.manifest else trained.binary
    about = f"{' to '.join(trained.languages)}; {subset} set of {corpus}: {count:,} sentences"
    sets = trained.manifest.tests if trained.manifest and subset == "test" else {}
    if sets:
        about += f" ({', '.join(f'{name} {size:,}' for name, size in sets.items())})"
    return TestSet(
        about=about,
        source=_lines(raw[0], subset, count) if raw else words,
        references=references,
        target=target,
        lowercase=first.lowercase,
        sets=sets,
        words=count_words(words, "the source"),
        notes=notes,
    )


def _lines(path: Path, subset: str, count: int) -> list[str]:
    text = read_lines(path)
    require_equal({str(path): len(text), subset: count})
    return text
