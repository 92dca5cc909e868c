"""Draw learning curves of one or more training runs: loss and BLEU against updates.

  fairseq-hybrid curves base=base/train.log hysan=hysan/train.log --write curves.png
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

from ..figures import style
from ..files.json_files import write_json
from ..tables import curves
from ..tables.curves import PANELS
from . import flags, outputs

WRITTEN = ("data", "figure")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text = "log of fairseq-train, curve.json, or folder of a run"
    add("runs", nargs="+", type=flags.named_path, metavar="NAME=FILE", help=text)
    text = "what to draw, from top to bottom: loss, nll_loss, bleu, or a score of curve.json "
    text += f"(default: those of {','.join(PANELS)} that exist)"
    add("--panels", type=lambda words: words.split(","), metavar="A,B,…", help=text)
    outputs.add_write(parser, *WRITTEN)


def run(args: argparse.Namespace) -> None:
    outputs.check(args.write, WRITTEN, [path for _, path in args.runs])
    found = curves.read_curves(args.runs)
    drawn = curves.panels(args.panels, found)
    shown = [curve for panel in drawn for curve in panel.curves]
    outputs.write(
        args.write,
        data=lambda path: write_json(path, {"curves": [curve.as_dict() for curve in found]}),
        figure=lambda path: style.save(curves.draw(drawn, args.theme), path),
    )
    print(curves.grid(shown).terminal())
    for line in curves.notes(shown):
        print(line)
