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
from ..formats import check_languages, check_names, part_writer, read_options

FILES = {
    "train": ["ASPEC-JE/train/train-1.txt", "ASPEC-JE/train/train-2.txt"],
    "valid": ["ASPEC-JE/dev/dev.txt"],
    "test": ["ASPEC-JE/test/test.txt"],
}
_FIELDS = ("similarity", "id", "number", "Japanese", "English")


def read(corpus: Corpus, archives: dict[str, Path], destination: Path) -> None:
    """Options: ``train``, ``valid`` and ``test``, lists of files (default: :data:`FILES`)."""
    options = read_options(corpus.options, dict(FILES))
    check_languages(corpus, "aspec", ("ja", "en"))
    for part in FILES:
        check_names(part, options[part], archives)
        fields = _FIELDS if part == "train" else _FIELDS[1:]
        with part_writer(destination, part, ("ja", "en")) as writer:
            for file in options[part]:
                for pair in read_pairs(archives[file], fields):
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
