"""Probing from task files to accuracies."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

import torch
from torch import Tensor, nn

from ...errors import UserError
from ..inference.sentences import Sentences
from .classifier import Examples, Fit, Settings, train_classifier
from .features import LAST, sentence_vectors
from .tasks import GROUPS, PARTS, TASKS, TaskFile
from .text import Treatment

_SHOWN = 5  # lines that a message names


@dataclass(frozen=True)
class Vectors:
    """A vector for each sentence of a task's file.

    Attributes:
        values: ``[sentences, width]``, in the order of the file.
        unknown: the part of the subwords that are not in the model's dictionary.
    """

    values: Tensor
    unknown: float = 0.0


@dataclass(frozen=True)
class SentenceEncoder:
    """A frozen encoder, from sentences of task files to vectors.

    Args:
        model: in evaluation mode.
        task: the model's, of fairseq; has its dictionaries.
        treatment: what the sentences go through first.
        layer: from 1 = lowest, LAST; see :func:`.features.sentence_vectors`, as for the rest.
        workers: how many processes treat text.
    """

    model: nn.Module
    task: object
    treatment: Treatment
    layer: int = LAST
    end_symbol: bool = True
    max_tokens: int = 4000
    device: str = "cpu"
    workers: int = 1

    def vectors(
        self, file: TaskFile, progress: Callable[[int], object] = lambda done: None
    ) -> Vectors:
        """The vectors of a file's sentences.

        Raises:
            UserError: if sentences are longer than the model takes, have nothing left once they are
                treated, or cannot be encoded.
        """
        sentences = Sentences.of_text(self.task, self.treatment.apply(file.sentences, self.workers))
        empty = [number for number, pieces in enumerate(sentences.source) if not pieces]
        _refuse(file, empty, "nothing is left of the sentence once it is tokenised")
        too_long = sentences.too_long(self.model, self.task)
        _refuse(file, too_long, "the sentence is longer, in subwords, than the model takes")
        unknown = self.task.source_dictionary.unk()
        known = [line.ne(unknown) for line in sentences.dataset.src]
        values = sentence_vectors(
            self.model,
            sentences,
            layer=self.layer,
            end_symbol=self.end_symbol,
            max_tokens=self.max_tokens,
            device=self.device,
            progress=progress,
        )
        # End symbols are no subwords.
        pieces = sum(len(line) - 1 for line in known)
        return Vectors(values, sum(int((~line).sum()) for line in known) / pieces)


def _refuse(file: TaskFile, numbers: list[int], what: str) -> None:
    if numbers:
        lines = ", ".join(str(number + 1) for number in numbers[:_SHOWN])
        more = ", …" if len(numbers) > _SHOWN else ""
        raise UserError(
            f"{file.path}, line {lines}{more}: {what} ({len(numbers):,} such sentences); take them "
            "out of the file"
        )


@dataclass(frozen=True)
class TaskResult:
    """What came out of a task.

    Attributes:
        file: of the task.
        fits: a classifier for each seed.
        unknown: the part of the subwords that the model does not know.
    """

    file: TaskFile
    fits: list[Fit]
    unknown: float = field(default=0.0)

    @property
    def accuracies(self) -> list[float]:
        """On the test part, in per cent, of each seed."""
        return [fit.test for fit in self.fits]

    def as_dict(self) -> dict:
        """For JSON."""
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
    vectors: Callable[[TaskFile], Vectors],
    files: Sequence[TaskFile],
    settings: Settings | None = None,
    seeds: Sequence[int] = (1, 2, 3),
    *,
    device: str = "cpu",
    progress: Callable[[int], object] = lambda done: None,
) -> list[TaskResult]:
    """Probe representations of sentences.

    Args:
        vectors: gives those of a file, as :meth:`SentenceEncoder.vectors` does.
        files: of the tasks.
        settings: of the classifiers; SentEval's if None.
        seeds: a classifier is trained for each.
        device: where to train classifiers.
        progress: is told how many more passes over a training set are done.

    Raises:
        UserError: see :class:`SentenceEncoder`.
    """
    return [
        probe_task(vectors(file), file, settings, seeds, device=device, progress=progress)
        for file in files
    ]


def probe_task(
    vectors: Vectors,
    file: TaskFile,
    settings: Settings | None = None,
    seeds: Sequence[int] = (1, 2, 3),
    *,
    device: str = "cpu",
    progress: Callable[[int], object] = lambda done: None,
) -> TaskResult:
    """Probe the vectors of one task; see :func:`probe`."""
    settings = settings_for(file, settings or Settings())
    numbers = {label: number for number, label in enumerate(file.classes)}
    labels = torch.tensor([numbers[label] for label in file.labels])
    parts = [Examples(vectors.values[at], labels[at]) for at in map(file.places, PARTS)]
    fits = [
        train_classifier(*parts, len(numbers), settings, seed, device=device, progress=progress)
        for seed in seeds
    ]
    return TaskResult(file, fits, vectors.unknown)


def settings_for(file: TaskFile, settings: Settings) -> Settings:
    """The settings for a task: some have no hidden layer."""
    if not file.task.linear:
        return settings
    return Settings(**{**asdict(settings), "hidden": (0,)})


def groups_of(results: Sequence[TaskResult]) -> dict[str, dict]:
    """Mean accuracy of each group of tasks, as in Table 3 of the hybrid-gate paper.

    Returns:
        by group ``accuracy``, ``deviation`` and ``seeds``, as of a task; no group of which
        tasks are missing, since the mean of other tasks is another number.
    """
    found = {result.file.task.name: result for result in results}
    groups = {}
    for group in GROUPS:
        names = [task.name for task in TASKS.values() if task.group == group]
        if all(name in found for name in names):
            by_seed = zip(*(found[name].accuracies for name in names), strict=True)
            groups[group] = _summary([statistics.fmean(accuracies) for accuracies in by_seed])
    return groups


def as_dict(results: Sequence[TaskResult]) -> dict:
    """Results for JSON: ``tasks`` by name and ``groups``."""
    return {
        "tasks": {result.file.task.name: result.as_dict() for result in results},
        "groups": groups_of(results),
    }
