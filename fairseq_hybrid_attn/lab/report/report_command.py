"""Describe trained models in one HTML page: how good they are, and what their attention does.

  fairseq-hybrid report reproduction/runs/full/mma/table2/transformer_mma/de-en/seed1
  fairseq-hybrid report hysan/average.pt base/average.pt --names hysan base

A MODEL is a checkpoint, or the folder of a run.  Its data folder is the one that it was trained on,
or --data; its log is train.log beside it.  The test set is translated by fairseq-generate, unless
the model's run has done that.  Translations are kept in report.translations beside the page: a
second command does not translate again.

The page has scores with signatures, the best and worst translations, BLEU by source length,
attention maps, gates, heads and learning curves.  Models are compared with the first one by paired
bootstrap, and the sentences that differ most are shown.  The numbers are those of the commands
score, lengths, maps, gates, heads, curves and probe.

The page is one file that needs no network.  --json has all of its numbers except the weights of
the maps, which `maps --json` writes.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from ..cli import flags
from ..corpora.tokenisers import KINDS
from ..corpora.words import SUBWORDS
from ..figures import outputs, style
from ..files.json_files import write_json
from ..files.writing import check_outputs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text = "checkpoint, or folder of a run; others are compared with the first"
    add("models", type=Path, nargs="+", metavar="MODEL", help=text)
    text = "names of the models (default: from their paths)"
    add("--names", nargs="+", metavar="NAME", help=text)
    text = "the page (default: report.html)"
    add("--output", type=Path, default=Path("report.html"), metavar="FILE", help=text)
    add("--json", type=Path, metavar="FILE", help="its data")
    text = "subwords per batch (default: 4000)"
    add("--max-tokens", type=flags.positive, default=4000, metavar="N", help=text)
    add("--cpu", action="store_true", help="do not use a GPU")
    text = "sentences with maps, such as 1,5-7 (default: up to three of moderate length)"
    add("--maps", metavar="LIST", help=text)
    text = "sentences for gates and heads, such as 1-500 (default: all)"
    add("--sentences", default="all", metavar="LIST", help=text)
    text = "sentences that are too long for the model: an error (default), or left out"
    add("--too-long", choices=("error", "skip"), default="error", help=text)
    text = "output of `probe --json` for a model; may be repeated"
    probing = {"action": "append", "type": flags.named_path, "metavar": "NAME=FILE"}
    add("--probing", **probing, default=[], help=text)
    group = parser.add_argument_group("instead of what is found; by default")
    add = group.add_argument
    add("--data", type=Path, metavar="DIR", help="that of the checkpoint: its data folder")
    add("--gen-subset", default="test", metavar="NAME", help="test")
    add("--subwords", choices=SUBWORDS, help="by the corpus of `prepare`")
    text = "by the corpus of `prepare`; what splits the target; see `score`"
    add("--tokenizer", choices=KINDS, help=text)
    text = "the corpus's text, or else the set's own subwords, joined"
    add("--reference", type=Path, metavar="REF", help=text)
    add("--lowercase", action="store_true", help="by the corpus; ignore case; see `score`")
    text = 'those of the run, or fairseq\'s; flags of fairseq-generate, such as "--beam 4"'
    add("--generate", type=flags.search_flags, metavar="FLAGS", help=text)


def run(args: argparse.Namespace) -> None:
    from ..analysis import maps_page  # here: these import torch, which takes seconds
    from .findings import measure
    from .page import page
    from .parts import parts_of
    from .subjects import subjects_of

    logging.getLogger("sacrebleu").setLevel(logging.ERROR)  # some texts come in tokens
    maps_page.require()
    style.require()
    subjects = subjects_of(args)
    read = [path for s in subjects for path in vars(s).values() if isinstance(path, Path)]
    read += [path for _, path in args.probing]
    check_outputs({"--output": args.output, "--json": args.json}, read)
    findings = measure(args, subjects)
    text = page(findings.title, findings.about, parts_of(findings))
    outputs.write_text(args.output, text)
    if args.json:
        write_json(args.json, findings.as_dict())
    print(f"{args.output.absolute()} ({len(text.encode()) / 1e6:.1f} MB): open it in a browser")
