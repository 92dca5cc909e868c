"""WMT14 English-German: Europarl v7, Common Crawl, News Commentary v9; newstest2013 and 2014.

newstest2014 has two versions: ``full`` has 3,003 sentences and is what most papers since
Vaswani et al. (2017) score; ``filtered`` has 2,737 and was the official set of the evaluation.
"""

from __future__ import annotations

from pathlib import Path

from ....errors import UserError
from .. import formats
from ..definition import Corpus

#: Training text: the archive, and the beginning of its members' names.
TRAIN = {
    "europarl-v7": ("wmt13/training-parallel-europarl-v7.tgz", "europarl-v7.de-en"),
    "commoncrawl": ("wmt13/training-parallel-commoncrawl.tgz", "commoncrawl.de-en"),
    "news-commentary-v9": ("wmt14/training-parallel-nc-v9.tgz", "news-commentary-v9.de-en"),
}
VALID = ("wmt14/dev.tgz", "newstest2013")
TEST = {"full": "wmt14/test-full.tgz", "filtered": "wmt14/test-filtered.tgz"}


def read(corpus: Corpus, archives: dict[str, Path], destination: Path) -> None:
    """Write the three parts.

    The options are ``train``, names of :data:`TRAIN` (default: all), and ``newstest2014``,
    ``full`` (default) or ``filtered``.
    """
    options = formats.read_options(corpus.options, {"train": list(TRAIN), "newstest2014": "full"})
    formats.check_languages(corpus, "wmt14", ("en", "de"))
    formats.check_names("train", options["train"], TRAIN)
    newstest = options["newstest2014"]
    if newstest not in list(TEST):
        raise UserError(f"the recipe's options: newstest2014: {newstest}; use {' or '.join(TEST)}")
    plain = {"train": [TRAIN[name] for name in options["train"]], "valid": [VALID]}
    for part, texts in plain.items():
        with formats.part_writer(destination, part, corpus.languages) as writer:
            for file, prefix in texts:
                names = [f"{prefix}.{language}" for language in corpus.languages]
                formats.append_lines(writer, formats.archive_of(archives, file), names)
    with formats.part_writer(destination, "test", corpus.languages) as writer:
        kinds = zip(("src", "ref"), corpus.languages, strict=True)
        names = [f"newstest2014-deen-{kind}.{language}.sgm" for kind, language in kinds]
        formats.append_segments(writer, formats.archive_of(archives, TEST[newstest]), names)
