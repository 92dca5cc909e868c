"""Flags that the commands for tables and runs share: tables, workspace, devices, seeds."""

from __future__ import annotations

import argparse
import importlib.util
import shutil
from dataclasses import replace
from pathlib import Path

from ...errors import UserError
from ..files.yaml_files import CONFIGS
from ..plan.cluster_jobs import LIMIT, JobOptions, asked
from ..plan.execution import Execution
from ..plan.plan import Plan, make_plans
from ..run.devices import Devices
from ..run.workspace import OwnText, Workspace, make_workspace
from . import outputs
from .flags import add_device, add_text, positive

#: More are a seed without its comma.
_MOST_SEEDS = 1000


def add_workspace(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where, at which scale, on which text")
    text = "folder of corpora and runs (default: reproduction)"
    group.add_argument(
        "--output", type=Path, default=Path("reproduction"), metavar="DIR", help=text
    )
    text = "scale: full (the papers'), small, few, tiny, iwslt, or a .yaml file (default: full; in "
    text += "train and compare on your text, what suits its size)"
    group.add_argument("--profile", metavar="NAME", help=text)
    add_text(group)
    text = "folder of configurations (default: those of the package)"
    group.add_argument("--configs", type=Path, default=CONFIGS, metavar="DIR", help=text)


def workspace_of(args: argparse.Namespace, by_size: bool = False) -> Workspace:
    text = None
    if args.text:
        text = OwnText(tuple(args.text), args.source_lang, args.target_lang)
    elif args.source_lang or args.target_lang:
        raise UserError("--source-lang and --target-lang are for --text only")
    return make_workspace(
        args.output,
        text,
        profile=args.profile,
        configs=args.configs,
        user_dir=args.user_dir,
        by_size=by_size,
    )


def add_row(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("row", metavar="PAPER/TABLE/ROW|RUN")
    parser.add_argument("--column", metavar="NAME", help="needed if the table has several")
    parser.add_argument("--seed", type=positive, default=1, metavar="N")


def add_devices(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("devices")
    add_device(group)
    group.add_argument(
        "--precision",
        choices=("auto", "fp32", "fp16", "bf16"),
        default="auto",
        help="precision of training; auto: fp16 on a GPU; on a CPU bf16 where that is faster (AMX, "
        "or AMD's AVX512-BF16), else fp32",
    )
    group.add_argument(
        "--compile",
        action="store_true",
        help="compile the layers of this package's models, for a GPU",
    )


def devices(args: argparse.Namespace) -> Devices:
    return Devices(args.device, precision=args.precision, compile=args.compile)


def add_seeds(parser: argparse.ArgumentParser) -> None:
    text = "3 means seeds 1, 2 and 3; 5,7 means 5 and 7; 5, means 5 alone (default: 1)"
    parser.add_argument("--seeds", type=seeds, default=(1,), metavar="N|A,B,..", help=text)


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
    if max(numbers) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text!r}: fairseq's seeds are below 2^32")
    return tuple(numbers) if "," in text else tuple(range(1, numbers[0] + 1))


def add_cells(parser: argparse.ArgumentParser, nargs: str = "+") -> None:
    text = "tables, each followed by its rows (default: all rows)"
    parser.add_argument("names", nargs=nargs, metavar="PAPER/TABLE [ROW ..]", help=text)
    text, split = "columns (default: all columns)", lambda names: names.split(",")
    parser.add_argument("--columns", type=split, default=[], metavar="A,B", help=text)
    add_seeds(parser)


def plans(args: argparse.Namespace) -> list[Plan]:
    return make_plans(workspace_of(args), args.names, columns=args.columns, seeds=args.seeds)


def add_running(parser: argparse.ArgumentParser) -> None:
    for flag, text in (
        ("--dry-run", "print the plan; do nothing"),
        ("--prepare-only", "prepare the corpora; run nothing"),
        ("--redo", "delete these runs, if they are done or stale, and do them again"),
        (
            "--keep-checkpoints",
            "keep all checkpoints of finished runs (default: the average alone)",
        ),
    ):
        parser.add_argument(flag, action="store_true", help=text)
    text = "folder of archives; those in it are not downloaded (default: OUTPUT/downloads)"
    parser.add_argument("--downloads", type=Path, metavar="DIR", help=text)
    add_slurm(parser)
    add_workspace(parser)
    add_devices(parser)
    for flag, default, help_text in (
        ("--gpus-per-run", 1, "GPUs per run (default: 1)"),
        ("--jobs", None, "runs side by side (default: one a GPU, or a core); more share GPUs"),
        ("--threads", 1, "threads per run on CPU (default: 1)"),
    ):
        parser.add_argument(flag, type=positive, default=default, metavar="N", help=help_text)


def add_slurm(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("as jobs of a cluster")
    group.add_argument(
        "--slurm",
        action="store_true",
        help="submit each run as a job of its own, after a job that prepares its corpus; again, "
        "the same command tells which jobs wait or have failed, and submits what is missing",
    )
    for flag, what in (
        ("sbatch", f'options of sbatch, such as "partition=gpu account=me exclusive time={LIMIT}"'),
        ("corpus-sbatch", "all those of the jobs that prepare a corpus"),
        ("setup", 'a command that jobs run first, such as "module load cuda"'),
    ):
        group.add_argument(
            f"--{flag}", action="append", default=[], metavar="TEXT", help=f"{what}; repeatable"
        )


def job_options(args: argparse.Namespace) -> JobOptions | None:
    """What jobs are to be submitted with; None if the runs are done here."""
    if not args.slurm:
        # Without this, the runs would be done here, perhaps on the node on which one logs in.
        for flag in ("sbatch", "corpus-sbatch", "setup"):
            if getattr(args, flag.replace("-", "_")):
                raise UserError(
                    f"--{flag} is about jobs of a cluster; add --slurm, or leave it out"
                )
        return None
    if importlib.util.find_spec("submitit") is None:
        raise UserError(
            '--slurm: submitit is not installed; install it with: pip install -e ".[slurm]"'
        )
    if not (shutil.which("sbatch") and shutil.which("srun")):
        raise UserError(
            "--slurm: this machine has no sbatch, so it is not one of a SLURM cluster; submit from "
            "a login node, or leave out --slurm to run here"
        )
    if args.jobs:
        raise UserError("--jobs is about this machine; SLURM decides how many jobs run at once")
    return JobOptions(
        runs=asked(args.sbatch), corpora=asked(args.corpus_sbatch), setup=tuple(args.setup)
    )


def execution(args: argparse.Namespace) -> Execution:
    return Execution(
        devices=replace(devices(args), world=args.gpus_per_run, threads=args.threads),
        jobs=args.jobs,
        dry_run=args.dry_run,
        prepare_only=args.prepare_only,
        redo=args.redo,
        keep_checkpoints=args.keep_checkpoints,
        downloads=args.downloads,
        slurm=job_options(args),
    )


#: Flags of all systems beside fairseq-train's, and where their values go.
SIZES = {
    "tokens": ("batch", "tokens", "of an update, over all devices"),
    "tokens-per-device": ("batch", "per-device", "at once, at most, as a device's memory allows"),
    "save-every": ("checkpoints", "every", "updates between checkpoints"),
    "average": ("checkpoints", "average", "of the last checkpoints"),
}


def add_own(parser: argparse.ArgumentParser) -> None:
    add_seeds(parser)
    group = parser.add_argument_group("of your text, besides fairseq-train's flags after --")
    text = "of the comparison (default: systems)"
    group.add_argument("--name", metavar="NAME", help=text)
    for flag, (_, _, meaning) in SIZES.items():
        text = f"{meaning} (default: the profile's)"
        group.add_argument(f"--{flag}", type=positive, metavar="N", help=text)
    outputs.add_write(group, "table", "data", "page")
    parser.set_defaults(others=[])  # what follows --


def sizes(args: argparse.Namespace) -> dict[str, dict[str, int]]:
    """The settings that these flags give to all systems."""
    given: dict[str, dict[str, int]] = {"batch": {}, "checkpoints": {}}
    for flag, (part, key, _) in SIZES.items():
        if (size := getattr(args, flag.replace("-", "_"))) is not None:
            given[part][key] = size
    return given
