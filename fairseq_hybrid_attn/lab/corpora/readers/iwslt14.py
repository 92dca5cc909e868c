"""IWSLT 2014, the TED talks of WIT3: training text with tags, test sets in XML.

Training text and test sentences are what fairseq's prepare-iwslt14.sh takes of the same
archive, in the same order: titles and descriptions of the talks are sentences, other lines with
tags are not.  But XML's character references (``&amp;``) of the test sets are resolved.

Options of the recipe: ``test``, the names of the sets of which the test set is made up.
"""

from __future__ import annotations

import gzip
import re
import tarfile
import xml.sax.saxutils
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from ....errors import UserError
from ...files.text import DAMAGED, decode, writing
from ..definition import Corpus

#: Lines that are no sentences.
_ABOUT = re.compile("<(url|talkid|keywords|speaker|reviewer|translator)[ >]|</?doc[ >]")
#: Tags around lines that are.
_TAGS = re.compile("</?(title|description)>")
_SEGMENT = re.compile(r'<seg id="[0-9]*">\s*(.*?)\s*</seg>')

#: Archives, each with its files: their names without folders -> their content.
Contents = list[tuple[Path, dict[str, bytes]]]


def read(corpus: Corpus, archives: dict[str, Path], destination: Path) -> None:
    """Write training and test text; the recipe takes validation sentences of the former.

    Raises:
        UserError: if an archive is damaged, a set is missing, or its sides do not match.
    """
    contents = [(path, members(path)) for path in archives.values()]
    pair = "-".join(corpus.languages)
    sets = {name: rf"IWSLT\d+\.TEDX?\.{re.escape(name)}" for name in corpus.options["test"]}
    files = {
        (name, language): find(contents, name, rf"{pattern}\.{pair}\.{language}\.xml")
        for name, pattern in sets.items()
        for language in corpus.languages
    }
    train = [find(contents, "train", rf"train\.tags\.{pair}\.{la}") for la in corpus.languages]
    with Writer(corpus, destination, "train") as writer:
        writer.write("train", [training_sentences(*file) for file in train])
    with Writer(corpus, destination, "test") as writer:
        for name in sets:
            sides = [test_sentences(*files[name, language]) for language in corpus.languages]
            writer.write(name, sides)


def members(path: Path) -> dict[str, bytes]:
    """The files of an archive by their names without folders; a plain file is its own.

    Raises:
        UserError: if it is damaged.
    """
    if path.suffix not in (".tgz", ".gz"):
        return {path.name: path.read_bytes()}
    files = {}
    try:
        with gzip.open(path) as stream:
            with tarfile.open(fileobj=stream, mode="r:") as archive:
                for member in archive:
                    if member.isfile():
                        files[Path(member.name).name] = archive.extractfile(member).read()
            while stream.read(1 << 20):  # to its end, where its checksum is
                pass
    except (*DAMAGED, tarfile.TarError) as error:
        raise UserError(
            f"{path} is damaged or cut off ({error}); delete it and {path.name}.sha256, if there "
            "is one, and run this again"
        ) from error
    return files


def find(contents: Contents, name: str, pattern: str) -> tuple[str, bytes]:
    """A file in the first archive that has it.

    Args:
        contents: the archives.
        name: of the set, for messages.
        pattern: that its name matches.

    Returns:
        where it is, for messages, and its content.

    Raises:
        UserError: if there is none, or several in one archive.
    """
    for path, files in contents:
        found = sorted(file for file in files if re.fullmatch(pattern, file))
        if len(found) > 1:
            raise UserError(f"{path}: more than one file for {name}: {', '.join(found)}")
        if found:
            place = str(path) if path.name == found[0] else f"{path}, {found[0]}"
            return place, files[found[0]]
    searched = ", ".join(str(path) for path, _ in contents)
    example = pattern.replace("\\d+", "14").replace("X?", "").replace("\\", "")
    raise UserError(
        f"the set {name} is not in {searched}, which have no file like {example}; a test set "
        "without it would be another one"
    )


def training_sentences(place: str, content: bytes) -> Iterator[str]:
    """The sentences of a file train.tags."""
    for number, line in enumerate(_lines(content), 1):
        text = decode(line, place, number)
        if not _ABOUT.search(text):
            yield _TAGS.sub("", text).strip()


def test_sentences(place: str, content: bytes) -> Iterator[str]:
    """The segments of an XML file."""
    for number, line in enumerate(_lines(content), 1):
        text = decode(line, place, number)
        if "<seg id" in text:
            segment = _SEGMENT.fullmatch(text.strip())
            if not segment:
                raise UserError(f"{place}, line {number}: not a <seg id> of one line")
            yield xml.sax.saxutils.unescape(segment[1], {"&quot;": '"', "&apos;": "'"})


def _lines(content: bytes) -> list[bytes]:
    lines = content.split(b"\n")
    return lines if lines[-1] else lines[:-1]


class Writer:
    """The two files of a part."""

    def __init__(self, corpus: Corpus, folder: Path, part: str):
        self._paths = [folder / f"{part}.{language}" for language in corpus.languages]

    def __enter__(self) -> Writer:
        self._stack = ExitStack()
        self._files = [self._stack.enter_context(writing(path)) for path in self._paths]
        return self

    def __exit__(self, *details) -> None:
        self._stack.__exit__(*details)

    def write(self, name: str, sides: list[Iterator[str]]) -> None:
        """Add the sentences of a set.

        Raises:
            UserError: if its sides have not the same number of them.
        """
        texts = [list(side) for side in sides]
        if len(texts[0]) != len(texts[1]):
            counts = " and ".join(
                f"{len(text):,} ({path.suffix[1:]})"
                for text, path in zip(texts, self._paths, strict=True)
            )
            raise UserError(f"{name}: the sides have different numbers of sentences: {counts}")
        for file, text in zip(self._files, texts, strict=True):
            file.writelines(line.replace("\r", " ") + "\n" for line in text)
