"""Make a small folder of a model, to hand on: what translates text, and a card.

  fairseq-hybrid export reproduction/runs/full/mma/table4/local/bleu/seed1 --output models/local
  fairseq-hybrid export checkpoint_best.pt --data data-bin --codes codes --tokenizer moses \
      --output models/baseline
  fairseq-hybrid translate models/local < text.de

The model is that of a run, or a checkpoint of fairseq-train.  fairseq's data (--data) does not say
how its text was prepared; your flags do.  If the data's sentences come out otherwise, they are
refused.

The weights are in half precision.  The folder also has dictionaries, subwords and settings, and no
paths of this machine.  The card, README.md, has a run's scores and translations, which are of the
weights before they were rounded.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ..corpora.tokenisers import KINDS
from ..run.exporting import export
from ..run.fairseq_parts import Parts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("run", type=Path, metavar="RUN|CHECKPOINT", help="a run that is done, or a checkpoint")
    add("--output", required=True, type=Path, metavar="DIR", help="a new folder")
    group = parser.add_argument_group("of a checkpoint; one for both sides, or source and target")
    text = "on what it was trained, by fairseq-preprocess or prepare"
    group.add_argument("--data", type=Path, metavar="DIR", help=text)
    for flag, what in (("codes", "of subword-nmt or fastBPE"), ("sentencepiece", "model")):
        group.add_argument(f"--{flag}", nargs="+", type=Path, default=[], metavar="FILE", help=what)
    text = "how words were separated"
    group.add_argument("--tokenizer", nargs="+", choices=tuple(KINDS), default=[], help=text)
    group.add_argument("--lowercase", action="store_true", help="the text was lower-cased")


def run(args: argparse.Namespace) -> None:
    parts = Parts(args.codes, args.sentencepiece, args.tokenizer, args.lowercase)
    export(args.run, args.output, data=args.data, parts=parts)
    print(f"written to {args.output}")
