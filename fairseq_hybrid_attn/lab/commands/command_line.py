"""The command line: ``fairseq-hybrid COMMAND`` or ``python -m fairseq_hybrid_attn COMMAND``."""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ... import __version__
from ...errors import UserError, did_you_mean
from ..config.user_dir import import_user_dir
from ..files.provenance import installed
from .flags import add_user_dir

#: The commands in groups, and what each does.  The module of its name (- is _) has
#: ``add_arguments(parser)`` and ``run(args)``; its docstring is the command's help.
GROUPS = {
    "data": [
        ("prepare", "make training data of a corpus or your text"),
    ],
    "experiments": [
        ("reproduce", "run a table of a paper and print it"),
        ("table", "print a paper's table with our numbers beside it"),
        ("runs", "list runs, and which are stale"),
        ("show", "print a run's exact command lines"),
        ("train", "train and score one system: on your text, or a row"),
        ("compare", "train systems on your text and compare them"),
    ],
    "models": [
        ("translate", "translate text with a trained model"),
        ("export", "make a small folder of a run's or fairseq's model"),
        ("average", "average the weights of checkpoints"),
        ("score", "compute BLEU of translations and compare them"),
        ("losses", "compute losses with intervals over sentences"),
        ("score-checkpoints", "score the checkpoints of a run"),
    ],
    "analysis": [
        ("report", "compare models on a test set in one HTML page"),
        ("maps", "draw attention maps: interactive page, figures, data"),
        ("gates", "show mean gates by layer, branch and part of speech"),
        ("heads", "measure distance, entropy and difference of heads"),
        ("curves", "draw learning curves: loss and BLEU by updates"),
        ("probe", "run probing tasks (SentEval) on a trained encoder"),
    ],
    "alignment": [
        ("align", "extract word alignments from a model's attention"),
        ("aer", "compute the alignment error rate"),
        ("align-training", "align training text for fairseq"),
    ],
}

COMMANDS = [name for group in GROUPS.values() for name, _ in group]
#: Those that need no fairseq, which takes seconds to load.
WITHOUT_FAIRSEQ = ("runs", "table", "score", "aer", "curves")

#: Errors of writing to what was opened before.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
#: A file or folder that cannot be used as it is.
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG)
#: The exit statuses that shells give a program ended by Ctrl-C, and by a pipe without a reader.
INTERRUPTED, BROKEN_PIPE = 130, 141


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command with its arguments; None takes those of the process.

    Uncaught, a UserError prints its message and exits with 1.  Arguments that cannot be parsed
    exit with 2.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    _replace_closed_streams()
    try:
        try:
            _run(words)
        finally:
            if sys.stdout:  # None: it was closed
                sys.stdout.flush()
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except OSError as error:
        if error.filename is not None and error.errno in (*_FULL, *_REFUSED):
            full = error.filename2 if error.errno in _FULL else None  # what was copied to
            raise UserError(f"{full or error.filename}: {error.strerror}") from None
        broken = isinstance(error, BrokenPipeError)  # the reader of our output, as head, has ended
        if not (broken or (error.filename is None and error.errno in _FULL)):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nothing more is written
        if isinstance(error.__context__, UserError):  # of the work itself
            raise error.__context__ from None
        if broken:
            raise SystemExit(BROKEN_PIPE) from None
        raise UserError(f"the output cannot be written: {error.strerror}") from None


