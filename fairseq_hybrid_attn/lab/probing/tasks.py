"""The ten probing tasks of SentEval and their files.

A file has one line per sentence, with fields separated by tabs: the part it belongs to (``tr``,
``va`` or ``te``), its class, and the sentence in tokens separated by spaces.  Source: Conneau et
al. 2018, "What you can cram into a single vector"; the description beside the published files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import UserError
from ..files.checksums import sha256
from ..files.text import read_lines

#: The parts of a file: to train on, to choose by, to report.
PARTS = ("tr", "va", "te")

GROUPS = ("surface", "syntactic", "semantic")


@dataclass(frozen=True)
class Task:
    """A probing task; ``linear``: without a hidden layer, as SentEval does for many classes."""

    name: str
    group: str
    file: str
    linear: bool = False


#: All tasks by name, in the order of the papers' tables.
TASKS = {
    task.name: task
    for task in (
        Task("SentLen", "surface", "sentence_length.txt"),
        Task("WC", "surface", "word_content.txt", linear=True),
        Task("TreeDepth", "syntactic", "tree_depth.txt"),
        Task("TopConst", "syntactic", "top_constituents.txt"),
        Task("BShift", "syntactic", "bigram_shift.txt"),
        Task("Tense", "semantic", "past_present.txt"),
        Task("SubjNum", "semantic", "subj_number.txt"),
        Task("ObjNum", "semantic", "obj_number.txt"),
        Task("SOMO", "semantic", "odd_man_out.txt"),
        Task("CoordInv", "semantic", "coordination_inversion.txt"),
    )
}


@dataclass(frozen=True)
class TaskFile:
    """The sentences of a task, with their parts and classes; ``digest`` is the file's sha256."""

    task: Task
    path: Path
    parts: list[str]
    labels: list[str]
    sentences: list[str]
    digest: str

    @property
    def classes(self) -> list[str]:
        return sorted({self.labels[n] for n in self.places("tr")})

    def places(self, part: str) -> list[int]:
        """The numbers, from 0, of the sentences of a part."""
        return [number for number, name in enumerate(self.parts) if name == part]

    @property
    def majority(self) -> float:
        """The accuracy on ``te``, in per cent, of the most common class of ``tr``."""
        (commonest, _), *_ = Counter(self.labels[n] for n in self.places("tr")).most_common(1)
        tested = self.places("te")
        return 100 * sum(self.labels[n] == commonest for n in tested) / len(tested)


def tasks_named(names: Sequence[str]) -> list[Task]:
    """Tasks by their names, each once, in the order of the papers' tables."""
    unknown = [name for name in names if name not in TASKS]
    if unknown or not names:
        raise UserError(
            f"--tasks: there is no {', '.join(unknown) or 'name'}; choose among {', '.join(TASKS)}"
        )
    return [task for name, task in TASKS.items() if name in names]


def find_files(folder: Path, tasks: Sequence[Task]) -> list[Path]:
    if not folder.is_dir():
        raise UserError(f"--task-files {folder}: there is no such folder")
    missing = [task.file for task in tasks if not (folder / task.file).is_file()]
    if missing:
        there = [task.name for task in TASKS.values() if (folder / task.file).is_file()]
        way_out = "SentEval's are in its data/probing; examples/probing/make_tasks.py makes some"
        if there:
            way_out = f"--tasks {','.join(there)} takes the existing ones"
        raise UserError(f"--task-files {folder}: there is no {', '.join(missing)}; {way_out}")
    return [folder / task.file for task in tasks]


def read_task(path: Path, task: Task) -> TaskFile:
    parts, labels, sentences = [], [], []
    for number, line in enumerate(read_lines(path), 1):
        fields = line.split("\t")
        words = fields[-1].split()  # further fields may precede the sentence
        if len(fields) < 3 or fields[0] not in PARTS or not fields[1].strip() or not words:
            raise UserError(
                f"{path}, line {number}: use part ({', '.join(PARTS)}), class and sentence, "
                "separated by tabs"
            )
        parts.append(fields[0])
        labels.append(fields[1])
        sentences.append(" ".join(words))
    file = TaskFile(task, path, parts, labels, sentences, sha256(path))
    if not set(PARTS) <= set(parts) or len(file.classes) < 2:
        raise UserError(
            f"{path}: a task has sentences of all of {', '.join(PARTS)}, and at least two classes "
            "in tr"
        )
    if unknown := sorted(set(labels).difference(file.classes)):
        raise UserError(f"{path}: not in tr, so it cannot be learned: class {', '.join(unknown)}")
    return file
