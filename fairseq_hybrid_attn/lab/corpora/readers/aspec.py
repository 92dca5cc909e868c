"""ASPEC-JE, the Japanese-English scientific abstracts of the Workshop on Asian Translation.

A line of the training sections is ``similarity ||| id ||| number ||| Japanese ||| English``;
the other files have no similarity.  The sections are sorted by it: the first two
hold the two million best pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ....errors import UserError
from ...files.text import lines
from ..definition import Corpus
from ..formats import check_languages, part_writer

#: The folder of each part; those of its files that are archives of the recipe are read.
FOLDERS = {"train": "ASPEC-JE/train/", "valid": "ASPEC-JE/dev/", "test": "ASPEC-JE/test/"}
_FIELDS = ("similarity", "id", "number", "Japanese", "English")


def takes(corpus: Corpus, file: str) -> bool:
    return file.startswith(tuple(FOLDERS.values()))


def read(corpus: Corpus, archives: dict[str, Path], destination: Path) -> None:
    check_languages(corpus, "aspec", ("ja", "en"))
    for part, folder in FOLDERS.items():
        fields = _FIELDS if part == "train" else _FIELDS[1:]
        with part_writer(destination, part, ("ja", "en")) as writer:
            for file, path in archives.items():
                if file.startswith(folder):
                    for pair in read_pairs(path, fields):
                        writer.write(pair)


def read_pairs(path: Path, fields: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the Japanese and the English of every line, which must have these fields."""
    count = 0
    for count, line in enumerate(lines(path), 1):
        values = line.split("|||")
        if len(values) != len(fields):
            raise UserError(
                f"{path}, line {count}: {len(values)} fields instead of {len(fields)}, "
                f"{' ||| '.join(fields)}; is it the file as ASPEC delivers it?"
            )
        yield values[-2].strip(" "), values[-1].strip(" ")
    if not count:
        raise UserError(f"{path} is empty")
