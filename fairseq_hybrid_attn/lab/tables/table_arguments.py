"""Arguments that name tables, rows and columns."""

from __future__ import annotations

import argparse

from ...errors import UserError
from ..config.paper_tables import Table, load_table, terms_of
from ..runs.plan import Plan, make_plan
from ..runs.workspace_flags import add_seeds, workspace


def add_cells(parser: argparse.ArgumentParser, nargs: str = "+") -> None:
    parser.add_argument(
        "names",
        nargs=nargs,
        metavar="PAPER/TABLE [ROW ..]",
        help="tables, each followed by its rows (default: all rows)",
    )
    parser.add_argument(
        "--columns",
        type=lambda text: text.split(","),
        default=[],
        metavar="A,B",
        help="columns (default: all columns)",
    )
    add_seeds(parser)


def plans(args: argparse.Namespace) -> list[Plan]:
    if "/" not in args.names[0]:
        raise UserError(f"{args.names[0]}: name a table first, as PAPER/TABLE")
    place = workspace(args)
    loaded: list[tuple[Table, list[str]]] = []
    for name in args.names:
        if name.rstrip("/") in {table.name for table, _ in loaded}:
            raise UserError(f"{name} is named twice; name all of its rows after it")
        if "/" in name:
            loaded.append((load_table(name.rstrip("/"), place.configs), []))
        else:
            loaded[-1][1].append(name)
    named = {column.name for table, _ in loaded for column in table.columns}
    asked = []
    for table, rows in loaded:
        for claim in table.claims:  # report a mistake now, not after the training
            terms_of(table, claim)
        columns = [column.name for column in table.columns if column.name in args.columns]
        if args.columns and not columns:
            table.column(args.columns[0])  # its error lists the columns
        plan = make_plan(table, place, rows, columns, args.seeds)
        if not plan.cells:
            raise UserError(f"{table.name}: none of these rows is in these columns")
        asked.append(plan)
    for name in args.columns:
        if name not in named:
            raise UserError(f"--columns {name}: none of these tables has it")
    return asked
