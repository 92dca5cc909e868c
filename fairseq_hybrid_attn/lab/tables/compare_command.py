"""Train systems on your text, several seeds of each, and compare them with the first in one table.

A system is an architecture, with flags of its own in quotes; fairseq-train's flags after -- are
those of all.  Size, batch and length follow the number of training pairs (the plan says what is
chosen); --profile and flags go before.  It first prints the plan, then does what is missing: run
again, it resumes, and with more seeds or systems it adds them.

  fairseq-hybrid compare --data my-text/ --seeds 3 transformer transformer_mma
  fairseq-hybrid compare --data my-text/ transformer \\
      "transformer_hysan --branch-fusion concat" --write table.md -- --dropout 0.2
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ...errors import UserError
from ..cli.flags import positive
from ..config.own_tables import OWN, own_table
from ..files.checksums import sha256
from ..files.processes import run_program
from ..files.writing import check_outputs
from ..models.trained import TrainedModel
from ..runs.fairseq_commands import flags
from ..runs.plan import Plan, make_plan
from ..runs.workspace_flags import add_seeds, workspace
from .reproduce_command import add_running, run_plans

#: Flags of all systems beside fairseq-train's, and where their values go.
SIZES = {
    "tokens": ("batch", "tokens", "of an update, over all devices"),
    "tokens-per-device": ("batch", "per-device", "at once, at most, as a device's memory allows"),
    "save-every": ("checkpoints", "every", "updates between checkpoints, and validations"),
    "average": ("checkpoints", "average", "of the last checkpoints"),
}
#: The endings of --write.
_ENDINGS = (".md", ".csv", ".json", ".html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("systems", nargs="+", metavar="SYSTEM", help='"ARCHITECTURE [FLAGS]"')
    add_own(parser)
    add_running(parser)


def add_own(parser: argparse.ArgumentParser) -> None:
    """Flags of systems that are trained on your text."""
    add_seeds(parser)
    group = parser.add_argument_group("of your text, besides fairseq-train's flags after --")
    group.add_argument("--name", metavar="NAME", help="of the comparison (default: systems)")
    for flag, (_, _, told) in SIZES.items():
        told = f"{told} (default: the profile's)"
        group.add_argument(f"--{flag}", type=positive, metavar="N", help=told)
    group.add_argument(
        "--write",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="write the table to a .md, .csv or .json too, or the page of report, .html; may be "
        "repeated",
    )
    parser.set_defaults(others=[])  # what follows --


def run(args: argparse.Namespace) -> None:
    if args.data is None:
        raise UserError("name your text: --data DIR")
    compare(own_plan(args, args.systems, args.others), args)


def own_plan(
    args: argparse.Namespace,
    systems: Sequence[str],
    shared: Sequence[str],
    model: TrainedModel | None = None,
) -> Plan:
    """The plan of the table of these systems on the user's text; ``model``: they go on with it."""
    if wrong := [path for path in args.write if path.suffix not in _ENDINGS]:
        raise UserError(f"--write {wrong[0]}: use a name that ends in {', '.join(_ENDINGS)}")
    check_outputs({f"--write {path}": path for path in args.write}, inputs=[])
    given: dict = {"batch": {}, "checkpoints": {}}
    for flag, (part, key, _) in SIZES.items():
        if (size := getattr(args, flag.replace("-", "_"))) is not None:
            given[part][key] = size
    place = workspace(args, own_sizes=model is None)
    base = OWN
    if model:
        from ..runs.fine_tuning import settings_from  # here: others need it not

        if args.source_lang or args.target_lang or args.profile:
            raise UserError(
                "--from has the model's languages and sizes: leave out --source-lang, "
                "--target-lang and --profile"
            )
        sizes = replace(place.profile, summary=f"the sizes of {model.checkpoint}")
        place = replace(place, own=replace(place.own, like=model.checkpoint), profile=sizes)
        base = settings_from(model)
    # By its weights: another model's training must not take this one's folder.
    default = f"from-{sha256(model.checkpoint)[:6]}" if model else "systems"
    name = default if args.name is None else args.name
    table = own_table(name, systems, shared, given, place.configs, base)
    return make_plan(table, place, [], [], args.seeds)


def compare(plan: Plan, args: argparse.Namespace) -> None:
    """Do the runs that are missing; print and write the comparison."""

    def show(plan: Plan) -> str:
        from .comparison import compared  # here: a plan needs it not

        comparison = compared(plan)
        done = [
            run for run in plan.runs if run.seed == plan.runs[0].seed and run.folder.result.exists()
        ]
        report = ["fairseq-hybrid", "report", *(str(run.folder.path) for run in done)]
        report += flags(user_dir=args.user_dir, cpu=args.device == "cpu")
        pages = [path for path in args.write if path.suffix == ".html"]
        for path in pages if done else []:
            run_program([*report, *flags(output=path)], plan.workspace.root / "report.log")
        for path in [path for path in args.write if path not in pages]:
            path.write_text(comparison.written(path.suffix), encoding="utf-8")
        hint = f"\nOn one page: {shlex.join(report)}\n" if done and not pages else ""
        return comparison.terminal() + hint

    run_plans([plan], args, show)
