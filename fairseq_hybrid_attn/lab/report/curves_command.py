"""Draw learning curves of one or more training runs: loss and BLEU against updates.

  fairseq-hybrid curves base=base/train.log hysan=hysan/train.log --figure curves.png
  fairseq-hybrid curves base=reproduction/runs/…/hysan/table1/base/bleu/seed1 --panels bleu,loss

A run is NAME=FILE; files of one NAME belong together:
  - the output of fairseq-train with --log-format json (or simple): losses of training and
    validation, and BLEU with --eval-bleu.  If training was interrupted and resumed, the later of
    two records of an update counts.  A run whose loss becomes infinite or NaN for good is
    reported as diverged;
  - curve.json of `score-checkpoints`, or a result.json of `reproduce`: scored checkpoints;
  - a run's folder of `reproduce`: both, if it has them.

Losses are in bits per token.  Validation curves are of the set called valid, or else of the first.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...errors import UserError
from ..cli import flags
from ..figures import outputs
from ..files.json_files import parse_json
from ..files.tabular import Grid
from ..runs.fairseq_commands import RunFolder
from ..runs.training_log import read_log
from . import curves_figure, curves_measure
from .curves_figure import CurvePanel
from .curves_measure import LABELS, TRAINING, VALIDATION, Curve

#: Drawn by default, if there are any.
PANELS = ("bleu", "loss")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text = "log of fairseq-train, curve.json, or folder of a run"
    add("runs", nargs="+", type=flags.named_path, metavar="NAME=FILE", help=text)
    text = "what to draw, from top to bottom: loss, nll_loss, bleu, or a score of curve.json "
    text += f"(default: those of {','.join(PANELS)} that exist)"
    add("--panels", type=lambda words: words.split(","), metavar="A,B,…", help=text)
    outputs.add_outputs(parser)


def run(args: argparse.Namespace) -> None:
    outputs.check(args, [path for _, path in args.runs])
    curves = read_curves(args.runs)
    drawn = panels(args.panels, curves)
    shown = [curve for panel in drawn for curve in panel.curves]
    print(grid(shown).terminal())
    for line in notes(shown):
        print(line)
    outputs.write(
        args,
        {"curves": [curve.as_dict() for curve in curves]},
        lambda theme: curves_figure.draw(drawn, theme),
    )


def read_curves(runs: Iterable[tuple[str, Path]]) -> list[Curve]:
    """The curves of runs, of their names and paths; a folder of `reproduce` may have two files."""
    curves: list[Curve] = []
    for name, path in runs:
        files = [path]
        if path.is_dir():
            folder = RunFolder(path)
            files = [file for file in (folder.log("train"), folder.curve) if file.exists()]
            if not files:
                raise UserError(
                    f"{path} is not a run's folder: it has no logs/train.log and no curve.json"
                )
        for file in files:
            try:
                content = parse_json(file)
            except ValueError:  # a log, whatever its name, of which a character may be cut off
                curves += curves_measure.curves_of_log(name, read_log(file))
            else:
                curves += curves_measure.curves_of_scores(name, content, str(file))
    curves_measure.check_distinct(curves)
    return curves


def panels(asked: Sequence[str] | None, curves: Sequence[Curve]) -> list[CurvePanel]:
    """What to draw: the panels asked for, or the default ones."""
    shown = [curve for curve in curves if _is_shown(curve, curves)]
    known = list(dict.fromkeys(curve.what for curve in shown))
    for what in asked or ():
        if what not in known:
            raise UserError(f"--panels {what}: no run has it; there are {', '.join(known)}")
    names = asked or [what for what in PANELS if what in known] or known[:1]
    return [
        CurvePanel(LABELS.get(what, what), [c for c in shown if c.what == what]) for what in names
    ]


def _is_shown(curve: Curve, curves: Sequence[Curve]) -> bool:
    """Whether a curve is drawn: of a run's validation sets, only one is."""
    if curve.source != VALIDATION:
        return True
    subsets = [c.subset for c in curves if c.run == curve.run and c.source == VALIDATION]
    return curve.subset == ("valid" if "valid" in subsets else subsets[0])


def grid(curves: Sequence[Curve]) -> Grid:
    rows = []
    for curve in curves:
        named = curve.subset and curve.source != TRAINING
        best = curve.best
        rows.append(
            [
                curve.run,
                curve.label,
                f"{curve.source} ({curve.subset})" if named else curve.source,
                f"{len(curve.updates):,}",
                f"{curve.updates[0]:,}-{curve.updates[-1]:,}",
                f"{best[1]:.3f} at {best[0]:,}" if best else "",
            ]
        )
    return Grid(["run", "", "of", "points", "updates", "best"], rows, left=3)


def notes(curves: Sequence[Curve]) -> list[str]:
    lines = []
    for curve in curves:
        where = f"{curve.run}: {curve.label} ({curve.source})"
        if curve.diverged is not None:
            lines.append(f"{where}: diverged; no finite number from update {curve.diverged:,} on")
    for signature in dict.fromkeys(c.signature for c in curves if c.signature):
        lines.append(f"checkpoints: {signature}")
    return lines
