"""One run at a time in a folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from ...errors import UserError


@contextlib.contextmanager
def locked(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold a lock; while another process has it, wait.

    The lock is the process's own: children do not inherit it, and it goes with the process
    however that ends.

    Raises:
        UserError: if the file cannot be written.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise UserError(f"{path.parent} cannot be written to: {error.strerror}") from error
    try:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say(f"another run is at work in {path.parent}; waiting for its end")
            fcntl.lockf(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
