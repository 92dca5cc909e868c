"""One process at a time in a folder."""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ...errors import UserError


@contextlib.contextmanager
def locked(
    path: Path, say: Callable[[str], None], while_waiting: Callable[[], None] = lambda: None
) -> Iterator[int]:
    """Hold a lock; wait while another process, perhaps on another node, holds it.

    Yield the descriptor of the lock.  Programs that are given it inherit the lock and hold it until
    they end as well.  ``say`` is called if there is another process; ``while_waiting`` is called
    every second, and ends the wait if it raises.  The lock file stays.
    """
    with _open(path) as file:
        if not _take(file):
            say(f"another process is at work in {path.parent}; waiting for it to end")
            while not _take(file):
                while_waiting()
                time.sleep(1)
        yield file.fileno()


def _open(path: Path):
    try:
        return open(path, "a")
    except OSError as error:
        raise UserError(f"{path.parent} cannot be written to: {error.strerror}") from error


def _take(file) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise UserError(f"{file.name} cannot be locked: {error.strerror}") from error
    return True
