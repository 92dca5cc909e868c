"""WMT14 English-German: Europarl v7, Common Crawl, News Commentary v9; newstest2013 and 2014.

newstest2014 is the full set, 3,003 sentences, which most papers since Vaswani et al. (2017) score.
"""

from __future__ import annotations

from pathlib import Path

from ..definition import Corpus
from ..formats import append_lines, append_segments, archive_of, check_languages, part_writer

#: Training and validation text: the archives, and the beginnings of their members' names.
TEXTS = {
    "train": [
        ("wmt13/training-parallel-europarl-v7.tgz", "europarl-v7.de-en"),
        ("wmt13/training-parallel-commoncrawl.tgz", "commoncrawl.de-en"),
        ("wmt14/training-parallel-nc-v9.tgz", "news-commentary-v9.de-en"),
    ],
    "valid": [("wmt14/dev.tgz", "newstest2013")],
}
TEST = "wmt14/test-full.tgz"


def takes(corpus: Corpus, file: str) -> bool:
    return file == TEST or any(file == archive for texts in TEXTS.values() for archive, _ in texts)


def read(corpus: Corpus, archives: dict[str, Path], destination: Path) -> None:
    check_languages(corpus, "wmt14", ("en", "de"))
    for part, texts in TEXTS.items():
        with part_writer(destination, part, corpus.languages) as writer:
            for file, prefix in texts:
                names = [f"{prefix}.{language}" for language in corpus.languages]
                append_lines(writer, archive_of(archives, file), names)
    with part_writer(destination, "test", corpus.languages) as writer:
        kinds = zip(("src", "ref"), corpus.languages, strict=True)
        names = [f"newstest2014-deen-{kind}.{language}.sgm" for kind, language in kinds]
        append_segments(writer, archive_of(archives, TEST), names)
