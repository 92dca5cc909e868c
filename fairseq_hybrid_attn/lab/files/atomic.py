"""Files: text is read line by line, results are written whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from ...errors import UserError


def read_lines(path: Path) -> list[str]:
    r"""Read a text file in UTF-8, one sentence a line.

    Lines end at ``\n`` (or ``\r\n``) alone.  ``str.splitlines`` would split at further
    characters, such as U+2028, that occur within the sentences of real corpora.

    Raises:
        UserError: if the file is missing, empty or not UTF-8.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    if not content:
        raise UserError(f"{path} is empty")
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{path}, line {line}: not UTF-8 (byte 0x{content[error.start]:02x}); "
            "convert the file, for example with iconv"
        ) from error
    if not lines[-1]:
        lines.pop()  # the newline at the end of the file ends a line and begins none
    return [line.removesuffix("\r") for line in lines]


def check_outputs(outputs: dict[str, Path], inputs: Iterable[Path]) -> None:
    """See to it, before the work, that results can be written without harm to anything.

    Args:
        outputs: the files to write, by their flags.
        inputs: the files that the command reads.

    Raises:
        UserError: if an output is one of the inputs or another output, is a directory, or
            lies in a directory that does not exist.
    """
    taken = {file_identity(path): f"{path} is one of the inputs" for path in inputs}
    for flag, path in outputs.items():
        if path.is_dir():
            raise UserError(f"{flag} {path} is a directory; name a file")
        if not path.parent.is_dir():
            raise UserError(f"{flag} {path}: there is no directory {path.parent}")
        identity = file_identity(path)
        if identity in taken:
            raise UserError(f"{flag} {path}: {taken[identity]}; choose another name")
        taken[identity] = f"{flag} writes there too"


def file_identity(path: Path) -> tuple:
    """Equal for two names of one file, be they links; a file need not exist."""
    try:
        status = path.stat()
    except OSError:
        return (os.path.realpath(path),)
    return (status.st_dev, status.st_ino)


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Write a file that appears under its name when complete, or not at all.

    Whatever goes wrong, Ctrl-C included, an older file of that name stays as it was and
    nothing else is left behind.

    Raises:
        UserError: if the file cannot be written.
    """
    # In the same directory, since a file cannot be renamed across file systems.
    # Of a name of its own: in containers, many processes have one number.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # else a crash could leave the name with an empty file
        os.replace(temporary, path)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):  # there is none after os.replace
            temporary.unlink()


def read_json(path: Path) -> dict | None:
    """A JSON file; None if there is none.

    Raises:
        UserError: if it cannot be read or is no JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}); delete it and run again") from None


def write_json(path: Path, content: dict) -> None:
    """Write a JSON file, whole or not at all.

    Raises:
        UserError: if it cannot be written.
    """
    with atomic_write(path) as file:
        file.write(f"{json.dumps(content, indent=2, ensure_ascii=False)}\n".encode())


def sha256(path: Path) -> str:
    """The checksum of a file.

    Raises:
        UserError: if it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error


def digest(data: object) -> str:
    """The sha256 of plain data, in hexadecimal."""
    text = json.dumps(data, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
