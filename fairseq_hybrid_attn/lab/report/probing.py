"""A report's probing: what `probe --json` wrote of its models."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

from ...errors import UserError
from ..files.checksums import sha256
from ..files.text import read_lines
from ..probing.tasks import GROUPS, TASKS


def read(args: argparse.Namespace) -> dict[str, dict]:
    """The results of ``--probing``, by the models' names and in their order.

    Raises:
        UserError: if one cannot be read, or is of another checkpoint than its model.
    """
    found: dict[str, dict] = {}
    paths = dict(zip(args.names, args.path, strict=True))
    for name, path in args.probing or ():
        if name in found:
            raise UserError(f"--probing {name}=… twice; give one for a model")
        found[name] = read_results(path)
        if paths[name].is_file() and found[name]["model_sha256"] != sha256(paths[name]):
            raise UserError(
                f"--probing {name}={path} is of {found[name]['model']}, which is or was another "
                f"checkpoint than {paths[name]}; probe this one"
            )
    return {name: found[name] for name in args.names if name in found}


def read_results(path: Path) -> dict:
    """What `probe --json` wrote.

    Raises:
        UserError: if it cannot be read or is something else.
    """
    try:
        content = json.loads("\n".join(read_lines(path)))
        for name, task in content["tasks"].items():
            TASKS[name], task["sha256"], float(task["majority"])
            float(task["accuracy"]), len(task["seeds"])
        for key in ("groups", "model", "model_sha256", "layer", "end_symbol", "classifier"):
            content[key]
    except UserError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UserError(f"--probing {path} is not what `probe --json` writes") from None
    return content


def cells(models: Mapping[str, dict]) -> tuple[list[str], list[list[str | None]]]:
    """Headings and rows: a task each, then a group each of which any model has all tasks."""
    headings = ["task", "group", *models, "commonest class"]
    rows = []
    for task in TASKS.values():
        results = [one["tasks"].get(task.name) for one in models.values()]
        if any(results):
            majorities = dict.fromkeys(f"{one['majority']:.2f}" for one in results if one)
            rows.append([task.name, task.group, *map(_accuracy, results), " or ".join(majorities)])
    for group in GROUPS:
        results = [one["groups"].get(group) for one in models.values()]
        if any(results):
            rows.append([f"all {group}", group, *map(_accuracy, results), ""])
    return headings, rows


def _accuracy(result: dict | None) -> str:
    if result is None:
        return ""
    deviation = result.get("deviation")
    return f"{result['accuracy']:.2f}" + ("" if deviation is None else f" ± {deviation:.2f}")


def _plain(value: object) -> str:
    """A setting, or a choice of some."""
    return " or ".join(map(str, value)) if isinstance(value, list) else str(value)


def notes(models: Mapping[str, dict]) -> list[str]:
    """How it was computed, and what cannot be compared, for people."""
    lines = []
    for name, one in models.items():
        seeds = max((len(task["seeds"]) for task in one["tasks"].values()), default=0)
        settings = ", ".join(
            f"{key} {_plain(value)}"
            for key, value in one["classifier"].items()
            if key != "linear_tasks"  # follows from which tasks there are
        )
        states = f"layer {one['layer']}, end symbol {one['end_symbol']}, seeds {seeds}"
        lines.append(f"{name}: {states}; {settings}")
    if len({line.partition(": ")[2] for line in lines}) > 1:
        lines.append("The models were not probed alike; differences may come from that.")
    for task in TASKS:
        files = {one["tasks"][task]["sha256"] for one in models.values() if task in one["tasks"]}
        if len(files) > 1:
            lines.append(f"{task}: the models had different files, and cannot be compared.")
    return lines
