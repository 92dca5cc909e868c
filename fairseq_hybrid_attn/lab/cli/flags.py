"""Checks of flags that several commands share."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...errors import UserError

#: Flags of fairseq-generate that commands give it themselves.
_NOT_OF_SEARCH = ("--path", "--results-path", "--gen-subset", "--source-lang", "--target-lang")


def refuse(given: Mapping[str, object], why: str) -> None:
    """Refuse the first flag that has a value; ``why`` is the message, with ``{}`` for the flag."""
    for flag, value in given.items():
        if value:
            raise UserError(why.format(flag))


def require(given: Mapping[str, object], why: str) -> None:
    """Refuse flags without a value; ``why`` is the message, with ``{}`` for all their names."""
    missing = [flag for flag, value in given.items() if not value]
    if missing:
        raise UserError(why.format(" and ".join(missing)))


def check_name(flag: str, name: str, models: Sequence[str]) -> None:
    """Refuse ``FLAG NAME=FILE`` with a name that no model has."""
    if name not in models:
        raise UserError(
            f"{flag} {name}=…: there is no such model; they are called {', '.join(models)} "
            "(--names changes them)"
        )


def named_path(text: str) -> tuple[str, Path]:
    """Name and path of ``NAME=FILE``, for argparse."""
    name, found, path = text.partition("=")
    if not (name and found and path):
        raise argparse.ArgumentTypeError(f"{text!r}: use NAME=FILE")
    return name, Path(path)


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
