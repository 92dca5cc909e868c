r"""Taking text out of what corpora are delivered in: archives, SGML test sets, parallel files.

Archives are read as streams, never unpacked: a member goes line by line to where it is wanted.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, TextIO

from ...errors import UserError
from ..files.text import decode, reading, writing

#: What the reading of a damaged or cut-off archive raises.
_DAMAGED = (
    EOFError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    gzip.BadGzipFile,
    NotImplementedError,  # zipfile: an unknown way of compression
    RuntimeError,  # zipfile: encrypted
)


# -- Archives ---------------------------------------------------------------------------------


def members(archive: Path, names: Sequence[str]) -> Iterator[tuple[str, Iterator[str]]]:
    """Some of the files in an archive, as lines, in the order in which the archive has them.

    Args:
        archive: a ``.tar``, ``.tar.gz`` or ``.zip``; told by its content, whatever its name.
        names: the members' names, without folders: releases differ in these.

    Yields:
        name and lines of each member; read the lines before going on to the next.

    Raises:
        UserError: if the archive cannot be read or is damaged, lacks a member, has two of that
            name, or a line that is not UTF-8.
    """
    lacking = set(names)
    with _telling_damage(archive), reading(archive) as stream:
        for path, file in _files(stream):
            name = PurePosixPath(path).name
            if name not in names:
                continue
            if name not in lacking:
                raise UserError(f"{archive} has more than one {name}")
            lacking.remove(name)
            yield name, _lines(file, archive, path)
    if lacking:
        raise UserError(
            f"{archive} has no {' and no '.join(sorted(lacking))}; "
            "it is another release, or cut off: delete it and get it again"
        )


@contextlib.contextmanager
def _telling_damage(archive: Path) -> Iterator[None]:
    """Tell of an archive that is damaged or cannot be read.

    Raises:
        UserError: in place of what the standard library raises.
    """
    try:
        yield
    except _DAMAGED as error:
        raise UserError(
            f"{archive} is damaged or cut off ({error}); delete it and get it again"
        ) from error
    except OSError as error:
        raise UserError(f"{archive} cannot be read: {error.strerror or error}") from error


def _files(stream: io.BufferedReader) -> Iterator[tuple[str, BinaryIO]]:
    """Path and content of every file in a tar or zip archive."""
    start = stream.peek(2)[:2]
    if start == b"PK":
        with zipfile.ZipFile(stream) as archive:
            for item in archive.infolist():
                if not item.is_dir():
                    with archive.open(item) as file:
                        yield item.filename, file
        return
    content = gzip.GzipFile(fileobj=stream) if start == b"\x1f\x8b" else stream
    # "r|": front to back, since going back in a compressed file means to begin again.
    with tarfile.open(fileobj=content, mode="r|") as archive:
        for item in archive:
            if item.isfile():
                yield item.name, archive.extractfile(item)
        # Read on to the end, where the checksum is.
        while content.read(1 << 20):
            pass


def _lines(file: BinaryIO, archive: Path, path: str) -> Iterator[str]:
    # A generator of its own: what it raises does not pass through members().
    with _telling_damage(archive):
        for number, line in enumerate(file, 1):
            yield decode(line, f"{archive}: {path}", number)


# -- Parallel text ----------------------------------------------------------------------------


@contextlib.contextmanager
def pair_writer(destination: Path, part: str, languages: tuple[str, str]) -> Iterator[PairWriter]:
    """Open the two files of a part of the corpus, ``<part>.<source>`` and ``<part>.<target>``."""
    source, target = (destination / f"{part}.{language}" for language in languages)
    with writing(source) as source_file, writing(target) as target_file:
        yield PairWriter((source_file, target_file))


class PairWriter:
    """Writes source and target lines to their files."""

    def __init__(self, files: tuple[TextIO, TextIO]):
        self.files = files

    def append(self, archive: Path, names: tuple[str, str]) -> int:
        """Append two members that are translations of each other, line by line.

        Returns:
            how many lines they have.

        Raises:
            UserError: as :func:`members`, and if one has more lines than the other.
        """
        counts = dict.fromkeys(names, 0)
        outputs = dict(zip(names, self.files, strict=True))
        for name, lines in members(archive, names):
            for line in lines:
                outputs[name].write(f"{line}\n")
                counts[name] += 1
        require_equal({f"{name} in {archive}": count for name, count in counts.items()})
        return counts[names[0]]

    def append_sgm(self, archive: Path, names: tuple[str, str]) -> int:
        """Append the segments of two SGML members, source and reference.

        Returns:
            how many there are.

        Raises:
            UserError: as :func:`members` and :func:`segments`, and if they do not fit together.
        """
        found = {
            name: segments(lines, f"{archive}: {name}") for name, lines in members(archive, names)
        }
        sides = [found[name] for name in names]
        require_same_segments(sides, [f"{name} in {archive}" for name in names])
        for file, side in zip(self.files, sides, strict=True):
            file.writelines(f"{segment.text}\n" for segment in side)
        return len(sides[0])

    def write(self, pair: Sequence[str]) -> None:
        """Append one pair."""
        for file, line in zip(self.files, pair, strict=True):
            file.write(f"{line}\n")


def require_equal(counts: dict[str, int]) -> None:
    """See to it that files have as many lines as each other.

    Raises:
        UserError: if not, with the numbers.
    """
    if len(set(counts.values())) > 1:
        numbers = ", but ".join(f"{name} has {count:,} lines" for name, count in counts.items())
        raise UserError(
            f"{numbers}; line by line, they have to be translations of each other: delete the "
            "archive and get it again"
        )


def archive_of(archives: dict[str, Path], file: str) -> Path:
    """Where an archive is on disk.

    Raises:
        UserError: if the recipe does not list it.
    """
    if file not in archives:
        raise UserError(f"the recipe needs {file} among its archives; it has {', '.join(archives)}")
    return archives[file]


def read_options(options: dict, known: dict[str, object]) -> dict:
    """The reader's options of a recipe, with the values in ``known`` for those not given.

    Raises:
        UserError: if there is an option that the reader does not know.
    """
    unknown = sorted(map(str, options.keys() - known.keys()))
    if unknown:
        raise UserError(
            f"the recipe's options: no such option: {', '.join(unknown)}; there are "
            f"{', '.join(known)}"
        )
    return {**known, **options}


def check_names(option: str, names: object, known: Iterable[str]) -> None:
    """See to it that an option is a list of known names.

    Raises:
        UserError: if not.
    """
    known = list(known)
    if not isinstance(names, list) or not names or any(name not in known for name in names):
        raise UserError(
            f"the recipe's options: {option}: {names}; use a list of {', '.join(known)}"
        )


# -- SGML -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Segment:
    """A sentence of a test set; ``document`` and ``number`` are its names in the file."""

    document: str
    number: str
    text: str


_TAG = re.compile(r"<(/?)(doc|seg)\b((?:[^<>\"']|\"[^\"]*\"|'[^']*')*)>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"([\w-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'/>]+))")
_ENTITY = re.compile(r"&(amp|lt|gt|quot|apos|#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6});")
_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


def segments(lines: Iterator[str], place: str) -> list[Segment]:
    """The segments of a test set in the SGML of NIST and WMT, in order; empty ones too.

    It is not XML: there may be a bare ``&`` or ``<`` in the text, and several files do not
    have a single root.  Hence only ``doc`` and ``seg`` are looked for, and only the
    entities of XML replaced: WMT's files have ``&amp;``, ``&lt;``, ``&gt;`` and ``&quot;``.

    Raises:
        UserError: if there is none, or one does not end; naming place and line.
    """
    text = "\n".join(lines)
    found: list[Segment] = []
    document, number, start = "", None, 0
    for tag in _TAG.finditer(text):
        closing, name = tag[1], tag[2].lower()
        if number is not None and (closing, name) != ("/", "seg"):
            break  # another segment or document begins, or ends, within this segment
        attributes = _attributes(tag[3])
        if closing:
            if number is not None:
                found.append(Segment(document, number, _text(text[start : tag.start()])))
            number = None
        elif name == "doc":
            document = attributes.get("docid", "")
        elif tag[3].rstrip().endswith("/"):
            found.append(Segment(document, attributes.get("id", ""), ""))
        else:
            number, start = attributes.get("id", ""), tag.end()
    if number is not None:
        line = text.count("\n", 0, start) + 1
        raise UserError(
            f"{place}, line {line}: segment {number} of document {document or '(without name)'} "
            "does not end; the file is damaged or cut off: get it again"
        )
    if not found:
        raise UserError(f"{place} has no segments (<seg …>); it is no test set in SGML")
    return found


def require_same_segments(sides: Sequence[list[Segment]], names: Sequence[str]) -> None:
    """See to it that source and reference are the same segments in the same order.

    Documents may be named otherwise on the two sides, but be as long; where they have the same
    names, these have to come in the same order.

    Raises:
        UserError: if not.
    """
    first, second = sides
    if len(first) != len(second):
        raise UserError(
            f"{names[0]} has {len(first):,} segments, but {names[1]} has {len(second):,}; "
            "delete the archive and get it again"
        )
    keys = [[(segment.document, segment.number) for segment in side] for side in sides]
    same_names = set(keys[0]) == set(keys[1])
    for left, right in zip(*keys, strict=True):
        if left[1] != right[1] or (same_names and left != right):
            raise UserError(
                f"{names[0]} has segment {left[1]} of document {left[0]} where {names[1]} has "
                f"{right[1]} of {right[0]}; they do not belong together"
            )


def _attributes(text: str) -> dict[str, str]:
    return {
        match[1].lower(): match[2] or match[3] or match[4] or ""
        for match in _ATTRIBUTE.finditer(text)
    }


def _text(text: str) -> str:
    """The text of a segment, on one line."""
    return _ENTITY.sub(_character, text.replace("\n", " ").strip(" "))


def _character(entity: re.Match) -> str:
    name = entity[1]
    if name[0] != "#":
        return _ENTITIES[name]
    code = int(name[2:], 16) if name[1] in "xX" else int(name[1:])
    # Left as it is: no character, half of one, or one that would end the line.
    valid = code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF and code not in (0, 10, 13)
    return chr(code) if valid else entity[0]
