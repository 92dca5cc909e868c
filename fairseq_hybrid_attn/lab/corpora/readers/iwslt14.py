"""IWSLT 2014, the TED talks of WIT3: training text with tags, test sets in XML.

Sentences and their order are those of fairseq's prepare-iwslt14.sh for the same archive, except
that XML's character references (``&amp;``) in the test sets are resolved.  The recipe's option
``test`` names the sets that make up the test set.
"""

from __future__ import annotations

import re
import xml.sax.saxutils
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from ....errors import UserError
from ...files.text import lines, pairs, write_lines
from ..definition import Corpus
from ..formats import contents, part_writer

#: Lines that are not sentences.
_ABOUT = re.compile("<(url|talkid|keywords|speaker|reviewer|translator)[ >]|</?doc[ >]")
#: Tags around lines that are sentences.
_TAGS = re.compile("</?(title|description)>")
_SEGMENT = re.compile(r'<seg id="[0-9]*">\s*(.*?)\s*</seg>')


def takes(corpus: Corpus, file: str) -> bool:
    return True  # whatever their names, all sets must be in them


def read(corpus: Corpus, archives: dict[str, Path], destination: Path) -> None:
    """Write training and test text; the recipe takes validation sentences from the former."""
    direction, tests = "-".join(corpus.languages), corpus.options.get("test", [])
    #: What the name of the file of a set and language matches.
    patterns = {("train", lang): rf"train\.tags\.{direction}\.{lang}" for lang in corpus.languages}
    patterns |= {
        (name, lang): rf"IWSLT\d+\.TEDX?\.{re.escape(name)}\.{direction}\.{lang}\.xml"
        for name in tests
        for lang in corpus.languages
    }
    with TemporaryDirectory(dir=destination) as folder:
        texts = find(archives.values(), patterns, Path(folder))
        for (name, lang), pattern in patterns.items():
            if (name, lang) not in texts:
                example = pattern.replace("\\d+", "14").replace("X?", "").replace("\\", "")
                raise UserError(
                    f"the set {name} is not in {', '.join(map(str, archives.values()))}, which "
                    f"have no file like {example}; without it, this would be a different test set"
                )
        for part, names in (("train", ["train"]), ("test", tests)):
            with part_writer(destination, part, corpus.languages) as writer:
                for name in names:
                    for pair in pairs(*(texts[name, lang] for lang in corpus.languages)):
                        writer.write(pair)


def find(
    paths: Iterable[Path], patterns: dict[tuple[str, str], str], folder: Path
) -> dict[tuple[str, str], Path]:
    """Write the sentences of these sets, as far as archives and files have them, to files."""
    texts: dict[tuple[str, str], Path] = {}
    for path in paths:
        plain = path.suffix not in (".tgz", ".gz")
        for name, text in [(path.name, lines(path))] if plain else contents(path):
            location = str(path) if plain else f"{path}: {name}"
            for key, pattern in patterns.items():
                if re.fullmatch(pattern, name):
                    if key in texts:
                        raise UserError(f"{location}: there is more than one file for {key[0]}")
                    take = training_sentences if key[0] == "train" else test_sentences
                    texts[key] = folder / name
                    # A carriage return within a line would end it for some programs.
                    write_lines(
                        texts[key], (line.replace("\r", " ") for line in take(text, location))
                    )
    return texts


def training_sentences(text: Iterable[str], location: str) -> Iterator[str]:
    for line in text:
        if not _ABOUT.search(line):
            yield _TAGS.sub("", line).strip()


def test_sentences(text: Iterable[str], location: str) -> Iterator[str]:
    for number, line in enumerate(text, 1):
        if "<seg id" in line:
            segment = _SEGMENT.fullmatch(line.strip())
            if not segment:
                raise UserError(f"{location}, line {number}: not a <seg id> of one line")
            yield xml.sax.saxutils.unescape(segment[1], {"&quot;": '"', "&apos;": "'"})
