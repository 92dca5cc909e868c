"""Plain files of parallel text: parts copied unchanged, or one pair of files to split."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from ....errors import UserError
from ...files.text import ParallelWriter, pairs
from ..definition import NAMED_TEST, PARTS, Corpus, is_test
from ..formats import archive_of, part_writer
from ..gold import scored_rows
from ..held_out import HeldOut

LARGEST = 1000  # sentences of valid and of test, by default
SHARE = 0.05  # of the sentences, at most

Writers = dict[str, ParallelWriter]  # of each part


def takes(corpus: Corpus, file: str) -> bool:
    return any(file in names for names in corpus.files.values())


def read(corpus: Corpus, archives: dict[str, Path], destination: Path) -> dict:
    """Write the three parts.

    ``options["files"]`` names the files: part -> [source, target], or one name for both that
    contains ``{language}``; or one such pair under any other name.  Several test sets, ``test`` and
    ``test.NAME``, are written one after the other, in their order.  From the text of the gold set,
    only the sentences that the gold set scores are taken.  ``options["valid"]`` and ``["test"]``
    are the sizes of the held-out sets.
    """
    if corpus.lacks_text:
        raise UserError(f"the recipe {corpus.name} is for your own text; name it: --text DIR")
    texts = {
        part: [archive_of(archives, name) for name in names] for part, names in corpus.files.items()
    }
    train, valid, test = PARTS
    tests = [part for part in texts if is_test(part)]
    is_divided = bool(tests) and set(texts) == {train, valid, *tests}
    if not is_divided and len(texts) != 1:
        raise UserError(
            f"the recipe's options: files: {', '.join(texts)}; name {train}, {valid} and {test} "
            f"(or several, {test}.NAME), or one pair of files"
        )
    with ExitStack() as stack:
        writers = {
            part: stack.enter_context(part_writer(destination, part, corpus.languages))
            for part in PARTS
        }
        if is_divided:
            return {"tests": copy(corpus, texts, archives, writers)}
        ((source, target),) = texts.values()
        return {"dropped": {"train": split(corpus, source, target, writers)}}


def copy(
    corpus: Corpus, texts: dict[str, list[Path]], archives: dict[str, Path], writers: Writers
) -> list:
    """Copy existing parts; return the test sets, if they have names."""
    tests: list[tuple[str, int]] = []
    for part, files in texts.items():
        rows = pairs(*files)
        if corpus.files[part] == corpus.gold_text:
            rows = itertools.compress(rows, scored_rows(corpus, archives))
        writer = writers[PARTS[2] if is_test(part) else part]
        before, usable = writer.count, 0
        for pair in rows:
            write(writer, pair)
            usable += all(map(str.strip, pair))
        if is_test(part):
            tests.append((part.removeprefix(NAMED_TEST), writer.count - before))
            if not usable:
                raise UserError(f"{files[0]}: there are no sentences with translations in it")
    return tests if corpus.has_named_tests else []


def write(writer: ParallelWriter, pair: tuple[str, str]) -> None:
    """Write a pair; a carriage return within a line would end it for some programs."""
    writer.write([line.replace("\r", " ") for line in pair])


def split(corpus: Corpus, source: Path, target: Path, writers: Writers) -> dict[str, int]:
    """Split a pair of files by a hash of source; return how many pairs are dropped, by reason.

    No sentence of either language is in two parts; test and valid have a source's first
    translation, and the training text has no duplicate pairs.
    """
    first: dict[str, str] = {}
    for pair in pairs(source, target):
        text, other = map(str.strip, pair)
        if text and other:
            first.setdefault(text, other)
    shuffled = sorted(first, key=lambda line: hashlib.sha256(line.encode()).digest())
    default = max(1, min(LARGEST, int(len(first) * SHARE)))
    tests, valids = (corpus.options.get(part) or default for part in ("test", "valid"))
    part_of = dict.fromkeys(shuffled[:tests], "test")
    tested = HeldOut((line, first[line]) for line in part_of)
    others = (line for line in shuffled[tests:] if (line, first[line]) not in tested)
    part_of.update(dict.fromkeys(itertools.islice(others, valids), "valid"))
    if len(part_of) < tests + valids or len(part_of) == len(first):
        raise UserError(
            f"{source} has {len(first)} different sentences that are translated; with {tests} "
            f"for test and {valids} for valid none is left to train on"
        )
    held_out = HeldOut((line, first[line]) for line in part_of)
    dropped: Counter = Counter()
    written = set()  # hashes, to save memory
    for pair in pairs(source, target):
        sides = [side.strip() for side in pair]
        key = hashlib.sha256("\n".join(sides).encode()).digest()[:16]
        part = part_of.pop(sides[0], "train") if all(sides) else "train"
        if not all(sides):
            dropped["empty side"] += 1
        elif part == "train" and sides in held_out:
            dropped["a side held out"] += 1
        elif key in written:
            dropped["duplicate"] += 1
        else:
            written.add(key)
            write(writers[part], pair)
    return dict(dropped)
