"""Train systems on your text, several seeds of each, and compare them with the first in one table.

A system is an architecture, with flags of its own in quotes; fairseq-train's flags after -- are
those of all.  Size, batch and length follow the number of training pairs (the plan says what is
chosen); --profile and flags go before.  It first prints the plan, then does what is missing: run
again, it resumes, and with more seeds or systems it adds them.

  fairseq-hybrid compare --text my-text/ --seeds 3 transformer transformer_mma
  fairseq-hybrid compare --text my-text/ transformer \\
      "transformer_hysan --branch-fusion concat" --write table.md -- --dropout 0.2
  fairseq-hybrid compare --text my-text/ transformer_mma --given marian=marian.en \\
      --given baseline=models/baseline --baseline marian

--given adds a row that is not trained here: translations of the test set, or a run or a model's
folder ("export" makes one of fairseq's checkpoints), which translates it with the same search.
Several of one NAME are its seeds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ...errors import UserError
from ..plan.plan import own_plan
from ..tables.comparing import compare
from ..tables.given import Beside
from .flags import named_path
from .workspace_flags import add_own, add_running, execution, sizes, workspace_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("systems", nargs="+", metavar="SYSTEM", help='"ARCHITECTURE [FLAGS]"')
    group = parser.add_argument_group("what is compared").add_argument
    text = "a row of translations, or of a run or a model's folder; repeatable"
    group("--given", action="append", type=named_path, default=[], metavar="NAME=PATH", help=text)
    group("--baseline", metavar="NAME", help="compare with this row (default: the first)")
    group("--pairs", action="store_true", help="print the differences of all pairs as well")
    add_own(parser)
    add_running(parser)


def run(args: argparse.Namespace) -> None:
    if not args.text:
        raise UserError("name your text: --text DIR")
    plan = own_plan(
        workspace_of(args, by_size=True),
        args.systems,
        seeds=args.seeds,
        name=args.name,
        flags=args.others,
        given=sizes(args),
    )
    given: dict[str, list[Path]] = {}
    for name, path in args.given:
        given.setdefault(name, []).append(path)
    compare(plan, execution(args), args.write, Beside(given, args.baseline, args.pairs))
