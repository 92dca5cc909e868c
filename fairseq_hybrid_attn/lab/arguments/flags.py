"""Flags that go together, or do not."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...errors import UserError


def refuse(given: Mapping[str, object], why: str) -> None:
    """Refuse flags that do not go with others.

    Args:
        given: values of flags, by their names; an empty one, or False, is not given.
        why: the message, with ``{}`` for the flag.

    Raises:
        UserError: if any is given, naming the first.
    """
    for flag, value in given.items():
        if value:
            raise UserError(why.format(flag))


def require(given: Mapping[str, object], why: str) -> None:
    """Refuse that flags are lacking.

    Args:
        given: as of :func:`refuse`.
        why: the message, with ``{}`` for those that lack.

    Raises:
        UserError: if any is not given, naming all that are not.
    """
    lacking = [flag for flag, value in given.items() if not value]
    if lacking:
        raise UserError(why.format(" and ".join(lacking)))


def check_name(flag: str, name: str, models: Sequence[str]) -> None:
    """Refuse what is given under a name (``FLAG NAME=FILE``) that no model has.

    Raises:
        UserError: naming the models.
    """
    if name not in models:
        raise UserError(
            f"{flag} {name}=…: there is no such model; they are called {', '.join(models)} "
            "(--names calls them otherwise)"
        )


def named_path(text: str) -> tuple[str, Path]:
    """Name and path of ``NAME=FILE``, for argparse."""
    name, found, path = text.partition("=")
    if not (name and found and path):
        raise argparse.ArgumentTypeError(f"{text!r}: use NAME=FILE")
    return name, Path(path)


def positive(text: str) -> int:
    """A whole number above 0."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: use a whole number above 0")
    return number
