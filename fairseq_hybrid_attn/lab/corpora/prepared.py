"""The folder of a prepared corpus: which file lies where.

manifest.json   how the text was treated
raw/            untouched text, PART.LANGUAGE; tests.json: the sets that the test text has
tokenised/      the same in tokens
subwords/       the same in subwords; and the models that split words
bin/            dictionaries and binarised sets, as fairseq's commands take them
aligned/        the same with word alignments of the training text
gold/           hand-aligned sentences (see ``gold.py``)

A run and an exported model keep of it what prepares text for a model.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from .definition import TEST_SETS, Subwords
from .manifest import NAME
from .subwords import model_name


@dataclass(frozen=True)
class PreparedFolder:
    path: Path

    manifest = property(lambda self: self.path / NAME)
    binary = property(lambda self: self.path / "bin")
    aligned = property(lambda self: self.path / "aligned")
    subwords = property(lambda self: self.path / "subwords")
    test_sets = property(lambda self: self.path / "raw" / TEST_SETS)

    def text(self, form: str, subset: str, language: str) -> Path:
        """A set, ``raw``, ``tokenised`` or in ``subwords``."""
        return self.path / form / f"{subset}.{language}"

    def gold_file(self, name: str) -> Path:
        return self.path / "gold" / name

    def splitter(self, subwords: Subwords, language: str) -> Path:
        """The model that splits the words of a language."""
        return self.subwords / model_name(subwords, language)

    @property
    def of_model(self) -> list[Path]:
        """The files that prepare text for a model."""
        names = (NAME, "bin/dict.*.txt", "subwords/subwords*.codes", "subwords/subwords*.model")
        return [path for name in names for path in sorted(self.path.glob(name))]

    @property
    def copied(self) -> list[Path]:
        """What :meth:`copy_for_model` makes in this folder."""
        return [self.manifest, self.binary, self.subwords]

    def copy_for_model(self, to: Path) -> None:
        for path in self.of_model:
            copy = to / path.relative_to(self.path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
