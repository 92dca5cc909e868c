r"""Reading and writing text: UTF-8, one sentence a line, lines end at ``\n`` alone.

``str.splitlines`` would split at further characters, such as U+2028, that occur within the
sentences of real corpora.
"""

from __future__ import annotations

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

from ...errors import UserError

#: What reading a damaged or cut-off gzip file raises.
DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)


def lines(path: Path) -> Iterator[str]:
    r"""The lines of a text file, also of a ``.gz``, without their ends (``\n`` or ``\r\n``).

    Raises:
        UserError: if it cannot be read, is damaged, or is not UTF-8; naming file and line.
    """
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                yield decode(line, path, number)
    except DAMAGED as error:
        raise UserError(f"{path} is damaged or cut off after line {number}") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from error


def decode(line: bytes, place: object, number: int) -> str:
    """Decode a line, without its end and without a byte order mark at the beginning of a file.

    Raises:
        UserError: if it is not UTF-8, with the place and number given.
    """
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{place}, line {number}: not UTF-8 (byte 0x{line[error.start]:02x}); "
            "convert the file, for example with iconv"
        ) from error
    if number == 1:
        text = text.removeprefix("\ufeff")
    return text.removesuffix("\n").removesuffix("\r")


@contextlib.contextmanager
def writing(path: Path) -> Iterator[TextIO]:
    """Open a text file to write."""
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        yield file


def count_lines(path: Path) -> int:
    """How many lines a file has."""
    with open(path, "rb") as file:
        return sum(1 for _ in file)


def pairs(first: Path, second: Path) -> Iterator[tuple[str, str]]:
    """The lines of two files that belong together.

    Raises:
        UserError: if one has more than the other, with both numbers.
    """
    others = lines(second)
    count = 0
    for line in lines(first):
        other = next(others, None)
        if other is None:
            _refuse(first, count + 1 + sum(1 for _ in _rest(first, count + 1)), second, count)
        count += 1
        yield line, other
    more = sum(1 for _ in others)
    if more:
        _refuse(first, count, second, count + more)


def _rest(path: Path, skip: int) -> Iterator[str]:
    for number, line in enumerate(lines(path)):
        if number >= skip:
            yield line


def _refuse(first: Path, count: int, second: Path, other: int) -> None:
    raise UserError(
        f"{first} has {count:,} lines, but {second} has {other:,}; "
        "line by line, they have to be translations of each other"
    )


@contextlib.contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """Open a file to read bytes from.

    Raises:
        UserError: if that cannot be done.
    """
    try:
        file = open(path, "rb")  # noqa: SIM115  (only the opening belongs within the try)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    with file:
        yield file
