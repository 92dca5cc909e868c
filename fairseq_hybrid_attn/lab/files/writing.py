"""Writing results: checks of where they go, and atomic writes."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from ...errors import UserError

#: What --write writes, by the ending of a file's name.
ENDINGS = {
    "table": (".md", ".csv"),
    "data": (".json",),
    "figure": (".png", ".pdf", ".svg"),
    "page": (".html",),
}

#: Bytes of a folder's name.  File systems take 255; some endings are added.
LONGEST_FOLDER = 240


def say(line: str) -> None:
    """Print a line of progress at once, whole even if several threads print.

    Work goes on if nobody can read it.  At the end, the command then fails.
    """
    with contextlib.suppress(OSError):
        print(f"{line}\n", end="", flush=True)


def check_outputs(
    outputs: Mapping[str, Path | Sequence[Path] | None], inputs: Iterable[Path | None]
) -> None:
    """Check up front that output files, by flag, can be written and overwrite no input.

    None, for a flag that is not given, is skipped on both sides.
    """
    taken = {file_identity(path): f"{path} is one of the inputs" for path in inputs if path}
    named = {flag: [one] if isinstance(one, Path) else one or [] for flag, one in outputs.items()}
    for flag, path in ((flag, path) for flag, paths in named.items() for path in paths):
        if path.is_dir():
            raise UserError(f"{flag} {path} is a directory; name a file")
        if path.exists() and not path.is_file():
            raise UserError(f"{flag} {path} is not a regular file; name another")
        if not path.parent.is_dir():
            raise UserError(f"{flag} {path}: there is no directory {path.parent}")
        identity = file_identity(path)
        if identity in taken:
            raise UserError(f"{flag} {path}: {taken[identity]}; choose another name")
        taken[identity] = f"{flag} writes there too"
        try:  # as atomic_write does; nothing stays
            tempfile.TemporaryFile(dir=Path(os.path.realpath(path)).parent).close()
        except OSError as error:
            raise UserError(f"{flag} {path} cannot be written: {error.strerror}") from error


def kind_of(path: Path) -> str:
    """What a file is, by the ending of its name: one of :data:`ENDINGS`; empty if none is."""
    ending = path.suffix.lower()
    return next((kind for kind, endings in ENDINGS.items() if ending in endings), "")


def check_written(
    paths: Sequence[Path],
    kinds: Iterable[str],
    inputs: Iterable[Path | None],
    others: Mapping[str, Path | None] | None = None,
) -> None:
    """Check up front the files of --write, of these kinds, and ``others``, by flag."""
    endings = [ending for kind in kinds for ending in ENDINGS[kind]]
    if wrong := [path for path in paths if path.suffix.lower() not in endings]:
        raise UserError(f"--write {wrong[0]}: use a name that ends in {', '.join(endings)}")
    check_outputs({"--write": paths, **(others or {})}, inputs)


def check_for_fairseq(path: Path, marks: str = ":") -> None:
    """Refuse a path that fairseq would split at one of these marks, or whose name is too long.

    All its programs split at colons, fairseq-preprocess at commas as well.
    """
    if len(path.name.encode()) > LONGEST_FOLDER:
        raise UserError(f"{path.name}: this name is too long; use a shorter one")
    if found := [mark for mark in marks if mark in str(path.absolute())]:
        problem = f"fairseq splits paths at {found[0]!r}; rename the folder, or name another"
        raise UserError(f"{path.absolute()}: {problem}")


def file_identity(path: Path) -> tuple:
    """Return the same key for all names of a file, links included; the file need not exist."""
    try:
        status = path.stat()
    except OSError:
        return (os.path.realpath(path),)
    return (status.st_dev, status.st_ino)


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Write a file that appears under its name when complete; until then, an older one stays.

    A link stays; the file that it leads to is replaced.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():  # as /dev/null, which would be gone
        raise UserError(f"{path} is not a regular file; name another")
    # In the same directory, since a file cannot be renamed across file systems.
    # Under a random name: in containers, many processes have the same ID.
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")  # shorter than any limit
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # else a crash could leave an empty file
        os.replace(temporary, path)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):  # it is gone after os.replace
            temporary.unlink()


def make_folder(flag: str, path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{flag} {path} cannot be made: {error.strerror}") from error


def write_text(path: Path, text: str) -> None:
    with atomic_write(path) as file:
        file.write(text.encode(errors="backslashreplace"))  # names of files may be Latin-1


def write_page(path: Path, text: str) -> None:
    """Write a page, and say where it is."""
    write_text(path, text)
    say(f"{path.absolute()}: open it in a browser")
