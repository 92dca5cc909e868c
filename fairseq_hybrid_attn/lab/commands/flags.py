"""Flags that several commands share, and checks of flags."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path

#: Flags of fairseq-generate that commands give it themselves.
_NOT_OF_SEARCH = ("--path", "--results-path", "--gen-subset", "--source-lang", "--target-lang")


def named_path(text: str) -> tuple[str, Path]:
    name, found, path = text.partition("=")
    if not (name and found and path) or os.path.exists(text):  # as a run of dropout=0.3
        raise argparse.ArgumentTypeError(f"{text!r}: use NAME=PATH, with a name that you choose")
    return name, Path(path)


def maybe_named(text: str) -> tuple[str, Path]:
    """A path with a name before it, ``NAME=PATH``, or with an empty name."""
    name, _, path = text.partition("=")
    return ("", Path(text)) if os.path.exists(text) or not (name and path) else (name, Path(path))


def path_of_name(text: str) -> tuple[str, Path]:
    """The same; without a name, it is called as it is."""
    name, path = maybe_named(text)
    return name or text, path


def search_flags(text: str) -> list[str]:
    """Flags of fairseq-generate, for argparse; not those that a command gives itself."""
    words = shlex.split(text)
    for word in words:
        if word.partition("=")[0] in _NOT_OF_SEARCH:
            raise argparse.ArgumentTypeError(f"{word} follows from other flags; leave it out")
    return words


def positive(text: str) -> int:
    """A whole number above 0, for argparse."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: use a whole number above 0")
    return number


def increasing(text: str) -> tuple[int, ...]:
    """Whole numbers with commas between, each above the one before."""
    numbers = [positive(word) for word in text.split(",")]
    if sorted(set(numbers)) != numbers:
        raise argparse.ArgumentTypeError(f"{text!r}: use increasing numbers")
    return tuple(numbers)


def add_device(parser) -> None:
    text = "auto (default): a GPU if there is one"
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help=text)


def add_text(group) -> None:
    group.add_argument(
        "--text",
        type=Path,
        action="append",
        metavar="DIR|FILE",
        help="your text in place of the corpus: a folder with train, valid and test files "
        "(train.de, train.en, ...) or one pair of files (x.de, x.en; .gz too); or twice, with a "
        "file of the pair each",
    )
    for side in ("source", "target"):
        text = f"{side} language of your text (default: as in the paper; English is the target)"
        group.add_argument(f"--{side}-lang", metavar="LANG", help=text)


def add_user_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--user-dir",
        type=Path,
        metavar="DIR",
        help="your own folder to import, as for fairseq's commands (see docs/extending.md)",
    )
