"""Mistakes a user can make, told in a message rather than in a traceback."""

from __future__ import annotations


class UserError(ValueError, SystemExit):
    """A user's mistake, with the way out in its message.

    In a program it is a :class:`ValueError` like any other.  Uncaught in a command it
    behaves as :class:`SystemExit` does: Python prints the message to standard error,
    without a traceback, and exits with status 1.
    """

    def __init__(self, message: str):
        super().__init__(message)
        self.code = message


class Faults:
    """Collects everything that is wrong with a configuration, to report it all at once."""

    def __init__(self, subject: str):
        self.subject = subject
        self.messages: list[str] = []

    def add(self, flag: str, value: object, problem: str) -> None:
        """Note that ``flag`` (with ``value``) is wrong; ``problem`` names the way out."""
        setting = flag if value is True else f"{flag} {value}"
        self.messages.append(f"{setting}: {problem}")

    def raise_if_any(self) -> None:
        """Raise.

        Raises:
            UserError: if any fault was added, listing all of them.
        """
        if self.messages:
            lines = "\n".join(f"  {message}" for message in self.messages)
            raise UserError(f"{self.subject} cannot be built from these settings:\n{lines}")
