"""Find the archives of a corpus in a folder, or download them to it, and verify their checksums.

A download goes to ``<file>.partial`` until it is complete, and is resumed there; in a later run
only if the recipe has its checksum.  A checksum that the recipe does not have is recorded in
``<file>.sha256`` at the first download, and verified from then on.  What is not of the kind that
the file's name says, such as a page that asks to log in, is refused, not recorded.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import shutil
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from ... import __version__
from ...errors import UserError
from ..files.checksums import sha256
from ..files.deleting import delete
from ..files.lock import locked
from ..files.writing import atomic_write
from .definition import Archive

ATTEMPTS = 4  # at one URL, while only the connection fails
PAUSE = 2.0  # seconds before the second attempt; doubled for each further one
TIMEOUT = 60  # seconds without a byte
_BLOCK = 1 << 18

#: How an HTML page begins, after a byte order mark or a comment.
_HTML = re.compile(
    rb"(\xef\xbb\xbf)?\s*(<!--.*?-->\s*)?<(!doctype\s+html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)

#: Statuses worth retrying at the same URL; 416 once the partial file is discarded.
_TEMPORARY = (408, 416, 425, 429, 500, 502, 503, 504)

Say = Callable[[str], None]


class BrokenOffError(Exception):
    """The connection ended before the file did; what has arrived is kept."""


class UnavailableError(Exception):
    """This URL does not have the file, or not the right one."""


def place(archive: Archive, folder: Path) -> Path:
    return archive.path or folder / archive.file


def identify(archive: Archive, folder: Path) -> str | None:
    """Return the checksum of an archive on disk, or None; refuse the wrong file."""
    path = place(archive, folder)
    if archive.path is not None:  # the user's text, which has no fixed checksum
        return sha256(path)
    if not path.is_file():
        return None
    checksum = sha256(path)
    fault = _fault(archive, checksum, path, path)
    if fault:
        raise UserError(f"{path} is {fault}. Delete the file itself to get it again")
    _record(archive, path, checksum)
    return checksum


def fetch(archive: Archive, folder: Path, say: Say) -> str:
    """Download an archive, which has urls, unless it exists; return its checksum."""
    if checksum := identify(archive, folder):
        return checksum
    path = place(archive, folder)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path.parent} cannot be made: {error.strerror}") from error
    # Two corpora may want the same archive at the same time.
    with locked(path.parent / ".downloads.lock", say):
        return identify(archive, folder) or _from_any_place(archive, path, say)


def _from_any_place(archive: Archive, path: Path, say: Say) -> str:
    failures = []
    for url in archive.urls:
        say(f"downloading {url}")
        try:
            return _from_place(archive, url, path, say)
        except UnavailableError as error:
            say(f"failed: {error}")
            failures.append(f"{url}: {error}")
    advice = f"If you get the file elsewhere, put it at {path}"
    raise UserError("\n  ".join([f"{archive.file} could not be downloaded:", *failures, advice]))


def _from_place(archive: Archive, url: str, path: Path, say: Say) -> str:
    partial = _beside(path, "partial")
    if not archive.sha256:  # nothing would tell whether an earlier part is of the same file
        delete(partial, path.parent)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _transfer(url, partial, say)
            break
        except BrokenOffError as error:
            if attempt == ATTEMPTS:
                raise UnavailableError(f"{error}, {ATTEMPTS} times") from error
            say(f"{error}; trying again")
            time.sleep(PAUSE * 2 ** (attempt - 1))
        except OSError as error:  # of the disk: _network() converts those of the network
            raise UserError(f"{partial} cannot be written: {error.strerror}") from error
    checksum = sha256(partial)
    fault = _fault(archive, checksum, partial, path)
    if fault:
        delete(partial, path.parent)
        raise UnavailableError(fault)
    _record(archive, path, checksum)
    os.replace(partial, path)
    return checksum


def _transfer(url: str, partial: Path, say: Say) -> None:
    """Download to ``partial``, from where it ends; an OSError comes from the disk."""
    start = partial.stat().st_size if partial.exists() else 0
    headers = {"User-Agent": f"fairseq-hybrid-attn/{__version__}"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        with _network():
            request = urllib.request.Request(url, headers=headers)
            response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except BrokenOffError as error:
        if getattr(error.__cause__, "code", None) == 416:  # our part is not of the server's file
            delete(partial, partial.parent)
        raise
    with response:
        if start and response.status == 206:
            say(f"resuming at byte {start:,}")
        else:  # the server sends all of it
            start = 0
        length = response.headers.get("Content-Length")
        total = start + int(length) if length else None
        with open(partial, "ab" if start else "wb") as file:
            arrived = start
            while block := _next_block(response):
                file.write(block)
                arrived += len(block)
                _show(arrived, total)
            file.flush()
            os.fsync(file.fileno())
    if total not in (None, arrived):
        raise BrokenOffError(f"broken off after {arrived:,} of {total:,} bytes")


def _next_block(response: http.client.HTTPResponse) -> bytes:
    with _network():
        return response.read(_BLOCK)


@contextlib.contextmanager
def _network() -> Iterator[None]:
    """Distinguish failures of the network from those of the disk; both are OSErrors."""
    try:
        yield
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in _TEMPORARY:
            raise BrokenOffError(f"the server answers {error.code} {error.reason}") from error
        raise UnavailableError(f"{error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise BrokenOffError(f"no connection ({error.reason})") from error
    except (http.client.HTTPException, OSError) as error:
        raise BrokenOffError(f"connection lost ({error or type(error).__name__})") from error


def _show(done: int, total: int | None) -> None:
    """Show progress on a terminal, and clear the line at the end."""
    if not sys.stderr.isatty():
        return
    text = f"   {done / 1e6:,.1f} of {total / 1e6:,.1f} MB" if total else f"   {done / 1e6:,.1f} MB"
    width = shutil.get_terminal_size().columns - 1
    shown = "" if done == total else text
    print(f"\r{shown:{width}}\r", end="", file=sys.stderr, flush=True)


def _fault(archive: Archive, checksum: str, content: Path, path: Path) -> str | None:
    """What is wrong with the content of an archive, if anything; ``path`` is its final place."""
    if checksum in archive.sha256:
        return None
    kind = _other_kind(content, path.name)
    if archive.sha256:
        wanted = " or ".join(archive.sha256)
        kind = kind or "damaged or a different file"
        return f"{kind}: its sha256 is {checksum}, it should be {wanted}"
    recorded = _recorded(path)
    if kind or recorded in (None, checksum):
        return kind
    return (
        f"a different file: its sha256 is {checksum}, but {_beside(path, 'sha256')}, written when "
        f"it was first seen, has {recorded}; to accept the new file, delete that record"
    )


def _other_kind(content: Path, name: str) -> str | None:
    """What a file is instead of what its name says, by its first bytes."""
    with open(content, "rb") as file:
        start = file.read(1024)
    if not start:
        return "empty"
    if _HTML.match(start):
        return "an HTML page, perhaps an error's"
    gzipped = start.startswith(b"\x1f\x8b")
    if name.endswith((".tgz", ".tar.gz", ".tar", ".zip")):  # readers look at the content, too
        known = gzipped or start.startswith(b"PK") or start[257:262] == b"ustar"
        return None if known else "no archive, to judge by its first bytes"
    return "not compressed by gzip" if name.endswith(".gz") and not gzipped else None


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f"{path.name}.{ending}")


def _recorded(path: Path) -> str | None:
    """The recorded checksum of an archive, if there is a record; a damaged one is refused."""
    record = _beside(path, "sha256")
    if not record.exists():
        return None
    words = record.read_text(errors="replace").split()
    if not words or not re.fullmatch("[0-9a-f]{64}", words[0]):
        raise UserError(f"{record} does not begin with a sha256; delete it to record another")
    return words[0]


def _record(archive: Archive, path: Path, checksum: str) -> None:
    """Record a checksum that the recipe lacks, in the format of sha256sum, if that can be done."""
    if not archive.sha256 and not _recorded(path):
        with contextlib.suppress(UserError), atomic_write(_beside(path, "sha256")) as file:
            file.write(f"{checksum}  {path.name}\n".encode())
