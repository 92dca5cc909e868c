"""``python -m benchmarks``: see docs/performance.md, or ``--help``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from . import launches, others, systems, tables
from .common import DTYPES, WAYS, Settings, heading, prepare

BENCHMARKS = {
    "step": systems.run_training,
    "generation": systems.run_generation,
    "launches": launches.run,
    "others": others.run,
}


def main(words: list[str] | None = None) -> None:
    """Run benchmarks, write results and print tables."""
    arguments = _parser().parse_args(words)
    if arguments.benchmarks == ["table"] and arguments.json:
        print(tables.markdown(json.loads(arguments.json.read_text())), end="")
        return
    if unknown := set(arguments.benchmarks) - set(BENCHMARKS):
        raise SystemExit(
            f"{', '.join(sorted(unknown))}: use {', '.join(BENCHMARKS)}, or table --json FILE"
        )
    settings = _settings(arguments)
    wanted = arguments.benchmarks or ["step", "generation"]
    if settings.device == "cpu" and settings.dtype == "fp16" and wanted != ["launches"]:
        raise SystemExit("--dtype fp16 is for --device cuda, or to count launches")
    if settings.device != "cpu" and "others" in wanted:
        raise SystemExit("others: for --device cpu")
    prepare(settings)
    document = {
        **heading(settings),
        "load_average": [round(os.getloadavg()[0], 2)],
        "results": [],
    }
    begin = time.monotonic()
    for name in wanted:
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
        description="What branches cost, as ratios to ordinary attention in the same run.",
    )
    add = parser.add_argument
    add(
        "benchmarks",
        nargs="*",
        metavar="{step,generation,launches,others}",
        help="which benchmarks (step and generation); or: table, to print results in --json again",
    )
    add("--device", choices=["cpu", "cuda"], default="cpu")
    add("--dtype", choices=list(DTYPES), default="fp32")
    add("--threads", type=int, default=1, help="threads on a CPU (%(default)s)")
    add(
        "--clock",
        choices=["cpu", "wall"],
        help="processor time, which other work hardly changes (default on one thread of a CPU), "
        "or wall-clock time (default otherwise)",
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
        choices=list(WAYS),
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
    add("--sentences", type=int, help="in a batch (40; CUDA 160)")
    for name in ("length", "vocabulary", "width", "ffn", "heads", "layers"):
        default = getattr(Settings, name)
        add(f"--{name}", type=int, default=default, help=f"of the models and sentences ({default})")
    return parser


def _settings(arguments: argparse.Namespace) -> Settings:
    large = arguments.device == "cuda"  # enough work to fill a GPU
    known = {name: getattr(arguments, name, None) for name in Settings.__dataclass_fields__}
    if not arguments.clock:
        known["clock"] = "wall" if large or arguments.threads != 1 else "cpu"
    known["ways"] = tuple(arguments.ways)
    known["cases"] = tuple(arguments.cases) if arguments.cases else None
    known["sentences"] = arguments.sentences or (160 if large else Settings.sentences)
    known["memory"] = not arguments.no_memory
    return Settings(**known)


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
