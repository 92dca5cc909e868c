"""``python -m benchmarks``: on a CPU; see docs/performance.md, or ``--help``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from . import others, systems, tables
from .common import CHOSEN, WAYS, Settings, heading, prepare

BENCHMARKS = {
    "step": systems.run_training,
    "generation": systems.run_generation,
    "others": others.run,
}


def main() -> None:
    """Run benchmarks, write results and print tables."""
    arguments = _parser().parse_args()
    if arguments.benchmarks == ["table"] and arguments.json:
        print(tables.markdown(json.loads(arguments.json.read_text())), end="")
        return
    if unknown := set(arguments.benchmarks) - set(BENCHMARKS):
        raise SystemExit(
            f"{', '.join(sorted(unknown))}: use {', '.join(BENCHMARKS)}, or table --json FILE"
        )
    settings = _settings(arguments)
    prepare(settings)
    document = {
        **heading(settings),
        "load_average": [round(os.getloadavg()[0], 2)],
        "results": [],
    }
    begin = time.monotonic()
    for name in arguments.benchmarks or ["step", "generation"]:
        lengths = [arguments.lengths] if name == "generation" and arguments.lengths else []
        for result in BENCHMARKS[name](settings, *lengths):
            document["results"].append(result)
            _progress(result)
            _write(document, arguments.json)
    document["load_average"].append(round(os.getloadavg()[0], 2))
    document["seconds"] = round(time.monotonic() - begin, 1)
    _write(document, arguments.json)
    print(tables.markdown(document), end="")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="What branches cost, as ratios to ordinary attention in the same run, on a CPU "
        "(scripts/check_gpu.sh: on a GPU).",
    )
    add = parser.add_argument
    add(
        "benchmarks",
        nargs="*",
        metavar="{step,generation,others}",
        help="which benchmarks (step and generation); or: table, to print results in --json again",
    )
    add("--dtype", choices=["fp32", "bf16"], default="fp32")
    add("--threads", type=int, default=1, help="threads (%(default)s)")
    add(
        "--clock",
        choices=["cpu", "wall"],
        help="processor time, which other work hardly changes (default on one thread), or "
        "wall-clock time (default otherwise)",
    )
    add("--json", type=Path, metavar="FILE", help="write results here as they come in")
    add("--rounds", type=int, default=Settings.rounds, help="timings of each (%(default)s)")
    add(
        "--shortest",
        type=float,
        default=Settings.shortest,
        metavar="SECONDS",
        help="minimum duration of one timing (%(default)s)",
    )
    add(
        "--ways",
        nargs="+",
        choices=[CHOSEN, *WAYS],
        default=list(Settings.ways),
        help="what is timed: the package's choice of a way, or ways by name (chosen reference)",
    )
    add("--lengths", nargs="+", type=int, metavar="N", help="of the generation (25 100)")
    add(
        "--cases",
        nargs="+",
        choices=list(systems.SYSTEMS),
        metavar="SYSTEM",
        help=f"{', '.join(systems.SYSTEMS)} (all)",
    )
    add("--no-memory", action="store_true", help="do not measure peak memory")
    for name in ("sentences", "length", "vocabulary", "width", "ffn", "heads", "layers"):
        default = getattr(Settings, name)
        add(f"--{name}", type=int, default=default, help=f"of the models and batches ({default})")
    return parser


def _settings(arguments: argparse.Namespace) -> Settings:
    fields = set(Settings.__dataclass_fields__) & set(vars(arguments))
    known = {name: getattr(arguments, name) for name in fields}
    known["clock"] = arguments.clock or ("wall" if arguments.threads != 1 else "cpu")
    known["ways"] = tuple(arguments.ways)
    known["cases"] = tuple(arguments.cases) if arguments.cases else None
    return Settings(**known, memory=not arguments.no_memory)


def _progress(result: dict) -> None:
    print(
        f"{result['benchmark']} {result['case']}, {result['measure']}, length {result['queries']}, "
        f"{result['candidate']}: {result['ratio']['median']:.3f}",
        file=sys.stderr,
        flush=True,
    )


def _write(document: dict, path: Path | None) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
