"""Mistakes that a user can correct, reported in a message rather than a traceback.

Functions of the laboratory (``lab/``) raise :class:`UserError` for every such mistake: a missing
file, a wrong setting, invalid data.  Their docstrings do not repeat this.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class UserError(ValueError, SystemExit):
    """A user's mistake; the message says how to correct it.

    In a program this is a :class:`ValueError`.  If nothing catches it, it acts as a
    :class:`SystemExit`: Python prints the message to standard error and exits with status 1.
    """

    def __init__(self, message: str):
        super().__init__(message)
        self.code = message


#: Ends a message about a word that a folder of the user may register.
IF_REGISTERED = "; if a folder of yours registers it, give --user-dir FOLDER"


def few(items: Sequence[object], most: int = 5, between: str = ", ") -> str:
    """The first items, for a message, and whether there are more."""
    return between.join(map(str, items[:most])) + f"{between}…" * (len(items) > most)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean NAME?``, the nearest of what is known; "" if nothing is near."""
    near = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


class Faults:
    """Collect everything that is wrong with a configuration, to report it all at once."""

    def __init__(self, subject: str):
        self.subject = subject
        self.messages: list[str] = []

    def add(self, flag: str, value: object, problem: str) -> None:
        """Note that ``flag`` (with ``value``) is wrong; ``problem`` says what to use instead."""
        setting = flag if value is True else f"{flag} {value}"
        self.messages.append(f"{setting}: {problem}")

    def raise_if_any(self) -> None:
        """Raise a UserError that lists all faults, if there are any."""
        if self.messages:
            lines = "\n".join(f"  {message}" for message in self.messages)
            raise UserError(f"{self.subject} cannot be built from these settings:\n{lines}")
