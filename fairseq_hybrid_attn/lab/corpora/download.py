"""Find the archives of a corpus in a folder, or download them to it, and verify their checksums.

A download goes to ``<file>.partial`` until it is complete.  It is resumed if the server can tell
that its file has not changed (HTTP Range and If-Range).  A checksum that the recipe does not have
is recorded in ``<file>.sha256`` at the first download, and verified from then on.  What is not of
the kind that the file's name says, such as a page that asks to log in, is refused, not recorded.
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
from pathlib import Path
from typing import BinaryIO

from ... import __version__
from ...errors import UserError
from ..files.checksums import sha256
from ..files.deleting import delete
from ..files.json_files import read_json, write_json
from ..files.lock import locked
from ..files.stages import Say
from ..files.writing import atomic_write
from .definition import Archive

ATTEMPTS = 4  # at one URL, while only the connection fails
PAUSE = 2.0  # seconds before the second attempt; doubled for each further one
TIMEOUT = 60  # seconds without a byte
_BLOCK = 1 << 18

#: How an HTML page begins, after a byte order mark, an XML declaration or comments.
_HTML = re.compile(
    rb"(\xef\xbb\xbf)?(?>\s|<\?xml[^>]*>|<!--.*?-->)*+<(!doctype\s+html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)

#: Statuses worth retrying at the same URL; 416 once the partial file is discarded.
_TEMPORARY = (408, 416, 425, 429, 500, 502, 503, 504)


class BrokenOffError(Exception):
    """The connection ended before the file did; what has arrived is kept."""


class UnavailableError(Exception):
    """This URL does not have the file, or not the right one."""


def place(archive: Archive, folder: Path) -> Path:
    return archive.path or folder / archive.file


def identify(archive: Archive, folder: Path) -> str | None:
    """Return the checksum of an archive on disk, or None; refuse the wrong file."""
    path = place(archive, folder)
    if archive.path is None and not path.is_file():
        return None
    found = sha256(path)
    if archive.path is not None:  # the user's text, which has no fixed checksum
        return found
    fault = _fault(archive, found, path, path)
    if fault:
        raise UserError(f"{path} is {fault}. Delete the file itself to get it again")
    if not archive.sha256 and not _recorded(path):
        _write_record(path, found)
    return found


def fetch(archive: Archive, folder: Path, say: Say) -> str:
    """Download an archive, which has urls, unless it exists; return its checksum."""
    found = identify(archive, folder)
    if found:
        return found
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
    return _accept(archive, path, partial)


def _accept(archive: Archive, path: Path, partial: Path) -> str:
    found = sha256(partial)
    fault = _fault(archive, found, partial, path)
    if fault:
        for refused in (partial, _beside(partial, "json")):
            delete(refused, path.parent)
        raise UnavailableError(fault)
    if not archive.sha256 and not _recorded(path):
        _write_record(path, found)
    os.replace(partial, path)
    delete(_beside(partial, "json"), path.parent)
    return found


def _fault(archive: Archive, found: str, content: Path, path: Path) -> str | None:
    """What is wrong with the content of an archive, whose sha256 was ``found``, if anything."""
    if found in archive.sha256:
        return None
    # Of a download, what the server said of it is known.
    about = read_json(_beside(content, "json")) if content != path else None
    fault = _other_kind(content, path.name, (about or {}).get("type"))
    if archive.sha256:
        wanted = " or ".join(archive.sha256)
        fault = fault or "damaged or a different file"
        return f"{fault}: its sha256 is {found}, it should be {wanted}"
    record, recorded = _beside(path, "sha256"), _recorded(path)
    if fault and recorded == found:  # by an earlier version
        return f"{fault}, and its checksum is recorded: delete {record} as well"
    if not fault and recorded and recorded != found:
        fault = f"a different file: its sha256 is {found}, but {record}, written when it was first "
        fault += f"seen, has {recorded}; to accept the new file, delete that record"
    return fault


def _other_kind(content: Path, name: str, said: str | None) -> str | None:
    """What a file is instead of what its name says, by its first bytes and what a server said."""
    with open(content, "rb") as file:
        start = file.read(1024)
    if not start:
        return "empty"
    gzipped = start.startswith(b"\x1f\x8b")
    archive = gzipped or start.startswith(b"PK") or start[257:262] == b"ustar"
    if not archive and (_HTML.match(start) or said == "text/html"):
        return None if name.endswith((".html", ".htm")) else "an HTML page, perhaps an error's"
    if name.endswith((".tgz", ".tar.gz", ".tar", ".zip")):  # readers look at the content, too
        return None if archive else "no archive, to judge by its first bytes"
    return "not compressed by gzip" if name.endswith(".gz") and not gzipped else None


def _transfer(url: str, partial: Path, say: Say) -> None:
    """Download to ``partial``; resume if possible.

    A JSON file beside it has ``url``, ``length``, ``validator``, the server's mark of the file's
    version, and ``type``, what the server says it is.  An OSError comes from the disk.
    """
    state = _beside(partial, "json")
    begun = _begun(partial, state, url)
    start = partial.stat().st_size if begun else 0
    headers = {"User-Agent": f"fairseq-hybrid-attn/{__version__}"}
    if start:
        headers |= {"Range": f"bytes={start}-", "If-Range": begun["validator"]}
    with _network():
        try:
            request = urllib.request.Request(url, headers=headers)
            response = urllib.request.urlopen(request, timeout=TIMEOUT)
        except urllib.error.HTTPError as error:
            if error.code == 416:  # our part is not the beginning of the server's file
                delete(state, partial.parent)
            raise
    with response:
        rest = response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
        if start and response.status == 206 and rest:
            say(f"resuming at byte {start:,}")
            length, mode = begun["length"], "ab"
        elif response.status in (200, None):  # None: file:// and the like
            length, mode, start = _length(response), "wb", 0
            about = {"url": url, "validator": _validator(response), "length": length}
            write_json(state, {**about, "type": response.headers.get_content_type()})
        else:
            delete(state, partial.parent)
            raise BrokenOffError(f"status {response.status} when asked for the rest")
        with open(partial, mode) as file:
            arrived = _copy(response, file, start, length)
            file.flush()
            os.fsync(file.fileno())
    if length is not None and arrived != length:
        raise BrokenOffError(f"broken off after {arrived:,} of {length:,} bytes")


@contextlib.contextmanager
def _network():
    """Distinguish failures of the network from those of the disk; both are OSErrors."""
    try:
        yield
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in _TEMPORARY:
            raise BrokenOffError(f"the server answers {error.code} {error.reason}") from error
        raise UnavailableError(f"{error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, FileNotFoundError):  # file://
            raise UnavailableError("no such file") from error
        raise BrokenOffError(f"no connection ({error.reason})") from error
    except (http.client.HTTPException, OSError) as error:
        raise BrokenOffError(f"connection lost ({error or type(error).__name__})") from error


def _copy(response, file: BinaryIO, done: int, total: int | None) -> int:
    """Write what arrives, with a progress line on a terminal; return the file's size in bytes."""
    shown, next_time = sys.stderr.isatty(), 0.0
    while True:
        with _network():
            block = response.read(_BLOCK)
        if not block:
            break
        file.write(block)
        done += len(block)
        if shown and time.monotonic() > next_time:
            next_time = time.monotonic() + 0.5
            of = f" of {total / 1e6:,.1f}" if total else ""
            print(f"\r   {done / 1e6:,.1f}{of} MB ", end="", file=sys.stderr, flush=True)
    if shown:
        print(f"\r{' ' * (shutil.get_terminal_size().columns - 1)}\r", end="", file=sys.stderr)
    return done


