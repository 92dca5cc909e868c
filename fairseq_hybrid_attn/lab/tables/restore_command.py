"""Put published runs back where `reproduce` keeps runs: their results and translations.

Tables can then be printed, and published with more seeds or rows, without training again.  Only
what `publish` keeps comes back: no models, no logs, no alignments.  Intervals and p-values also
need the test text: prepare the corpus.

  fairseq-hybrid prepare multi30k.de-en --output reproduction/corpora/multi30k.de-en
  fairseq-hybrid restore evidence/mma --seeds 2,
"""

from __future__ import annotations

import argparse
from collections import Counter

from ...errors import UserError
from ..runs.workspace_flags import add_workspace
from .kept_runs import restore
from .table_arguments import add_cells, add_results, plans


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_cells(parser)
    add_results(parser)
    add_workspace(parser)


def run(args: argparse.Namespace) -> None:
    if not args.results.is_dir():
        raise UserError(f"--results {args.results} is not a folder; `publish` makes one")
    chosen = plans(args)
    for plan in chosen:
        if plan.faults:
            raise UserError(plan.faults[0])
    runs = {run.name: run for plan in chosen for run in plan.runs}
    done = Counter(restore(run, args.results) for run in runs.values())
    for what, count in done.items():
        print(f"{count} run{'s' * (count > 1)}: {what}")
