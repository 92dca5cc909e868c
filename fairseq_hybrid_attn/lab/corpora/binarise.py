"""The dictionaries and binary files that fairseq trains on, made by fairseq-preprocess."""

from __future__ import annotations

import sys
from pathlib import Path

from ...errors import UserError
from ..engine.processes import run_program
from .definition import PARTS, Corpus

_SHOWN = 8  # lines of fairseq's output in a message
_NAMES = {"train": "--trainpref", "valid": "--validpref", "test": "--testpref"}


def binarise(corpus: Corpus, subwords: Path, output: Path, workers: int) -> dict:
    """Make the folder that fairseq-train takes.

    Args:
        corpus: its languages, and whether they share a dictionary.
        subwords: folder of ``PART.LANGUAGE``.
        output: folder to write to.
        workers: how many processes.

    Returns:
        ``dictionary``: how many entries each dictionary has, without fairseq's own four.

    Raises:
        UserError: if fairseq-preprocess fails, with the end of what it said.
    """
    command = [sys.executable, "-m", "fairseq_cli.preprocess"]
    command += ["--source-lang", corpus.source, "--target-lang", corpus.target]
    for part in PARTS:
        command += [_NAMES[part], str(subwords / part)]
    command += ["--destdir", str(output), "--workers", str(workers)]
    if corpus.subwords.joint:
        command.append("--joined-dictionary")
    log = output.parent / "fairseq-preprocess.log"
    status = run_program(command, log)
    if status:
        raise UserError(said("fairseq-preprocess", status, log))
    # fairseq's log of the same: has the time of day in it, and paths.
    (output / "preprocess.log").unlink(missing_ok=True)
    return {
        "dictionary": {
            language: sum(1 for _ in open(output / f"dict.{language}.txt", "rb"))
            for language in corpus.languages
        }
    }


def said(program: str, status: int, log: Path) -> str:
    """What to tell of a program that has failed: the end of what it said."""
    end = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_SHOWN:]
    return "\n  | ".join([f"{program} ended with status {status}; it said:", *end])
