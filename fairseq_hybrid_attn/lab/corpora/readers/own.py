"""One's own text: its parts as they are, or a pair of files that is split here."""

from __future__ import annotations

import hashlib
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from ....errors import UserError
from ...files.json_files import as_json
from ...files.text import pairs, writing
from ...text.test_sets import TEST_SETS
from ..definition import NAMED_TEST, PARTS, Corpus, is_test

LARGEST = 1000  # sentences of valid and of test, if the recipe says nothing
SHARE = 0.05  # of the sentences, at most
FEWEST = 3  # different source sentences: one for each part


def read(corpus: Corpus, archives: dict[str, Path], destination: Path) -> None:
    """Write the three parts.

    Args:
        corpus: ``options["files"]`` names the files: part -> [source, target], or one such
            pair under any other name; several test sets, ``test`` and ``test.NAME``, are
            written one after the other, in their order; ``options["valid"]`` and
            ``["test"]`` are the sizes of what is split off.
        archives: where they are.
        destination: folder to write to.

    Raises:
        UserError: if the files have no like number of lines, cannot be read or are too small.
    """
    if "files" not in corpus.options:
        raise UserError(f"the recipe {corpus.name} is for your own text; name it: --own DIR")
    texts = {
        stem: [archives[name] for name in names] for stem, names in corpus.options["files"].items()
    }
    if set(PARTS[:2]) < set(texts):
        _copy(corpus, texts, destination)
        return
    ((source, target),) = texts.values()
    with Parts(corpus, destination) as parts:
        dropped = split(corpus, source, target, parts)
    (destination / "dropped.json").write_bytes(as_json({"train": dropped}, sort_keys=True))


def _copy(corpus: Corpus, texts: dict[str, list[Path]], destination: Path) -> None:
    """Write parts that are there, one test set after the other."""
    tests: list[tuple[str, int]] = []
    with Parts(corpus, destination) as parts:
        for part, files in texts.items():
            count = 0
            for pair in pairs(*files):
                parts.write(PARTS[2] if is_test(part) else part, pair)
                count += 1
            if is_test(part):
                tests.append((part.removeprefix(NAMED_TEST), count))
                if not count:
                    raise UserError(f"{files[0]}: there are no sentences in it")
    if corpus.has_named_tests:
        (destination / TEST_SETS).write_bytes(as_json(tests, sort_keys=True))


class Parts:
    """The files of the parts, open to write; those that exist are added to."""

    def __init__(self, corpus: Corpus, folder: Path):
        self.languages, self.folder = corpus.languages, folder
        self._files: dict[str, list] = {}

    def __enter__(self) -> Parts:
        self._stack = ExitStack()
        return self

    def __exit__(self, *details) -> None:
        self._stack.__exit__(*details)

    def write(self, part: str, pair: tuple[str, str]) -> None:
        """Add a pair to a part."""
        if part not in self._files:
            paths = [self.folder / f"{part}.{language}" for language in self.languages]
            self._files[part] = [self._stack.enter_context(writing(path)) for path in paths]
        for file, line in zip(self._files[part], pair, strict=True):
            # A carriage return within a line would be a line's end to some programs.
            file.write(line.replace("\r", " ") + "\n")


def split(corpus: Corpus, source: Path, target: Path, parts: Parts) -> dict[str, int]:
    """Split a pair of files, the same way whenever and wherever it is done.

    Which sentences are held out is decided by a hash of the source sentence.  A source
    sentence is in one part alone; test and valid have its first translation, and training
    text has no pair twice.

    Returns:
        how many pairs are not used, by reason.

    Raises:
        UserError: if there are too few.
    """
    dropped: Counter = Counter()
    sources = set()
    for pair in pairs(source, target):
        if all(side.strip() for side in pair):
            sources.add(pair[0].strip())
        else:
            dropped["empty side"] += 1
    if len(sources) < FEWEST:
        raise UserError(
            f"{source} has {len(sources)} different sentences that are translated; "
            f"{FEWEST} are the least from which train, valid and test can be made"
        )
    shuffled = sorted(sources, key=lambda line: hashlib.sha256(line.encode()).digest())
    tests, valids = (size(corpus, part, len(sources)) for part in ("test", "valid"))
    if tests + valids >= len(sources):
        raise UserError(
            f"{source} has {len(sources)} different sentences; with {tests} for test and {valids} "
            "for valid none is left to train on"
        )
    part_of = dict.fromkeys(shuffled[:tests], "test")
    part_of.update(dict.fromkeys(shuffled[tests : tests + valids], "valid"))
    written: set = set()
    for pair in pairs(source, target):
        key = pair[0].strip()
        if not key or not pair[1].strip():
            continue
        part = part_of.get(key, "train")
        # Of a training pair a hash will do, and keeps memory small.
        identity = key if part != "train" else hash_of(pair)
        if identity not in written:
            written.add(identity)
            parts.write(part, pair)
        elif part == "train":
            dropped["duplicate"] += 1
        else:
            dropped[f"source sentence in {part}"] += 1
    return dict(sorted(dropped.items()))


def size(corpus: Corpus, part: str, sentences: int) -> int:
    """How many sentences to hold out for a part.

    Raises:
        UserError: if the recipe asks for none.
    """
    wanted = corpus.options.get(part)
    if wanted is None:
        return max(1, min(LARGEST, int(sentences * SHARE)))
    if not isinstance(wanted, int) or wanted < 1:
        raise UserError(f"options, {part}: {wanted}; use a number above 0")
    return wanted


def hash_of(pair: tuple[str, str]) -> bytes:
    """Equal for equal pairs."""
    return hashlib.sha256("\n".join(side.strip() for side in pair).encode()).digest()[:16]
