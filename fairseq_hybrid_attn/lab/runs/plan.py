"""A plan: the requested cells and seeds of a table, and the runs that they need."""

from __future__ import annotations

import contextlib
import io
import logging
import math
import textwrap
import warnings
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from types import SimpleNamespace

from ...errors import UserError
from ..config.paper_tables import Cell, Table, load_table, row_place
from ..files.text import count_lines
from .devices import Devices
from .fairseq_commands import flags
from .status import State, Status, status
from .workspace import Run, Workspace


@dataclass(frozen=True)
class Plan:
    """What was requested of a table, in a workspace."""

    table: Table
    workspace: Workspace
    cells: tuple[Cell, ...]
    seeds: tuple[int, ...]

    @property
    def runs(self) -> list[Run]:
        """Every run that the cells need, once, seed by seed so that all rows come early."""
        return list(self._runs_and_faults[0].values())

    @property
    def faults(self) -> list[str]:
        """What is wrong with rows of the configurations, which are not among the runs."""
        return list(dict.fromkeys(self._runs_and_faults[1].values()))

    @cached_property
    def _runs_and_faults(self) -> tuple[dict[str, Run], dict[str, str]]:
        """Runs by their names, and a fault of each row that has one."""
        runs: dict[str, Run] = {}
        faults: dict[str, str] = {}
        for seed in self.seeds:
            for cell in self.cells:
                where = ""
                try:
                    if cell.row.cited or not cell.trainable:
                        continue
                    run = self.workspace.run(cell, seed)
                    if self.workspace.own is None:
                        where = f"{run.cell}: corpus {run.settings.corpus}: "
                    run.recipe  # noqa: B018  it must be readable
                    runs.setdefault(run.name, run)
                except UserError as error:
                    faults.setdefault(cell.row.name, f"{where}{error}")
        return runs, faults

    @property
    def planned(self) -> list[tuple[str, str]]:
        """Names of cells that this version cannot fill, with what is missing."""
        named = []
        for cell in self.cells:
            with suppress(UserError):  # which is among the faults
                named.append((f"{cell.row.name}/{cell.column.name}", cell.planned))
        return [(name, missing) for name, missing in named if missing]

    @property
    def cited(self) -> list[str]:
        """Names of rows that the paper quotes from others."""
        return list(dict.fromkeys(cell.row.name for cell in self.cells if cell.row.cited))

    def check(self) -> tuple[list[tuple[Run, Status]], list[str]]:
        """The runs that can be done, with their states; what is wrong with others, a line each."""
        able, faults = [], dict.fromkeys(self.faults)
        for run in self.runs:
            try:
                state = status(run)
                fault = None if state.state is State.DONE else fault_of_flags(run)
            except UserError as error:
                faults[str(error)] = None
                continue
            if fault is None:
                able.append((run, state))
            else:
                where = row_place(run.cell.table, run.cell.row, run.workspace.configs)
                faults[f"{where}: {fault}"] = None
        return able, [" ".join(fault.split()) for fault in faults]


def make_plan(
    table: Table, workspace: Workspace, rows: list[str], columns: list[str], seeds: tuple[int, ...]
) -> Plan:
    """The plan for some rows and columns of a table; all of them if none is named."""
    for name in rows:
        table.row(name)
    for name in columns:
        table.column(name)
    cells = tuple(
        cell
        for cell in table.cells()
        if (not rows or cell.row.name in rows) and (not columns or cell.column.name in columns)
    )
    return Plan(table, workspace, cells, seeds)


def run_of_row(place: Workspace, row: str, column: str | None, seed: int) -> Run:
    """The run of ``paper/table/row``; a row with several runs needs a column."""
    table, _, name = row.rpartition("/")
    columns = [column] if column else []
    plan = make_plan(load_table(table, place.configs), place, [name], columns, (seed,))
    if len(plan.runs) > 1:
        raise UserError(f"{row}: which --column? {', '.join(c.column.name for c in plan.cells)}")
    if plan.faults:
        raise UserError(plan.faults[0])
    if not plan.runs:
        reasons = ", ".join(dict.fromkeys(reason for _, reason in plan.planned))
        raise UserError(f"{row} is not run: {reasons or 'cited by the paper'}")
    return plan.runs[0]


def fault_of_flags(run: Run) -> str | None:
    """What fairseq does not take of a run's flags; its programs would fail, the second one late."""
    if run.settings.aligner:
        return None
    commands = run.commands(Devices("cpu"))
    for key, words in {"train": commands.train(run.seed), "generate": commands.generate()}.items():
        if refusal := _refusal(*words):
            return f"{key}: {refusal}"
    try:
        model_size(run)
    except UserError as error:
        return f"train: {error}"
    return None


@cache
def _refusal(program: str, *words: str) -> str | None:
    """What a program of fairseq says of its flags, if it does not take them."""
    from fairseq import options

    from ... import models  # noqa: F401  (fairseq gets to know them)

    logging.getLogger("fairseq.utils").setLevel(logging.WARNING)
    training = program == "fairseq-train"
    parser = options.get_training_parser() if training else options.get_generation_parser()
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            options.parse_args_and_arch(parser, list(words))
    except SystemExit:
        told = said.getvalue().strip().rpartition("error: ")[2]
    except Exception as error:  # fairseq evaluates some values
        told = f"{type(error).__name__}: {error}"
    else:
        return None
    return f"{program}: {textwrap.shorten(told, 200)}"


def model_size(run: Run) -> float:
    """The number of its parameters; NaN if fairseq does not make the model."""
    corpus, sizes = run.prepared_corpus, [run.recipe.subwords.size] * 2
    files = [corpus.binary / f"dict.{side}.txt" for side in (corpus.source, corpus.target)]
    if all(file.is_file() for file in files):
        sizes = [count_lines(file) + 4 for file in files]
    try:
        words = flags(run.settings.train)
        return parameter_count(tuple(words), *sizes, run.recipe.subwords.one_dictionary)
    except UserError:  # our models say what is wrong
        raise
    except Exception:  # whatever fairseq raises; perhaps only of what the task has in training
        return math.nan


@cache
def parameter_count(words: tuple[str, ...], source: int, target: int, shared: bool) -> int:
    """The number of parameters, shared ones counted once.

    ``words`` are flags of fairseq-train; ``source`` and ``target`` sizes of the dictionaries, which
    may be one, ``shared``.
    """
    import torch
    from fairseq import options
    from fairseq.data import Dictionary
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from fairseq.models import build_model

    from ... import models  # noqa: F401  (fairseq gets to know them)

    logging.getLogger("hydra").setLevel(logging.WARNING)
    with warnings.catch_warnings():  # hydra's, about how fairseq calls it
        warnings.simplefilter("ignore")
        args = options.parse_args_and_arch(options.get_training_parser(), ["data", *words])
        cfg = convert_namespace_to_omegaconf(args)
    dictionaries = [Dictionary(), Dictionary()]
    for dictionary, size in zip(dictionaries, (source, target), strict=True):
        for number in range(size - len(dictionary)):
            dictionary.add_symbol(f"word{number}")
    first, second = dictionaries if not shared else dictionaries[:1] * 2
    task = SimpleNamespace(source_dictionary=first, target_dictionary=second)
    with torch.device("meta"):  # shapes only, no memory
        model = build_model(cfg.model, task)
    return sum(parameter.numel() for parameter in model.parameters())
