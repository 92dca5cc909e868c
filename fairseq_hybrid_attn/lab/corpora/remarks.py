"""What looks wrong in a text: a training would not show it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from ..files.text import lines, pairs
from .definition import PARTS, Corpus
from .held_out import HeldOut
from .words import MOSES_WORDS, looks_of

#: Lines that show what a text is.
_FIRST = 100
#: Of pairs, which may be the same in both languages, as names and numbers are.
_COPIES = 0.1


def remarks(corpus: Corpus, raw: Path) -> Iterator[str]:
    """What to tell of the text of a corpus, which lies in ``raw`` as it was read."""
    texts = {part: [raw / f"{part}.{language}" for language in corpus.languages] for part in PARTS}
    for part, files in texts.items():
        for path, language in zip(files, corpus.languages, strict=True):
            for look in looks_of(list(itertools.islice(lines(path), _FIRST))):
                if look != MOSES_WORDS or corpus.tokenizer[language] != "given":
                    yield f"{path.name} looks like {look}, not like text"
        same = [source == target for source, target in pairs(*files)]
        if sum(same) > _COPIES * len(same):
            yield f"{part}: {sum(same):,} of {len(same):,} pairs are the same in both languages"
    test = list(pairs(*texts["test"]))
    tested = HeldOut(test)
    trained = HeldOut(pair for pair in pairs(*texts["train"]) if pair in tested)
    if count := sum(pair in trained for pair in test):
        problem = "test sentences stand in train as well, in one language or both"
        yield f"{count:,} of {len(test):,} {problem}"
