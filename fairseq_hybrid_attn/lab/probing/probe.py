"""Probing from task files to accuracies."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor, nn

from ...errors import UserError
from ..look.sentences import Sentences, some
from .classifier import Examples, Fit, ProbeSettings, train_classifier
from .features import LAST, sentence_vectors
from .tasks import GROUPS, PARTS, TASKS, TaskFile
from .treatment import SentenceTreatment


@dataclass(frozen=True)
class Vectors:
    """Vectors ``[sentences, width]`` of a file; ``unknown`` is the share of unknown subwords."""

    values: Tensor
    unknown: float = 0.0


@dataclass(frozen=True)
class SentenceEncoder:
    """A frozen encoder, from sentences of task files to vectors.

    ``model`` is in evaluation mode, ``task`` its fairseq task; ``workers`` processes treat text.
    The rest is as for :func:`.features.sentence_vectors`.
    """

    model: nn.Module
    task: object
    treatment: SentenceTreatment
    layer: int = LAST
    end_symbol: bool = True
    max_tokens: int = 4000
    device: str = "cpu"
    workers: int = 1

    def vectors(
        self, file: TaskFile, progress: Callable[[int], object] = lambda done: None
    ) -> Vectors:
        sentences = Sentences.of_text(self.task, self.treatment.apply(file.sentences, self.workers))
        empty = [number for number, pieces in enumerate(sentences.source) if not pieces]
        _refuse(file, empty, "nothing is left of the sentence once it is tokenised")
        too_long = sentences.too_long(self.model, self.task)
        _refuse(file, too_long, "the sentence is longer, in subwords, than the model takes")
        values = sentence_vectors(
            self.model,
            sentences,
            layer=self.layer,
            end_symbol=self.end_symbol,
            max_tokens=self.max_tokens,
            device=self.device,
            progress=progress,
        )
        subwords = torch.cat([line[:-1] for line in sentences.dataset.src])  # no end symbols
        unknown = subwords.eq(self.task.source_dictionary.unk())
        return Vectors(values, int(unknown.sum()) / len(subwords))


def _refuse(file: TaskFile, numbers: list[int], what: str) -> None:
    if numbers:
        raise UserError(
            f"{file.path}, {some(numbers)}: {what} ({len(numbers):,} in all); remove its line"
        )


@dataclass(frozen=True)
class TaskResult:
    """A probed task: its file, a classifier for each seed, and ``unknown`` of :class:`Vectors`."""

    file: TaskFile
    fits: list[Fit]
    unknown: float = 0.0

    @property
    def accuracies(self) -> list[float]:
        """On the test part, in per cent, of each seed."""
        return [fit.test for fit in self.fits]

    def as_dict(self) -> dict:
        return {
            **_summary(self.accuracies),
            "majority": self.file.majority,
            "classes": len(self.file.classes),
            "sentences": {part: len(self.file.places(part)) for part in PARTS},
            "unknown_subwords": self.unknown,
            "file": self.file.task.file,
            "sha256": self.file.digest,
            "classifiers": [asdict(fit) for fit in self.fits],
        }


def _summary(accuracies: Sequence[float]) -> dict:
    return {
        "accuracy": statistics.fmean(accuracies),
        "deviation": statistics.stdev(accuracies) if len(accuracies) > 1 else None,
        "seeds": list(accuracies),
    }


def probe(
    vectors: Vectors,
    file: TaskFile,
    settings: ProbeSettings | None = None,
    seeds: Sequence[int] = (1, 2, 3),
    *,
    device: str = "cpu",
    progress: Callable[[int], object] = lambda done: None,
) -> TaskResult:
    """Probe vectors of a task's sentences: train a classifier for each seed.

    ``settings`` are SentEval's if None; tasks with many classes have no hidden layer.
    """
    settings = settings or ProbeSettings()
    if file.task.linear:
        settings = replace(settings, hidden=(0,))
    numbers = {label: number for number, label in enumerate(file.classes)}
    labels = torch.tensor([numbers[label] for label in file.labels])
    parts = [Examples(vectors.values[at], labels[at]) for at in map(file.places, PARTS)]
    fits = [
        train_classifier(*parts, len(numbers), settings, seed, device=device, progress=progress)
        for seed in seeds
    ]
    return TaskResult(file, fits, vectors.unknown)


def as_dict(results: Sequence[TaskResult]) -> dict:
    """Return results for JSON: ``tasks`` by name, and ``groups``.

    A group has the mean accuracy of its tasks (hybrid gate, Table 3).  One with a missing task is
    left out, since the mean of other tasks is another number.
    """
    by_name = {result.file.task.name: result for result in results}
    groups = {}
    for group in GROUPS:
        names = [task.name for task in TASKS.values() if task.group == group]
        if all(name in by_name for name in names):
            by_seed = zip(*(by_name[name].accuracies for name in names), strict=True)
            groups[group] = _summary([statistics.fmean(accuracies) for accuracies in by_seed])
    tasks = {name: result.as_dict() for name, result in by_name.items()}
    return {"tasks": tasks, "groups": groups}
