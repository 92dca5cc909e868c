"""The data that fairseq trains on: dictionaries, binary text, and word alignments.

``--load-alignments`` reads alignments of the training text from the data folder itself.  Two runs
of the aligner differ, and a training without alignments must not depend on them.  So they get a
separate folder, with links to the files of ``bin``.
"""

from __future__ import annotations

from pathlib import Path

from ..files.deleting import delete
from ..files.processes import run_program
from ..files.text import count_lines, lines
from .definition import PARTS, Corpus
from .link_files import write_pharaoh
from .subwords import given
from .training_links import align_words, read_bitext, symmetrise

TEXT = "train.align"  # the alignments in Pharaoh format, between subwords


def binarise(corpus: Corpus, subwords: Path, output: Path, workers: int) -> dict:
    """Make the folder that fairseq-train takes.

    Return the number of entries in each ``dictionary``, without fairseq's own four; and of each
    file, the tokens of its ``longest`` sentence, which fairseq ends with one more, and its line.
    """
    # Absolute, since a relative path that begins with a hyphen would be taken for a flag.
    subwords, output = subwords.absolute(), output.absolute()
    command = ["fairseq-preprocess", "--source-lang", corpus.source, "--target-lang", corpus.target]
    for part in PARTS:
        command += [f"--{part}pref", str(subwords / part)]
    command += ["--destdir", str(output), "--workers", str(workers)]
    if corpus.like:
        for side, language in (("src", corpus.source), ("tgt", corpus.target)):
            command += [f"--{side}dict", str(given(corpus, f"bin/dict.{language}.txt").absolute())]
    elif corpus.subwords.one_dictionary:
        command.append("--joined-dictionary")
    log = output.parents[1] / "fairseq-preprocess.log"  # it stays if it tells of an error
    run_program(command, log)
    delete(log, log.parent)
    # fairseq's own log, which contains paths and the time of day.
    delete(output / "preprocess.log", output)
    sizes = {lang: count_lines(output / f"dict.{lang}.txt") for lang in corpus.languages}
    texts = [f"{part}.{language}" for part in PARTS for language in corpus.languages]
    return {"dictionary": sizes, "longest": {name: _longest(subwords / name) for name in texts}}


def _longest(text: Path) -> list[int]:
    lengths = ((len(line.split()) + 1, -number) for number, line in enumerate(lines(text), 1))
    tokens, line = max(lengths)
    return [tokens, -line]


def align_training_text(corpus: Corpus, prepared: Path, output: Path) -> None:
    """Align the text in ``prepared/subwords``; make a data folder from it and ``prepared/bin``.

    ``output`` is the folder to write to; it is moved into ``prepared`` later.
    """
    from fairseq.binarizer import AlignmentDatasetBinarizer, FileBinarizer
    from fairseq.utils import parse_alignment

    source, target = (prepared / f"subwords/train.{language}" for language in corpus.languages)
    text = read_bitext(source, target, corpus.subwords.family)
    words = ([sentence.words for sentence in side] for side in (text.source, text.target))
    directions = zip(*align_words(*words), strict=True)
    write_pharaoh(output / TEXT, text.expand([symmetrise(*links) for links in directions]))
    # As fairseq-preprocess --align-suffix does.
    prefix = str(output / f"train.align.{corpus.source}-{corpus.target}")
    binarizer = AlignmentDatasetBinarizer(parse_alignment)
    FileBinarizer.multiprocess_dataset(str(output / TEXT), "mmap", binarizer, prefix)
    for path in sorted((prepared / "bin").iterdir()):
        (output / path.name).symlink_to(Path("..") / "bin" / path.name)
