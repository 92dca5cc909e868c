r"""Reading and writing text: UTF-8, one sentence a line, lines end at ``\n`` or ``\r\n`` alone.

``str.splitlines`` would split at other characters too, such as U+2028, which occur within
sentences of real corpora.
"""

from __future__ import annotations

import contextlib
import gzip
import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from ...errors import UserError
from .processes import in_order
from .writing import atomic_write

#: What reading a damaged or cut-off gzip file raises.
DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)


def decoded(stream: Iterable[bytes], location: object) -> Iterator[str]:
    """Decode lines, without their ends and without a byte order mark at the beginning of a file.

    ``location`` is where the lines are, for messages.
    """
    number, text = 0, ""
    for number, line in enumerate(stream, 1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{location}, line {number}: not UTF-8 (byte 0x{line[error.start]:02x}); "
                "convert the file, for example with iconv"
            ) from error
        if number == 1:
            text = text.removeprefix("\ufeff")
        text = text.removesuffix("\n").removesuffix("\r")
        yield text
    if number == 1 and "\r" in text:
        raise UserError(
            f"{location}: its lines end in carriage returns alone, so all of it is one line; "
            r"convert it, for example with tr '\r' '\n'"
        )


def lines(path: Path) -> Iterator[str]:
    """Read the lines of a text file, which may be a ``.gz``."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            yield from decoded(file, path)
    except DAMAGED as error:
        raise UserError(f"{path} is damaged or cut off") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from error


def read_lines(path: Path) -> list[str]:
    """Read all lines of a text file; refuse an empty one."""
    text = list(lines(path))
    if not text:
        raise UserError(f"{path} is empty")
    return text


def count_lines(path: Path) -> int:
    return sum(1 for _ in lines(path))


def pairs(first: Path, second: Path) -> Iterator[tuple[str, str]]:
    """Read two files line by line; refuse them if one has more lines than the other."""
    try:
        yield from zip(lines(first), lines(second), strict=True)
    except ValueError:  # of zip
        require_equal({str(path): count_lines(path) for path in (first, second)})


def require_equal(counts: dict[str, int], advice: str = "") -> None:
    """Refuse texts that differ in their numbers of lines, given by name."""
    if len(set(counts.values())) > 1:
        numbers = ", but ".join(f"{name} has {count:,} lines" for name, count in counts.items())
        raise UserError(f"{numbers}; they must be translations of each other, line by line{advice}")


def writing(path: Path) -> TextIO:
    return open(path, "w", encoding="utf-8", newline="\n")


def write_lines(path: Path, content: Iterable[str]) -> None:
    with writing(path) as file:
        file.writelines(f"{line}\n" for line in content)


class ParallelWriter(contextlib.ExitStack):
    """The files of a parallel text, open for writing; line n of each belongs together."""

    def __init__(self, *paths: Path):
        super().__init__()
        self.paths, self.count = paths, 0

    def __enter__(self) -> ParallelWriter:
        self.files = [self.enter_context(writing(path)) for path in self.paths]
        return self

    def write(self, row: Sequence[str]) -> None:
        for file, line in zip(self.files, row, strict=True):
            file.write(f"{line}\n")
        self.count += 1


#: The number of lines that a worker rewrites at a time.
BLOCK = 1000


def rewrite(
    source: Path, destination: Path, function: Callable[..., str], arguments: tuple, workers: int
) -> None:
    """Write ``function(line, *arguments)`` for every line of a file, in several processes.

    The destination appears when complete, and is the same for any number of workers.  Memory
    stays bounded whatever the size of the file.
    """
    text = lines(source)
    blocks = iter(lambda: list(itertools.islice(text, BLOCK)), [])
    tasks = ((block, function, arguments) for block in blocks)
    with atomic_write(destination) as file:
        file.writelines(in_order(_rewrite_block, tasks, workers))


def _rewrite_block(task: tuple[list[str], Callable[..., str], tuple]) -> bytes:
    block, function, arguments = task
    return "".join(f"{function(line, *arguments)}\n" for line in block).encode()