def _begun(partial: Path, state: Path, url: str) -> dict | None:
    """Return the record of a partial file, if it can be resumed."""
    try:
        about = read_json(state)
        size = partial.stat().st_size
        # Without a validator, the rest might be of another version.
        fits = about["url"] == url and about["validator"] and size
        return about if fits and (about["length"] is None or size < about["length"]) else None
    except (UserError, OSError, TypeError, KeyError):
        return None


def _validator(response) -> str | None:
    tag = response.headers.get("ETag", "W/")
    # A weak ETag does not promise the same bytes.
    return response.headers.get("Last-Modified") if tag.startswith("W/") else tag


def _length(response) -> int | None:
    length = response.headers.get("Content-Length", "")
    encoded = response.headers.get("Content-Encoding", "identity") != "identity"
    return int(length) if length.isdigit() and not encoded else None


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f"{path.name}.{ending}")


def _recorded(path: Path) -> str | None:
    """The recorded checksum of an archive, if there is a record; a damaged one is refused."""
    record = _beside(path, "sha256")
    try:
        words = record.read_bytes().decode(errors="replace").split()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{record} cannot be read: {error.strerror}") from error
    if not words or not re.fullmatch("[0-9a-f]{64}", words[0]):
        raise UserError(f"{record} does not begin with a sha256; delete it to record another")
    return words[0]


def _write_record(path: Path, checksum: str) -> None:
    """Record a checksum, in the format of sha256sum, if the folder can be written to."""
    with contextlib.suppress(UserError), atomic_write(_beside(path, "sha256")) as file:
        file.write(f"{checksum}  {path.name}\n".encode())
