"""The dictionaries and binary files that fairseq trains on, made by fairseq-preprocess."""

from __future__ import annotations

import sys
from pathlib import Path

from ...errors import UserError
from ..engine.processes import run_program
from ..files.text import count_lines
from .definition import PARTS, Corpus

_SHOWN = 8  # lines of a program's output in a message
_NAMES = {"train": "--trainpref", "valid": "--validpref", "test": "--testpref"}


def binarise(corpus: Corpus, subwords: Path, output: Path, workers: int) -> dict:
    """Make the folder that fairseq-train takes.

    Returns:
        ``dictionary``: how many entries each dictionary has, without fairseq's own four.
    """
    command = [sys.executable, "-m", "fairseq_cli.preprocess"]
    command += ["--source-lang", corpus.source, "--target-lang", corpus.target]
    for part in PARTS:
        command += [_NAMES[part], str(subwords / part)]
    command += ["--destdir", str(output), "--workers", str(workers)]
    if corpus.subwords.joint:
        command.append("--joined-dictionary")
    run_or_refuse("fairseq-preprocess", command, output.parent)
    # fairseq's log of the same: has the time of day in it, and paths.
    (output / "preprocess.log").unlink(missing_ok=True)
    return {
        "dictionary": {
            language: count_lines(output / f"dict.{language}.txt") for language in corpus.languages
        }
    }


def run_or_refuse(program: str, command: list[str], folder: Path) -> None:
    """Run a program; if it fails, raise a UserError with the end of its output."""
    log = folder / f"{program}.log"
    status = run_program(command, log)
    if status:
        end = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_SHOWN:]
        raise UserError("\n  | ".join([f"{program} ended with status {status}; it said:", *end]))
