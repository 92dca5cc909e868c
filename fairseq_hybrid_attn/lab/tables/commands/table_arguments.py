"""Arguments that name tables, rows and columns."""

from __future__ import annotations

import argparse

from ....errors import UserError
from ...configuration.tables import load_table
from ...runs.commands.arguments import add_seeds, workspace
from ...runs.planning import Plan, make_plan
from ..claims import terms_of


def add_cells(parser: argparse.ArgumentParser) -> None:
    """Declare what names tables, or some of their rows and columns."""
    parser.add_argument(
        "names",
        nargs="+",
        metavar="PAPER/TABLE [ROW ..]",
        help="tables, each followed by rows; all its rows if none is named",
    )
    parser.add_argument(
        "--columns",
        type=lambda text: text.split(","),
        default=[],
        metavar="A,B",
        help="columns; all if none is named",
    )
    add_seeds(parser)


def plans(args: argparse.Namespace) -> list[Plan]:
    """The plans for the tables and rows that the arguments name.

    Raises:
        UserError: if there is no such table, row or column.
    """
    if "/" not in args.names[0]:
        raise UserError(f"{args.names[0]}: name a table first, as PAPER/TABLE")
    tables: list[tuple[str, list[str]]] = []
    for name in args.names:
        if "/" in name:
            tables.append((name.rstrip("/"), []))
        else:
            tables[-1][1].append(name)
    place = workspace(args)
    loaded = [(load_table(name, place.configs), rows) for name, rows in tables]
    for table, _ in loaded:  # a mistake is told now, not after the training
        for claim in table.claims:
            terms_of(table, claim)
    asked = []
    for table, rows in loaded:
        # A column is of one table or another.
        columns = [name for name in args.columns if name in {c.name for c in table.columns}]
        if args.columns and not columns:
            table.column(args.columns[0])  # says which there are
        asked.append(make_plan(table, place, rows, columns, args.seeds))
    for name in args.columns:
        if not any(column.name == name for table, _ in loaded for column in table.columns):
            raise UserError(f"--columns {name}: none of these tables has it")
    return asked
