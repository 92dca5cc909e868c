"""Word alignments of the training text, where fairseq-train looks for them.

``--load-alignments`` reads them from the data folder itself.  A training that does not use them
must not depend on them, and two runs of the aligner differ; so they get a folder of their own
that has the files of ``bin`` by links.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..alignment.training_links import load_eflomal
from ..engine.processes import run_program
from .definition import Corpus

TEXT = "train.align"  # the alignments in Pharaoh format, between subwords


def align_training_text(corpus: Corpus, prepared: Path, output: Path) -> None:
    """Align the text in ``prepared/subwords``, and make a data folder of it and ``prepared/bin``.

    ``output`` is the folder to write to; it will be one of ``prepared``.
    """
    from fairseq.binarizer import AlignmentDatasetBinarizer, FileBinarizer
    from fairseq.utils import parse_alignment

    load_eflomal()  # refuses before the work if there is none
    # The command writes beside the text that it reads.
    text = output.parent / "text"
    text.mkdir()
    for language in corpus.languages:
        (text / f"train.{language}").symlink_to(
            (prepared / "subwords" / f"train.{language}").resolve()
        )
    command = ["fairseq-hybrid", "align-training"]
    command += ["--source-lang", corpus.source, "--target-lang", corpus.target]
    command += ["--subwords", corpus.subwords.family, "--trainpref", str(text / "train")]
    run_program(command, output.parent / "align-training.log")
    os.replace(text / TEXT, output / TEXT)
    # As fairseq-preprocess --align-suffix does.
    prefix = str(output / f"train.align.{corpus.source}-{corpus.target}")
    binarizer = AlignmentDatasetBinarizer(parse_alignment)
    FileBinarizer.multiprocess_dataset(str(output / TEXT), "mmap", binarizer, prefix)
    for path in sorted((prepared / "bin").iterdir()):
        (output / path.name).symlink_to(Path("..") / "bin" / path.name)
