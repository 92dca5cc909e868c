"""The dictionaries and binary files that fairseq trains on, made by fairseq-preprocess."""

from __future__ import annotations

from pathlib import Path

from ..engine.processes import run_program
from ..files.text import count_lines
from .definition import PARTS, Corpus

_NAMES = {"train": "--trainpref", "valid": "--validpref", "test": "--testpref"}


def binarise(corpus: Corpus, subwords: Path, output: Path, workers: int) -> dict:
    """Make the folder that fairseq-train takes.

    Return how many entries each ``dictionary`` has, without fairseq's own four.
    """
    command = ["fairseq-preprocess", "--source-lang", corpus.source, "--target-lang", corpus.target]
    for part in PARTS:
        command += [_NAMES[part], str(subwords / part)]
    command += ["--destdir", str(output), "--workers", str(workers)]
    if corpus.subwords.joint:
        command.append("--joined-dictionary")
    run_program(command, output.parent / "fairseq-preprocess.log")
    # fairseq's log of the same: has the time of day in it, and paths.
    (output / "preprocess.log").unlink(missing_ok=True)
    sizes = {lang: count_lines(output / f"dict.{lang}.txt") for lang in corpus.languages}
    return {"dictionary": sizes}
