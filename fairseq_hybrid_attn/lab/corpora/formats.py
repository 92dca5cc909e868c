"""Read text from the formats in which corpora come: archives and SGML test sets.

Archives are streamed line by line, never unpacked; a test set alone is held in memory.
"""

from __future__ import annotations

import contextlib
import gzip
import html
import re
import tarfile
import zipfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from ...errors import UserError
from ..files.text import DAMAGED, ParallelWriter, decoded, require_equal
from .definition import Corpus


def contents(archive: Path) -> Iterator[tuple[str, Iterator[str]]]:
    """Yield the files of an archive in order: the name, without folders, and the lines of each.

    It is a ``.tar``, ``.tar.gz`` or ``.zip``, recognised by its content.  Read the lines of a file
    before the next file.
    """
    with _telling_damage(archive):
        for path, file in _files(archive):
            yield PurePosixPath(path).name, _lines(file, archive, path)


def members(archive: Path, names: Collection[str]) -> Iterator[tuple[str, Iterator[str]]]:
    """Yield these files of an archive as :func:`contents` does; each must occur exactly once."""
    missing = set(names)
    for name, text in contents(archive):
        if name not in names:
            continue
        if name not in missing:
            raise UserError(f"{archive} has more than one {name}")
        missing.remove(name)
        yield name, text
    if missing:
        raise UserError(
            f"{archive} has no {' and no '.join(sorted(missing))}; "
            "it is another release, or cut off: delete it and get it again"
        )


def read_through(archive: Path, is_tar: bool = True) -> None:
    """Read an archive, or a single file that gzip compressed, to its end; refuse a damaged one."""
    with _telling_damage(archive), gzip.open(archive) as alone:
        for _, file in _files(archive) if is_tar else [("", alone)]:
            while file.read(1 << 20):
                pass


@contextlib.contextmanager
def _telling_damage(archive: Path) -> Iterator[None]:
    try:
        yield
    except (*DAMAGED, tarfile.TarError, zipfile.BadZipFile) as error:
        problem = "is damaged or cut off; delete it, and run this again"
        raise UserError(f"{archive} {problem}") from error
    except OSError as error:
        raise UserError(f"{archive} cannot be read: {error.strerror or error}") from error


def _files(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                if not entry.is_dir():
                    with archive.open(entry) as file:
                        yield entry.filename, file
        return
    with tarfile.open(path) as tar:
        for item in tar:
            member = tar.extractfile(item) if item.isfile() else None
            if member:
                yield item.name, member
        while tar.fileobj and tar.fileobj.read(1 << 16):  # on to the end, where gzip's checksum is
            pass


def _lines(file: IO[bytes], archive: Path, path: str) -> Iterator[str]:
    # A separate generator, whose errors do not pass through contents().
    with _telling_damage(archive):
        yield from decoded(file, f"{archive}: {path}")


def part_writer(destination: Path, part: str, languages: tuple[str, str]) -> ParallelWriter:
    """Return the writer of ``<part>.<source>`` and ``<part>.<target>``."""
    return ParallelWriter(*(destination / f"{part}.{language}" for language in languages))


def check_languages(corpus: Corpus, reader: str, languages: tuple[str, str]) -> None:
    if set(corpus.languages) != set(languages):
        wanted = " and ".join(languages)
        raise UserError(f"the reader {reader} has {wanted}, not {' and '.join(corpus.languages)}")


def append_lines(writer: ParallelWriter, archive: Path, names: Sequence[str]) -> None:
    """Append two files of an archive that are translations of each other, line by line."""
    counts = dict.fromkeys(names, 0)
    outputs = dict(zip(names, writer.files, strict=True))
    for name, lines in members(archive, names):
        for line in lines:
            outputs[name].write(f"{line}\n")
            counts[name] += 1
    require_equal(
        {f"{name} in {archive}": count for name, count in counts.items()},
        ": delete the archive and get it again",
    )


def append_segments(writer: ParallelWriter, archive: Path, names: Sequence[str]) -> None:
    """Append the segments of two SGML files of an archive, source and reference."""
    texts = {name: segments(lines, f"{archive}: {name}") for name, lines in members(archive, names)}
    first, second = (texts[name] for name in names)
    # Documents may have other names in the reference, but must have equal lengths.
    if [number for number, _ in first] != [number for number, _ in second]:
        raise UserError(
            f"{names[0]} and {names[1]} in {archive} differ in their {len(first):,} and "
            f"{len(second):,} segments; delete the archive and get it again"
        )
    for (_, source), (_, reference) in zip(first, second, strict=True):
        writer.write((source, reference))


def archive_of(archives: dict[str, Path], file: str) -> Path:
    """Return where an archive is; refuse a recipe that does not list it."""
    if file not in archives:
        raise UserError(f"the recipe needs {file} among its archives; it has {', '.join(archives)}")
    return archives[file]


_OPENING = re.compile(r"<seg\b[^<>]*>", re.IGNORECASE)
_SEGMENT = re.compile(
    r"<seg\b[^<>]*?\bid\s*=\s*[\"']?(\w+)[^<>]*?(?:/>|>(.*?)</seg\s*>)", re.IGNORECASE | re.DOTALL
)
_ENTITY = re.compile(r"&(amp|lt|gt|quot|apos|#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6});")


def segments(lines: Iterable[str], location: str) -> list[tuple[str, str]]:
    """Return number and text of the segments of a test set in the SGML of NIST and WMT, in order.

    It is not XML: there may be a bare ``&`` or ``<`` in the text, and several roots.  So only the
    tag ``seg`` is parsed, and only the entities of XML are replaced.
    """
    text = "\n".join(lines)
    parsed = [(match[1], _text(match[2] or "")) for match in _SEGMENT.finditer(text)]
    if not parsed:
        raise UserError(f"{location} has no segments (<seg …>); it is not a test set in SGML")
    if len(parsed) != len(_OPENING.findall(text)):
        raise UserError(f"{location} has a segment that does not end; it is damaged: get it again")
    return parsed


def _text(text: str) -> str:
    return _ENTITY.sub(_character, text.replace("\n", " ").strip(" "))


def _character(entity: re.Match) -> str:
    return re.sub(r"[\r\n]", " ", html.unescape(entity[0]))  # it must not end the line
