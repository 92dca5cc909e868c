"""What an analysis leaves beside its printed table: a figure, and its data as JSON and CSV."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import UserError
from ..figures import style
from ..files.atomic import atomic_write, check_outputs, write_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """Declare what to write."""
    group = parser.add_argument_group("what to write")
    add_figure(group)
    group.add_argument("--json", type=Path, metavar="FILE", help="the data")
    group.add_argument("--csv", type=Path, metavar="FILE", help="the data, a line a number")


def add_figure(parser) -> None:
    """Declare a figure and its looks; ``parser`` may be a group of arguments."""
    parser.add_argument(
        "--figure",
        type=Path,
        metavar="FILE",
        help=f"draw it: a file in .{', .'.join(style.FORMATS)}",
    )
    parser.add_argument(
        "--theme", choices=tuple(style.THEMES), help="background of the figure (default: light)"
    )


def check(
    args: argparse.Namespace,
    inputs: Iterable[Path],
    others: Mapping[str, Path | None] | None = None,
) -> None:
    """See to it, before the work, that all can be written.

    Args:
        args: of :func:`add_outputs`.
        inputs: the files that the command reads.
        others: what it may write besides, by flags; None for what it does not.

    Raises:
        UserError: naming the flag and the way out.
    """
    named = {"--figure": args.figure, "--json": args.json, "--csv": args.csv, **(others or {})}
    check_outputs({flag: path for flag, path in named.items() if path}, inputs=inputs)
    check_figure(args)


def check_figure(args: argparse.Namespace) -> None:
    """The same for the figure alone.

    Raises:
        UserError: if it cannot be drawn, or a theme is of no figure.
    """
    if args.figure:
        style.check_figure(args.figure)
    elif args.theme:
        raise UserError(f"--theme {args.theme} is for --figure FILE; give both")


def write(
    args: argparse.Namespace, data: dict, rows: list[dict], draw: Callable[[str], Figure]
) -> None:
    """Write what is asked for.

    Args:
        args: of :func:`add_outputs`.
        data: for JSON.
        rows: for CSV, all with the same keys; None becomes an empty field.
        draw: draws the figure in a theme.

    Raises:
        UserError: if a file cannot be written.
    """
    if args.json:
        write_json(args.json, data)
    if args.csv:
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_text(args.csv, text.getvalue())
    if args.figure:
        style.save(draw(args.theme or "light"), args.figure)


def make_folder(flag: str, path: Path) -> None:
    """Make a folder to write into, if it is not there.

    Raises:
        UserError: if it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{flag} {path} cannot be made: {error.strerror}") from error


def write_text(path: Path, text: str) -> None:
    """Write a file, whole or not at all.

    Raises:
        UserError: if it cannot be written.
    """
    with atomic_write(path) as file:
        file.write(text.encode())
