"""Probing from task files to accuracies.

Sentences are treated like the model's training text: with other tokens or subwords, a model would
silently seem to know less.  So the steps are those of ``fairseq-hybrid prepare``, by the same code.
The published sentences are tokenised.  They are detokenised first, since a tokeniser changes tokens
(``don 't`` must become ``don &apos;t``).
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace

import torch
from torch import Tensor, nn
from tqdm import tqdm

from ...errors import UserError
from ..corpora.subwords import splitter
from ..corpora.tokenisers import detokeniser
from ..files.checksums import sha256
from ..files.provenance import code, hardware, versions
from ..models.loading import load_model
from ..models.sentences import Sentences, some
from ..models.trained import TrainedModel
from . import AS_TRAINED, SUBWORDS, ProbeSettings
from .classifier import Examples, Fit, train_classifier
from .features import LAST, sentence_vectors
from .tasks import GROUPS, PARTS, TASKS, TaskFile

#: Share of unknown subwords above which sentences seem to be treated unlike the training text.
_SUSPICIOUS = 0.02


def preparation(trained: TrainedModel, language: str, tokens: str) -> Callable[[str], str]:
    """The function that turns a sentence of a task file into the model's subwords.

    ``tokens`` is the tokeniser that made the sentence, one of ``KINDS``, or AS_TRAINED.
    """
    if tokens == AS_TRAINED:
        split = splitter(trained.subwords.kind, trained.subword_files[language])
        return (lambda line: split(line.lower())) if trained.treatment.lowercase else split
    undo, prepare = detokeniser(tokens, language), trained.preparation(language)
    return lambda line: prepare(undo(line))


def vectors_of(
    file: TaskFile, model: nn.Module, task, prepare: Callable[[str], str], **settings
) -> tuple[Tensor, float]:
    """Vectors ``[sentences, d]`` of a task's sentences, and the share of unknown subwords.

    ``settings`` are those of :func:`.features.sentence_vectors`.
    """
    sentences = Sentences.of_text(task, list(map(prepare, file.sentences)))
    empty = [number for number, pieces in enumerate(sentences.source) if not pieces]
    for numbers, what in (
        (empty, "nothing is left of the sentence once it is tokenised"),
        (sentences.too_long(model, task), "the sentence is longer than the model takes"),
    ):
        if numbers:
            raise UserError(
                f"{file.path}, {some(numbers)}: {what} ({len(numbers):,} in all); remove its line"
            )
    subwords = torch.cat([line[:-1] for line in sentences.dataset.src])  # no end symbols
    unknown = subwords.eq(task.source_dictionary.unk())
    return sentence_vectors(model, sentences, **settings), int(unknown.sum()) / len(subwords)


def probe(
    vectors: Tensor,
    file: TaskFile,
    settings: ProbeSettings,
    seeds: Iterable[int],
) -> list[Fit]:
    """Train a classifier for each seed on the vectors ``[sentences, d]`` of a task's sentences.

    Tasks with many classes have no hidden layer.
    """
    if file.task.linear:
        settings = replace(settings, hidden=(0,))
    numbers = {label: number for number, label in enumerate(file.classes)}
    labels = torch.tensor([numbers[label] for label in file.labels], device=vectors.device)
    parts = [Examples(vectors[at], labels[at]) for at in map(file.places, PARTS)]
    return [train_classifier(parts, len(numbers), settings, seed) for seed in seeds]


def group_means(tasks: Mapping[str, dict]) -> dict[str, dict]:
    """The mean accuracy of each group of tasks (hybrid gate, Table 3), from ``tasks`` by name.

    A group with a missing task is left out, since the mean of other tasks is another number.
    """
    groups = {}
    for group in GROUPS:
        names = [task.name for task in TASKS.values() if task.group == group]
        if all(name in tasks for name in names):
            by_seed = zip(*(tasks[name]["seeds"] for name in names), strict=True)
            groups[group] = _summary(list(map(statistics.fmean, by_seed)))
    return groups


def _summary(accuracies: list[float]) -> dict:
    return {
        "accuracy": statistics.fmean(accuracies),
        "deviation": statistics.stdev(accuracies) if len(accuracies) > 1 else None,
        "seeds": accuracies,
    }


def probe_model(
    trained: TrainedModel,
    files: Sequence[TaskFile],
    settings: ProbeSettings,
    *,
    layer: str = "last",
    end_symbol: bool = True,
    tokens: str = "moses",
    seeds: int = 3,
    device: str = "cpu",
    max_tokens: int = 4000,
) -> dict:
    """Probe an encoder on tasks: what `probe --write` writes.

    ``layer`` is a number from 0, or ``last``; ``tokens``: what made the tokens of the files, one of
    ``KINDS``, AS_TRAINED or SUBWORDS; ``seeds``: how many classifiers are trained for a task.
    """
    prepare: Callable[[str], str] = str
    if tokens != SUBWORDS:
        if trained.manifest is None:
            raise UserError(
                f"{trained.binary} is not by `prepare`, and does not say how text is treated: give "
                f"--data DIR; or task files in the model's subwords, and --tokens {SUBWORDS}"
            )
        prepare = preparation(trained, trained.languages[0], tokens)
    model, task = load_model(trained)
    how = {"layer": LAST if layer == "last" else int(layer), "end_symbol": end_symbol}
    tasks = {}
    for file in files:
        name = file.task.name
        with _bar(f"{name}: sentences", total=len(file.sentences)) as bar:
            where = {"device": device, "max_tokens": max_tokens, "progress": bar.update}
            vectors, unknown = vectors_of(file, model.to(device), task, prepare, **where, **how)
        if unknown > _SUSPICIOUS:
            print(
                f"warning: {file.path}: the model does not know {100 * unknown:.1f} % of the "
                "subwords; is the text treated like the training text?",
                file=sys.stderr,
            )
        each = _bar(f"{name}: classifiers", range(1, seeds + 1))
        fits = probe(vectors.to(device), file, settings, each)
        tasks[name] = {
            **_summary([fit.test for fit in fits]),
            "majority": file.majority,
            "classes": len(file.classes),
            "sentences": {part: len(file.places(part)) for part in PARTS},
            "unknown_subwords": unknown,
            "file": file.task.file,
            "sha256": file.digest,
            "classifiers": list(map(asdict, fits)),
        }
    return {
        "tasks": tasks,
        "groups": group_means(tasks),
        "model": str(trained.path),
        "model_sha256": sha256(trained.checkpoint),
        "layer": layer,
        "end_symbol": "in" if end_symbol else "out",
        "tokens": tokens,
        "classifier": asdict(settings),
        "versions": versions(),
        "code": code(),
        "hardware": hardware(),
    }


def _bar(title: str, steps=None, total: int | None = None) -> tqdm:
    return tqdm(steps, desc=title, total=total, file=sys.stderr, leave=False, disable=None)
