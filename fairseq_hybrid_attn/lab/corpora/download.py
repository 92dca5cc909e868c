"""Find the archives of a corpus in a folder, or download them to it, and verify their checksums.

A download goes to ``<file>.partial`` until it is complete, and is resumed there; in a later run
only if the recipe has its checksum.  A page, such as one that asks to log in, is refused; without
a checksum, an archive is read to its end before it gets its name.
"""

from __future__ import annotations

import http.client
import os
import re
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from tqdm import tqdm

from ... import __version__
from ...errors import UserError
from ..files.checksums import sha256
from ..files.deleting import delete
from ..files.processes import locked
from .definition import Archive
from .formats import read_through

ATTEMPTS = 4  # at one URL, while only the connection fails
PAUSE = 2.0  # seconds before the second attempt, twice that before the third, and so on
TIMEOUT = 60  # seconds without a byte

#: How an HTML page begins, after a byte order mark, a declaration of XML or a comment.
_HTML = re.compile(
    rb"(\xef\xbb\xbf)?\s*(<\?xml\b[^>]*>\s*)?(<!--.*?-->\s*)?<(!doctype\s+html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)
_XML = re.compile(rb"(\xef\xbb\xbf)?\s*<\?xml\b")

#: Statuses worth another attempt at the same URL; 416 once the partial file is discarded.
_TEMPORARY = (408, 416, 429, 500, 502, 503, 504)

Say = Callable[[str], None]


def archive_path(archive: Archive, folder: Path) -> Path:
    return archive.path or folder / archive.file


def identify(archive: Archive, folder: Path) -> str | None:
    """Return the checksum of an archive on disk, or None; refuse the wrong file."""
    path = archive_path(archive, folder)
    if archive.path is not None:  # the user's text, which has no fixed checksum
        return sha256(path)
    if not path.is_file():
        return None
    checksum = sha256(path)
    if fault := _fault(archive, checksum, path):
        raise UserError(f"{path} is {fault}. Delete the file itself to get it again")
    return checksum


def fetch(archive: Archive, folder: Path, say: Say) -> str:
    """Download an archive, which has urls, unless it exists; return its checksum."""
    if checksum := identify(archive, folder):
        return checksum
    path = archive_path(archive, folder)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path.parent} cannot be made: {error.strerror}") from error
    # Two corpora may want the same archive at the same time.
    with locked(path.parent / ".downloads.lock", say):
        return identify(archive, folder) or _download(archive, path, say)


def _download(archive: Archive, path: Path, say: Say) -> str:
    """Download from the first URL that has the file; return its checksum."""
    partial = path.with_name(f"{path.name}.partial")
    failures = []
    for url in archive.urls:
        say(f"downloading {url}")
        if not archive.sha256:  # nothing would tell whether an earlier part is of the same file
            delete(partial, path.parent)
        fault = _transfer_patiently(url, partial, say)
        if not fault:
            checksum = sha256(partial)
            fault = _fault(archive, checksum, partial) or _damage(archive, partial)
            if not fault:
                os.replace(partial, path)
                return checksum
            delete(partial, path.parent)
        say(f"failed: {fault}")
        failures.append(f"{url}: {fault}")
    advice = f"If you get the file elsewhere, put it at {path}"
    raise UserError("\n  ".join([f"{archive.file} could not be downloaded:", *failures, advice]))


def _transfer_patiently(url: str, partial: Path, say: Say) -> str | None:
    """Download to ``partial``, in several attempts if need be; return why it failed, if it did."""
    fault = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            say(f"{fault}; trying again")
            time.sleep(PAUSE * 2 ** (attempt - 1))
        try:
            _transfer(url, partial, say)
            return None
        except urllib.error.HTTPError as error:
            error.close()
            fault = str(error)
            if error.code not in _TEMPORARY:
                return fault
            if error.code == 416:  # our part is not of the server's file
                delete(partial, partial.parent)
        except (OSError, http.client.HTTPException) as error:  # what has arrived is kept
            fault = str(error) or type(error).__name__
    return f"{fault}, {ATTEMPTS} times"


def _transfer(url: str, partial: Path, say: Say) -> None:
    """Download to ``partial``, from where it ends."""
    start = partial.stat().st_size if partial.exists() else 0
    headers = {"User-Agent": f"fairseq-hybrid-attn/{__version__}"}
    if start:
        headers["Range"] = f"bytes={start}-"
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        if start and response.status == 206:
            say(f"resuming at byte {start:,}")
        else:  # the server sends all of it
            start = 0
        length = response.headers.get("Content-Length")
        total = start + int(length) if length else None
        with open(partial, "ab" if start else "wb") as file:
            # disable: None shows progress on a terminal alone.
            options = {"total": total, "initial": start, "leave": False, "disable": None}
            with tqdm.wrapattr(file, "write", **options) as shown:
                shutil.copyfileobj(response, shown)
            file.flush()
            os.fsync(file.fileno())
            arrived = file.tell()
    if total not in (None, arrived):
        raise ConnectionError(f"broken off after {arrived:,} of {total:,} bytes")


def _fault(archive: Archive, checksum: str, content: Path) -> str | None:
    """What is wrong with the content of an archive, if anything."""
    if checksum in archive.sha256:
        return None
    with open(content, "rb") as file:
        start = file.read(1024)
    if not start:
        return "empty"
    if _HTML.match(start) or (_XML.match(start) and not archive.file.endswith(".xml")):
        return "an HTML page or XML, perhaps an error's"
    if archive.sha256:
        wanted = " or ".join(archive.sha256)
        return f"damaged or a different file: its sha256 is {checksum}, it should be {wanted}"
    return None


def _damage(archive: Archive, content: Path) -> str | None:
    """What is wrong within an archive, of which no checksum tells."""
    if archive.sha256 or not archive.file.endswith((".tgz", ".tar", ".gz", ".zip")):
        return None
    try:
        read_through(content, is_tar=not re.search(r"(?<!\.tar)\.gz$", archive.file))
    except UserError:
        return "cut off, or no archive"
    return None
