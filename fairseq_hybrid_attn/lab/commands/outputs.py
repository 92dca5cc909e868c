"""What an analysis writes beside its printed table: a figure, and its data as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ..figures import style
from ..files.json_files import write_json
from ..files.writing import check_outputs


def add_outputs(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what to write")
    add_figure(group)
    group.add_argument("--json", type=Path, metavar="FILE", help="the data")


def add_figure(parser) -> None:
    """Declare a figure and its theme; ``parser`` may be a group of arguments."""
    parser.add_argument(
        "--figure",
        type=Path,
        metavar="FILE",
        help=f"draw it: a file in .{', .'.join(style.FORMATS)}",
    )
    add_theme(parser)


def add_theme(parser) -> None:
    parser.add_argument(
        "--theme", choices=tuple(style.THEMES), default="light", help="background (default: light)"
    )


def check(
    args: argparse.Namespace,
    inputs: Iterable[Path | None],
    others: Mapping[str, Path | None] | None = None,
) -> None:
    """Check up front that all files can be written: these, and ``others`` by flag."""
    check_outputs({"--figure": args.figure, "--json": args.json, **(others or {})}, inputs)
    check_figure(args)


def check_figure(args: argparse.Namespace) -> None:
    if args.figure:
        style.check_figure(args.figure)


def write(args: argparse.Namespace, data: dict, draw: Callable[[str], style.Figure]) -> None:
    """Write what is requested: the data, the figure in its theme."""
    if args.json:
        write_json(args.json, data)
    if args.figure:
        style.save(draw(args.theme), args.figure)
