"""What is refused: the messages that the user gets, and that no file changes."""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.commands.command_line import main


def check_refusals(cases: Iterable[tuple[str, str]], run: Callable[[str], object]) -> None:
    """``run`` refuses each case with a message that matches the pattern beside it."""
    for case, pattern in cases:
        with pytest.raises(UserError) as refused:
            run(case)
        assert re.search(pattern, str(refused.value)), (case, str(refused.value))


def check_command_refusals(cases: Iterable[tuple[str, str]], *command: str) -> None:
    """``command`` refuses the further arguments of each case, and no file here changes."""
    before = files()
    for case, pattern in cases:
        check_refusals([(case, pattern)], lambda flags: main(changed(command, flags.split())))
        assert files() == before, case


def changed(command: Sequence[str], more: Sequence[str]) -> list[str]:
    """A command with further arguments, in place of the flags of the same names."""
    kept, dropped = [], False
    for word in command:
        if word.startswith("--"):
            dropped = word in more
        if not dropped:
            kept.append(word)
    return [*kept, *more]


def files(folder: Path = Path()) -> dict[str, bytes]:
    """The contents of all files below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
