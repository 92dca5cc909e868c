"""Which runs of a plan can be done; what is wrong with the others, in a line each."""

from __future__ import annotations

import contextlib
import io
import logging
import textwrap
from functools import cache

from ...errors import UserError
from ..config.paper_tables import table_file
from .devices import Devices
from .plan import Plan
from .status import State, status
from .workspace import Run


def check_runs(plan: Plan) -> tuple[list[Run], list[str]]:
    """The runs of a plan that can be done, and the faults of the others."""
    able, faults = [], dict.fromkeys(plan.faults)
    for run in plan.runs:
        try:
            if status(run).state is not State.DONE and not run.settings.aligner:
                _check_flags(run)
            able.append(run)
        except UserError as error:
            faults[str(error)] = None
    return able, [" ".join(fault.split()) for fault in faults]


def _check_flags(run: Run) -> None:
    """Check that fairseq takes a run's flags; its programs would fail, the second one late."""
    commands, cell = run.commands(Devices("cpu")), run.cell
    for key, (program, *words) in {
        "train": commands.train(run.seed),
        "generate": commands.generate(),
    }.items():
        fault = _refusal(program, tuple(words))
        if fault:
            path = table_file(cell.table.name, cell.table.configs)
            raise UserError(f"{path}: rows: {cell.row.name}: {key}: {fault}")


@cache
def _refusal(program: str, words: tuple[str, ...]) -> str | None:
    """What a program of fairseq says of its flags, if it does not take them."""
    from fairseq import options

    logging.getLogger("fairseq.utils").setLevel(logging.WARNING)
    parsers = {
        "fairseq-train": options.get_training_parser,
        "fairseq-generate": options.get_generation_parser,
    }
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            options.parse_args_and_arch(parsers[program](), list(words))
    except SystemExit:
        told = said.getvalue().strip().rpartition("error: ")[2]
    except Exception as error:  # fairseq evaluates some values
        told = f"{type(error).__name__}: {error}"
    else:
        return None
    return f"{program}: {textwrap.shorten(told, 200)}"
