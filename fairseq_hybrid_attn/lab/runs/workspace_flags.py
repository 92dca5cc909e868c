"""Flags that the commands for tables and runs share: tables, workspace, devices, seeds."""

from __future__ import annotations

import argparse
from pathlib import Path

from ...errors import UserError
from ..cli.flags import positive
from ..config.paper_tables import Table, load_table
from ..config.settings import FULL, load_profile
from ..corpora.own import texts_of
from ..files.text import lines
from ..files.writing import check_folder
from ..files.yaml_files import CONFIGS
from .plan import Plan, make_plan
from .workspace import OwnText, Workspace

#: More are a seed without its comma.
_MOST_SEEDS = 1000


def add_workspace(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where, at which scale, on which text")
    group.add_argument(
        "--output",
        type=Path,
        default=Path("reproduction"),
        metavar="DIR",
        help="folder of corpora and runs (default: reproduction)",
    )
    group.add_argument(
        "--profile",
        metavar="NAME",
        help="scale: full (the papers'), small, few, tiny, iwslt, or a .yaml file (default: full; "
        "in train and compare on your text, what suits its size)",
    )
    group.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="your text in place of the papers' corpora: a folder with train, valid and "
        "test files (train.de, train.en, ...), or with one pair of files (x.de, x.en; .gz too)",
    )
    group.add_argument(
        "--source-lang", metavar="LANG", help="source language of --data (default: as in the paper)"
    )
    group.add_argument(
        "--target-lang", metavar="LANG", help="target language of --data (default: as in the paper)"
    )
    group.add_argument(
        "--configs",
        type=Path,
        default=CONFIGS,
        metavar="DIR",
        help="folder of configurations (default: those of the package)",
    )


def workspace(args: argparse.Namespace, own_sizes: bool = False) -> Workspace:
    """The workspace of the flags; with ``own_sizes``, at a scale that suits the user's text."""
    if not args.configs.is_dir():
        raise UserError(f"--configs {args.configs}: no such folder")
    own = None
    if args.data is not None:
        # Runs on a text can be printed without it.
        of_text = (args.output / "runs").glob(f"*@{args.data.resolve().name}")
        if not args.data.is_dir() and not any(of_text):
            raise UserError(f"--data {args.data}: there is no such folder")
        own = OwnText(args.data, args.source_lang, args.target_lang)
    elif args.source_lang or args.target_lang:
        raise UserError("--source-lang and --target-lang are for --data only")
    if args.profile is None and own and own_sizes:
        from ..config.own_tables import profile_of_text  # here: papers' tables need it not

        profile = profile_of_text(training_pairs(own), args.configs)
    else:
        profile = load_profile(args.profile or FULL.name, args.configs)
    place = Workspace(
        root=args.output.absolute(),
        configs=args.configs.absolute(),
        profile=profile,
        own=own,
        user_dir=args.user_dir,
    )
    check_folder(place.runs / place.label)
    return place


def training_pairs(own: OwnText) -> int:
    texts = texts_of(own.folder)
    files = texts["train"] if "train" in texts else next(iter(texts.values()))
    return sum(1 for _ in lines(next(iter(files.values()))))


def add_row(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("row", metavar="PAPER/TABLE/ROW")
    parser.add_argument("--column", metavar="NAME", help="needed if the table has several")
    parser.add_argument("--seed", type=seed, default=1, metavar="N")


def add_devices(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("devices")
    group.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="auto uses GPUs if there are any",
    )
    group.add_argument(
        "--precision",
        choices=("auto", "fp32", "fp16", "bf16"),
        default="auto",
        help="precision of training; auto: fp16 on a GPU; on a CPU bf16 if it has AVX512-BF16 or "
        "AMX, else fp32",
    )


def add_seeds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seeds",
        type=seeds,
        default=(1,),
        metavar="N|A,B,..",
        help="3 means seeds 1, 2 and 3; 5,7 means 5 and 7; 5, means 5 alone (default: 1)",
    )


def seed(text: str) -> int:
    """A whole number above 0 that fairseq takes as a seed."""
    number = positive(text)
    if number >= 2**32:
        raise argparse.ArgumentTypeError(f"{text!r}: fairseq's seeds are below 2^32")
    return number


def seeds(text: str) -> tuple[int, ...]:
    """Seeds of ``3`` (1 to 3), ``5,7`` or ``5,`` (5 alone)."""
    try:
        numbers = [int(word) for word in text.removesuffix(",").split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: use one number, or 5,7,9") from None
    if min(numbers) < 1 or len(set(numbers)) < len(numbers):
        raise argparse.ArgumentTypeError(f"{text!r}: use different numbers above 0")
    if max(numbers) > _MOST_SEEDS and "," not in text:
        raise argparse.ArgumentTypeError(f"{text!r} seeds are too many; {text}, is the seed {text}")
    seed(str(max(numbers)))
    return tuple(numbers) if "," in text else tuple(range(1, numbers[0] + 1))


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
