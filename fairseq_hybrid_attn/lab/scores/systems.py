"""Translations of several systems: their flags, checks, files and warnings."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ...errors import UserError
from ..cli import flags
from ..cli.flags import positive
from .generate_output import read_finished, read_generated
from .lengths_measure import BOUNDS, word_counts

#: Average length of a word, in characters, above which text seems to have no spaces.
_LONG = 15


@dataclass(frozen=True)
class System:
    """A system's translations: text, or the output of fairseq-generate."""

    name: str
    path: Path
    generated: bool

    def read(
        self, reference: Path, count: int, target_lang: str, subwords: str, tokenizer: str
    ) -> list[str]:
        if self.generated:
            return read_generated(self.path, count, subwords, tokenizer, target_lang)[0]
        return read_finished(self.path, reference, count)


def add_systems(parser: argparse.ArgumentParser) -> None:
    for flag, help_ in {
        "--hypotheses": "a system's translations, detokenised, one per line; may be repeated",
        "--generated": "a system's output from fairseq-generate; may be repeated",
    }.items():
        parser.add_argument(
            flag,
            dest="systems",
            action="append",
            type=partial(_system, generated=flag == "--generated"),
            metavar="NAME=FILE",
            help=help_,
        )


def _system(text: str, generated: bool) -> System:
    return System(*flags.named_path(text), generated)


def add_bounds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bounds",
        type=_bounds,
        default=BOUNDS,
        metavar="N,N,…",
        help="upper limits of all groups but the last, in words (default: 10,20,30,40,50)",
    )


def _bounds(text: str) -> tuple[int, ...]:
    numbers = [positive(word) for word in text.split(",")]
    if sorted(set(numbers)) != numbers:
        raise argparse.ArgumentTypeError(f"{text!r}: use increasing numbers")
    return tuple(numbers)


def check_systems(systems: Sequence[System], needed: Mapping[str, str | None]) -> None:
    """Check that names differ, and that --generated, and only it, has the flags ``needed``."""
    check_names(systems)
    if any(one.generated for one in systems):
        flags.require(needed, "--generated needs {} as well (which may be none)")
        return
    for flag, value in needed.items():
        if value not in (None, "none"):
            raise UserError(f"{flag} {value} needs --generated; --hypotheses is text as is")


def check_names(systems: Sequence[System]) -> None:
    names = [one.name for one in systems]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"two systems are called {name}; give each its own name")


def other_subwords(lines: Sequence[str], kind: str) -> list[str]:
    """The kinds of subwords that text looks like, except ``kind``."""
    marks = {"subword-nmt": "@@ ", "sentencepiece": "\u2581"}
    return [
        other for other, mark in marks.items() if other != kind and any(mark in s for s in lines)
    ]


def count_words(lines: list[str], where: str, way_out: str) -> list[int]:
    """Count the words of each line; warn, with a way out, if there seem to be no spaces."""
    counts = word_counts(lines)
    characters = sum(len("".join(line.split())) for line in lines)
    if characters > _LONG * sum(counts):
        warn(
            f"words of {where} have {characters / max(1, sum(counts)):.0f} characters on average; "
            f"are there spaces between words? {way_out}"
        )
    return counts


def warn(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr)
