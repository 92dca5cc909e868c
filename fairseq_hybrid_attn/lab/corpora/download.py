"""The archives of a corpus: taken from a folder, or downloaded to it, and held to a checksum.

A download goes to ``<file>.partial`` and gets its name when it is whole.  Broken off, it is
gone on with if the server can tell that it still has the same file (HTTP Range and If-Range),
else begun again.

A checksum that the recipe does not know is recorded at the first download, in
``<file>.sha256`` beside it, and held to afterwards.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ... import __version__
from ...errors import UserError
from ..engine.lock import locked
from ..files.checksums import sha256
from ..files.writing import atomic_write
from .definition import Archive

ATTEMPTS = 4  # at one place, as long as the connection is what fails
PAUSE = 2.0  # seconds before the second attempt; doubled for every further one
TIMEOUT = 60  # seconds without a byte
_BLOCK = 1 << 18

#: Worth trying again at the same place.
_TEMPORARY = (408, 425, 429, 500, 502, 503, 504)

Say = Callable[[str], None]


class BrokenOffError(Exception):
    """The connection ended before the file did; what has arrived is kept."""


class UnavailableError(Exception):
    """This place does not have the file, or not the right one."""


def place(archive: Archive, folder: Path) -> Path:
    """Where an archive is, or will be."""
    return archive.path or folder / archive.file


def identify(archive: Archive, folder: Path) -> str | None:
    """The checksum of an archive that is on disk; None if it is not.

    Raises:
        UserError: if it is not the file that it has to be.
    """
    path = place(archive, folder)
    if archive.path is None and not path.is_file():
        return None
    found = sha256(path)
    if archive.path is not None:  # the user's own text: whatever it is, it is right
        return found
    if archive.sha256 and found != archive.sha256:
        raise UserError(
            f"{path} is damaged or another file: its sha256 is {found}, it should be "
            f"{archive.sha256}. Delete it and run this again"
        )
    recorded = _recorded(path)
    if recorded and found != recorded:
        raise UserError(
            f"{path} is not what it was: its sha256 is {found}, recorded in {_record(path).name} "
            f"was {recorded}. Delete the archive to get it again, or {_record(path).name} to "
            "accept it as it is"
        )
    if not archive.sha256 and not recorded:
        _write_record(path, found)
    return found


def fetch(archive: Archive, folder: Path, say: Say) -> str:
    """Have an archive on disk, by downloading it if it is not there.

    Args:
        archive: which.
        folder: where archives lie.
        say: is told what happens.

    Returns:
        its checksum.

    Raises:
        UserError: if it is the wrong file, or cannot be had from any of its places.
    """
    found = identify(archive, folder)
    if found:
        return found
    path = place(archive, folder)
    if not archive.urls:
        raise UserError(
            f"{path} is missing, and is not to be downloaded freely. "
            + (archive.obtain or "Put it there")
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path.parent} cannot be made: {error.strerror}") from error
    # Two corpora may want the same archive at the same time.
    with locked(path.parent / ".downloads.lock", say):
        return identify(archive, folder) or _from_any_place(archive, path, say)


def _from_any_place(archive: Archive, path: Path, say: Say) -> str:
    """Download from the first place that has the file.

    Raises:
        UserError: if none has, with what each of them said.
    """
    failures = []
    for url in archive.urls:
        say(f"downloading {url}")
        try:
            return _from_place(archive, url, path, say)
        except UnavailableError as error:
            say(f"not from there: {error}")
            failures.append(f"{url}: {error}")
    raise UserError(
        "\n  ".join(
            [
                f"{archive.file} could not be downloaded:",
                *failures,
                f"If you have it from elsewhere, put it at {path}",
            ]
        )
    )


def _from_place(archive: Archive, url: str, path: Path, say: Say) -> str:
    """Download from one place, trying again as long as connections break off."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _transfer(url, _partial(path), say)
            break
        except BrokenOffError as error:
            if attempt == ATTEMPTS:
                raise UnavailableError(f"{error}, {ATTEMPTS} times") from error
            say(f"{error}; trying again")
            time.sleep(PAUSE * 2 ** (attempt - 1))
        except OSError as error:  # of the disk: those of the network are sorted out below
            raise UserError(f"{_partial(path)} cannot be written: {error.strerror}") from error
    return _accept(archive, path)


def _accept(archive: Archive, path: Path) -> str:
    """Give a whole download its name, if it is the right file."""
    partial = _partial(path)
    found = sha256(partial)
    wanted = archive.sha256 or _recorded(path)
    if wanted and found != wanted:
        partial.unlink()
        _state(partial).unlink(missing_ok=True)
        raise UnavailableError(f"another file: its sha256 is {found}, it should be {wanted}")
    if not wanted:
        _write_record(path, found)
    os.replace(partial, path)
    _state(partial).unlink(missing_ok=True)
    return found


@dataclass
class Partial:
    """What is known about a download that has begun.

    Args:
        url: where it comes from.
        validator: the server's mark of this version of the file.
        length: of the whole file, if the server said so.
    """

    url: str
    validator: str | None
    length: int | None


