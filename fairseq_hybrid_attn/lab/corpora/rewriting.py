"""Rewriting a text file line by line, in several processes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

from ..files.processes import in_order
from ..files.text import lines
from ..files.writing import atomic_write

#: The number of lines that a worker rewrites at a time.
BLOCK = 1000


def rewrite(
    source: Path, destination: Path, function: Callable[..., str], arguments: tuple, workers: int
) -> None:
    """Write ``function(line, *arguments)`` for every line of a file.

    The destination appears when complete, and is the same for any number of workers.  Memory
    stays bounded whatever the size of the file.
    """
    text = lines(source)
    blocks = iter(lambda: list(itertools.islice(text, BLOCK)), [])
    tasks = ((block, function, arguments) for block in blocks)
    with atomic_write(destination) as file:
        file.writelines(in_order(_rewrite_block, tasks, workers))


def _rewrite_block(task: tuple[list[str], Callable[..., str], tuple]) -> bytes:
    block, function, arguments = task
    return "".join(f"{function(line, *arguments)}\n" for line in block).encode()
