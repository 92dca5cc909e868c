"""Learning curves of one or more trainings: loss and BLEU against updates.

  fairseq-hybrid curves base=base/train.log hysan=hysan/train.log --figure curves.png
  fairseq-hybrid curves base=reproduction/runs/…/hysan/table1/base/bleu/seed1 --panels bleu,loss

A run is NAME=FILE; files of one NAME belong together:
  - what fairseq-train printed, with --log-format json (or simple): losses of training and
    validation, and BLEU with --eval-bleu.  Of a training that was interrupted and went on, the
    later of two records of an update counts; one whose loss is no number any more is said to
    have diverged.
  - curve.json of `score-checkpoints`, or a result.json of `reproduce`: scored checkpoints;
  - a run's folder of `reproduce`: both, as far as they are there.

Losses are in bits a token.  Curves of validation are of the set that is called valid, or of the
first.  --smooth N shows, in place of a training loss, its mean over the N updates before.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from tabulate import tabulate

from ...errors import UserError
from ..arguments import flags, outputs
from ..arguments.flags import positive
from ..files.text import read_lines
from ..runs.command_lines import RunFolder
from ..text.training_log import read_log
from . import figure
from .figure import Panel
from .measure import (
    CHECKPOINTS,
    LABELS,
    TRAINING,
    VALIDATION,
    Curve,
    check_distinct,
    curves_of_log,
    curves_of_scores,
    smooth,
)

#: Drawn if nothing is asked for, as far as there is something.
PANELS = ("bleu", "loss")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "runs",
        nargs="+",
        type=flags.named_path,
        metavar="NAME=FILE",
        help="log of fairseq-train, curve.json, or folder of a run",
    )
    parser.add_argument(
        "--panels",
        type=lambda text: text.split(","),
        metavar="A,B,…",
        help="what to draw, above one another: loss, nll_loss, bleu, or a score of curve.json "
        f"(default: {','.join(PANELS)}, as far as there are any)",
    )
    parser.add_argument(
        "--smooth", type=positive, metavar="N", help="mean of the training loss over N updates"
    )
    outputs.add_outputs(parser)


def run(args: argparse.Namespace) -> None:
    """Read, print, and write what is asked for.

    Raises:
        UserError: if a file cannot be read or written, or has not what is asked for.
    """
    files = [(name, path) for name, given in args.runs for path in files_of(given)]
    outputs.check(args, [path for _, path in files])
    curves = [curve for name, path in files for curve in read_curves(name, path)]
    check_distinct(curves)
    drawn = panels(args.panels, curves)
    shown = [curve for panel in drawn for curve in panel.curves]
    print(table(shown))
    for line in notes(shown, args.smooth):
        print(line)
    outputs.write(
        args,
        {"curves": [curve.as_dict() for curve in curves]},
        [row for curve in curves for row in curve.rows()],
        lambda theme: figure.draw([smoothed(panel, args.smooth) for panel in drawn], theme),
    )


def smoothed(panel: Panel, window: int | None) -> Panel:
    """A panel with its curves of training smoothed."""
    if window is None:
        return panel
    curves = [smooth(c, window) if c.source == TRAINING else c for c in panel.curves]
    return replace(panel, curves=curves)


def files_of(path: Path) -> list[Path]:
    """The files of a run: those of a folder of `reproduce`, or the file itself.

    Raises:
        UserError: if a folder has none.
    """
    if not path.is_dir():
        return [path]
    folder = RunFolder(path)
    found = [file for file in (folder.log("train"), folder.curve) if file.exists()]
    if not found:
        raise UserError(f"{path} is no folder of a run: it has no logs/train.log and no curve.json")
    return found


def read_curves(name: str, path: Path) -> list[Curve]:
    """The curves of a file.

    Raises:
        UserError: if it cannot be read, or has none.
    """
    try:
        content = json.loads("\n".join(read_lines(path)))
    except json.JSONDecodeError:  # a log, whatever it is called
        return curves_of_log(name, read_log(path))
    return curves_of_scores(name, content, str(path))


def panels(asked: list[str] | None, curves: list[Curve]) -> list[Panel]:
    """What to draw.

    Raises:
        UserError: if there is nothing of what is asked for.
    """
    shown = [curve for curve in curves if _is_shown(curve, curves)]
    known = list(dict.fromkeys(curve.what for curve in shown))
    for what in asked or ():
        if what not in known:
            raise UserError(f"--panels {what}: no run has it; there are {', '.join(known)}")
    names = asked or [what for what in PANELS if what in known] or known[:1]
    return [
        Panel(_label(what), of_it := [c for c in shown if c.what == what], _kinds(of_it))
        for what in names
    ]


def _is_shown(curve: Curve, curves: list[Curve]) -> bool:
    """Of several validation sets of a run, one is drawn."""
    if curve.source != VALIDATION:
        return True
    subsets = [c.subset for c in curves if c.run == curve.run and c.source == VALIDATION]
    return curve.subset == ("valid" if "valid" in subsets else subsets[0])


def _label(what: str) -> str:
    return LABELS.get(what, what)


def _kinds(curves: list[Curve]) -> dict[str, str]:
    """The kinds of curves of a panel, for people; scored checkpoints with their set."""
    sets = {curve.subset for curve in curves if curve.source == CHECKPOINTS and curve.subset}
    return {
        CHECKPOINTS: f"checkpoints, {' and '.join(sorted(sets))} set" if sets else "checkpoints",
        VALIDATION: "validation (log)",
        TRAINING: "training (log)",
    }


def table(curves: list[Curve]) -> str:
    """What the curves come to, for people."""
    headings, rows = cells(curves)
    sides = ["left"] * 3 + ["right"] * 4
    return tabulate(rows, headings, disable_numparse=True, colalign=sides)


def cells(curves: list[Curve]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: a curve each."""
    rows = []
    for curve in curves:
        best = curve.best
        rows.append(
            [
                curve.run,
                _label(curve.what),
                f"{curve.source}{_of_set(curve)}",
                f"{len(curve.updates):,}",
                f"{curve.updates[0]:,}-{curve.updates[-1]:,}",
                f"{best[1]:.3f} at {best[0]:,}" if best else "",
                "" if curve.last is None else f"{curve.last:.3f}",
            ]
        )
    return ["run", "", "of", "points", "updates", "best", "last"], rows


def _of_set(curve: Curve) -> str:
    return f" ({curve.subset})" if curve.subset and curve.source != TRAINING else ""


def notes(curves: list[Curve], window: int | None) -> list[str]:
    """What is to be said of them, for people."""
    lines = []
    for curve in curves:
        gaps = sum(value != value for value in curve.values)
        where = f"{curve.run}: {_label(curve.what)} ({curve.source})"
        if curve.diverged is not None:
            lines.append(f"{where}: diverged; no number from update {curve.diverged:,} on")
        elif gaps:
            lines.append(f"{where}: {gaps} points are no numbers, and gaps in the figure")
    for signature in dict.fromkeys(c.signature for c in curves if c.signature):
        lines.append(f"checkpoints: {signature}")
    sets = {c.subset or "unknown" for c in curves if c.source == CHECKPOINTS}
    if len(sets) > 1:
        lines.append(f"checkpoints were scored on different sets: {', '.join(sorted(sets))}")
    if window:
        lines.append(f"in the figure, the training loss is a mean over {window:,} updates")
    return lines