def _transfer(url: str, partial: Path, say: Say) -> None:
    """Download to ``partial``, going on with what is there if that is possible.

    Raises:
        BrokenOffError: if the connection failed.
        UnavailableError: if the server has no such file.
        OSError: if the disk did.
    """
    begun = _begun(partial, url)
    start = partial.stat().st_size if begun else 0
    request = urllib.request.Request(
        url, headers={"User-Agent": f"fairseq-hybrid-attn/{__version__}"}
    )
    if start:
        request.add_header("Range", f"bytes={start}-")
        request.add_header("If-Range", begun.validator)
    with _network():
        response = _open(request)
    with response:
        if start and response.status == 206 and _first_byte(response) == start:
            say(f"going on at byte {start:,}")
            length, mode = begun.length, "ab"
        elif response.status in (200, None):  # None: file:// and the like
            length, mode, start = _length(response), "wb", 0
            state = Partial(url, _validator(response), length)
            _state(partial).write_text(json.dumps(state.__dict__), encoding="utf-8")
        else:
            _state(partial).unlink(missing_ok=True)
            raise BrokenOffError(f"answer {response.status} to a request for the rest")
        with open(partial, mode) as file:
            arrived = _copy(response, file, start, length)
            file.flush()
            os.fsync(file.fileno())
    if length is not None and arrived != length:
        raise BrokenOffError(f"broken off after {arrived:,} of {length:,} bytes")


def _open(request: urllib.request.Request):
    try:
        return urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416 and request.has_header("Range"):
                # What we have is no beginning of what is there: begin again.
                request.remove_header("Range")
                request.remove_header("If-range")
                return urllib.request.urlopen(request, timeout=TIMEOUT)
            if error.code in _TEMPORARY:
                raise BrokenOffError(f"the server answers {error.code} {error.reason}") from error
            raise UnavailableError(f"{error.code} {error.reason}") from error


@contextlib.contextmanager
def _network():
    """Tell a failure of the network from one of the disk; both are OSErrors."""
    try:
        yield
    except urllib.error.HTTPError as error:
        raise UnavailableError(f"{error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, FileNotFoundError):  # file://
            raise UnavailableError("no such file") from error
        raise BrokenOffError(f"no connection ({error.reason})") from error
    except (http.client.HTTPException, OSError) as error:
        raise BrokenOffError(f"connection lost ({error or type(error).__name__})") from error


def _copy(response, file: BinaryIO, start: int, length: int | None) -> int:
    """Write what arrives.

    Returns:
        how many bytes the file has then.
    """
    progress = Progress(start, length)
    while True:
        with _network():
            block = response.read(_BLOCK)
        if not block:
            progress.end()
            return progress.done
        file.write(block)
        progress.add(len(block))


class Progress:
    """A line that tells how far a download is, on a terminal only."""

    def __init__(self, done: int, total: int | None):
        self.done, self.total = done, total
        self._shown = sys.stderr.isatty()
        self._next = 0.0

    def add(self, count: int) -> None:
        """So many bytes more have arrived."""
        self.done += count
        if self._shown and time.monotonic() > self._next:
            self._next = time.monotonic() + 0.5
            of = f" of {self.total / 1e6:,.1f}" if self.total else ""
            print(f"\r   {self.done / 1e6:,.1f}{of} MB ", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Remove the line."""
        if self._shown:
            print(f"\r{' ' * (shutil.get_terminal_size().columns - 1)}\r", end="", file=sys.stderr)


def _begun(partial: Path, url: str) -> Partial | None:
    """What is known of a partial file, if it can be gone on with."""
    try:
        state = Partial(**json.loads(_state(partial).read_text(encoding="utf-8")))
        size = partial.stat().st_size
    except (OSError, ValueError, TypeError):
        return None
    # Without a mark there is no telling whether the rest would fit what we have.
    fits = state.url == url and state.validator and size
    return state if fits and (state.length is None or size < state.length) else None


def _validator(response) -> str | None:
    tag = response.headers.get("ETag")
    if tag and not tag.startswith("W/"):  # a weak one does not promise the same bytes
        return tag
    return response.headers.get("Last-Modified")


def _length(response) -> int | None:
    length = response.headers.get("Content-Length", "")
    encoded = response.headers.get("Content-Encoding", "identity") != "identity"
    return int(length) if length.isdigit() and not encoded else None


def _first_byte(response) -> int | None:
    match = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return int(match[1]) if match else None


def _partial(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial")


def _state(partial: Path) -> Path:
    return partial.with_name(f"{partial.name}.json")


def _record(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _recorded(path: Path) -> str | None:
    """The checksum that was recorded for a file, if any was."""
    try:
        words = _record(path).read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError):
        return None
    return words[0] if words and re.fullmatch("[0-9a-f]{64}", words[0]) else None


def _write_record(path: Path, checksum: str) -> None:
    """Record a checksum, in the format of sha256sum; in a folder that can be written to."""
    with contextlib.suppress(UserError), atomic_write(_record(path)) as file:
        file.write(f"{checksum}  {path.name}\n".encode())