def _replace_closed_streams() -> None:
    """Let no file take the place of a stream that was closed, and drop what is told to nobody."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def _run(words: list[str]) -> None:
    for stream in (sys.stdout, sys.stderr):  # a terminal may know ASCII alone
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    everything = _parser()
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        advice = did_you_mean(words[0], COMMANDS) or "; --help lists the commands"
        everything.error(f"there is no command {words[0]!r}{advice}")
    name = everything.parse_args(words[: 1 + (words[:1] == ["--print-completion"])]).command
    if name not in WITHOUT_FAIRSEQ and not {"-h", "--help"} & set(words):
        from ... import models  # noqa: F401  (fairseq gets to know them)
    parser = argparse.ArgumentParser(prog=f"fairseq-hybrid {name}", allow_abbrev=False)
    for action in (None, "store"):
        parser.register("action", action, _Once)
    _add_arguments(parser, name)
    ours, others = words[1:], []
    if "--" in ours and parser.get_default("others") is not None:  # another program's flags follow
        at = ours.index("--")
        ours, others = ours[:at], ours[at + 1 :]
    args, unknown = parser.parse_known_intermixed_args(ours)  # rows may follow options
    if unknown:
        wrong = next((word for word in unknown if word.startswith("-")), unknown[0])
        flag = wrong.partition("=")[0]
        known = (flag for action in parser._actions for flag in action.option_strings)
        hint = did_you_mean(flag, known)
        if parser.get_default("others") == []:
            from fairseq.options import get_training_parser

            if flag in get_training_parser()._option_string_actions:
                hint = ""
            hint += " (flags of fairseq-train follow after --)"
        parser.error(f"unrecognized arguments: {wrong}{hint}")
    behind = [word.partition("=")[0] for word in others]
    if mine := [flag for flag in behind if flag in parser._option_string_actions]:
        from fairseq.options import get_training_parser

        theirs = get_training_parser()._option_string_actions
        if misplaced := [flag for flag in mine if flag not in theirs]:
            parser.error(f"{misplaced[0]} is of fairseq-hybrid {name}: write it before --")
    args.others = others
    args.command_line = ["fairseq-hybrid", *words]
    args.user_dir = import_user_dir(args.user_dir)
    _module(name).run(args)


def _module(name: str) -> Any:
    return importlib.import_module(f".{name.replace('-', '_')}", __package__)


def _add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    parser.description = _module(name).__doc__
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    _module(name).add_arguments(parser)
    add_user_dir(parser)


class _Once(argparse._StoreAction):
    """Store the value of a flag, and refuse another one, by which the first would be lost."""

    _given: object = None

    def __call__(self, parser, namespace, values, option_string=None):
        if option_string and self._given not in (None, values):
            parser.error(f"{option_string} is given twice, with different values")
        self._given = values
        super().__call__(parser, namespace, values, option_string)


class _PrintCompletion(argparse.Action):
    """Print a script by which a shell completes the commands, their flags and files."""

    def __call__(self, parser, namespace, shell, option_string=None):
        import shtab

        from ... import models  # noqa: F401  first: it keeps fairseq from changing all logging

        whole = argparse.ArgumentParser(prog="fairseq-hybrid")
        commands = whole.add_subparsers()
        for name in COMMANDS:
            command = commands.add_parser(name, help=name)  # shtab leaves out those without
            _add_arguments(command, name)
            for action in command._actions:
                if action.type is Path:
                    action.complete = shtab.FILE  # type: ignore[attr-defined]
        print(shtab.complete(whole, shell))
        parser.exit()


def _version() -> str:
    packages = installed("ve-fairseq", "fairseq-fixed", "fairseq", "torch")
    others = ", ".join(f"{name} {version}" for name, version in packages.items())
    return f"fairseq-hybrid {__version__} ({others})"


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    lines = [
        line
        for group, commands in GROUPS.items()
        for line in ("", f"{group}:", *(f"  {name:{width}}  {text}" for name, text in commands))
    ]
    parser = argparse.ArgumentParser(
        prog="fairseq-hybrid",
        usage="%(prog)s COMMAND …",
        description="Prepare data, reproduce the papers' tables, and analyse trained models.",
        epilog="\n".join([*lines[1:], "", "fairseq-hybrid COMMAND --help explains a command."]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=_version())
    text = "print the completion script of a shell (bash, zsh)"
    parser.add_argument("--print-completion", action=_PrintCompletion, metavar="SHELL", help=text)
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help=argparse.SUPPRESS)
    return parser
