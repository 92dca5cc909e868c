"""The command line: ``fairseq-hybrid COMMAND`` or ``python -m fairseq_hybrid_attn COMMAND``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from .alignment.commands import aer, align, align_training
from .averaging import command as average
from .corpora import command as prepare
from .curves import command as curves
from .gates import command as gates
from .heads import command as heads
from .lengths import command as lengths
from .maps import command as maps
from .probing import command as probe
from .probing import data_command as probing_data
from .report import command as report
from .runs.commands import runs, score_checkpoints, show, train
from .scoring import command as score
from .tables.commands import publish, reproduce, table

#: Every command by its name; see :mod:`fairseq_hybrid_attn.commands`.
COMMANDS = {
    "prepare": prepare,
    "reproduce": reproduce,
    "table": table,
    "publish": publish,
    "runs": runs,
    "show": show,
    "train": train,
    "average": average,
    "score": score,
    "align": align,
    "aer": aer,
    "align-training": align_training,
    "maps": maps,
    "gates": gates,
    "heads": heads,
    "probe": probe,
    "probing-data": probing_data,
    "lengths": lengths,
    "score-checkpoints": score_checkpoints,
    "curves": curves,
    "report": report,
}

INTERRUPTED = 130  # the exit status of a program that Ctrl-C ended, as shells have it


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command.

    Args:
        argv: the command and its arguments; those of the process if None.

    Raises:
        UserError: the user's mistake.  Uncaught, it prints its message and exits with 1.
        SystemExit: from argparse, with status 2 for arguments that cannot be parsed.
    """
    parser = argparse.ArgumentParser(
        prog="fairseq-hybrid", description="Tools around the models of fairseq_hybrid_attn."
    )
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        subparser = subparsers.add_parser(
            name,
            help=command.HELP,
            description=command.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.add_arguments(subparser)
        subparser.set_defaults(run=command.run)
    args = parser.parse_args(argv)
    args.command_line = [parser.prog, *(sys.argv[1:] if argv is None else argv)]
    try:
        args.run(args)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:  # the reader of our output, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
