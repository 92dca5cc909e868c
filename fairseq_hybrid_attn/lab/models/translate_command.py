"""Translate text with a trained model: lines in, lines out, in their order.

  fairseq-hybrid translate models/mma < text.de > text.en
  fairseq-hybrid translate reproduction/runs/full/mma/table4/local/bleu/seed1 text.de > text.en
  fairseq-hybrid translate checkpoints/avg.pt --data data/mine text.de --nbest 5 --scores

A run, or a model that "export" made, says how text is tokenised and split into subwords, and with
which beam and length penalty the run translated.  An empty line stays empty.  At a terminal each
line is translated at once; otherwise thousands are read together, so that those of similar length
share a batch.

--nbest prints N lines for each line.  --scores prints the score (as in the H- lines of
fairseq-generate) before the translation, --alignments three columns after it: the tokens of the
line, those of the translation, and the links between them by their numbers from 0, such as 0-0
2-1.  A tab separates columns.
"""

from __future__ import annotations

import argparse
import io
import itertools
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from ...errors import UserError
from ..cli.flags import positive
from ..files.text import decoded, lines

if TYPE_CHECKING:
    from .translator import Translation

#: Lines that are read together.
MANY = 5000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", type=Path, metavar="RUN|MODEL", help="a run, an exported model, or a checkpoint")
    add("file", type=Path, nargs="?", metavar="FILE", help="text (default: standard input)")
    text = 'output of "prepare", if it is neither the run\'s nor beside the model'
    add("--data", type=Path, metavar="DIR", help=text)
    add("--nbest", type=positive, default=1, metavar="N", help="translations of a line")
    add("--scores", action="store_true", help="print the score of each translation")
    add("--alignments", action="store_true", help="print tokens and their links")
    group = parser.add_argument_group("the search (default: as in the run, or else fairseq's)")
    group.add_argument("--beam", type=positive, metavar="N")
    group.add_argument("--lenpen", type=float, metavar="X", help="fairseq's length penalty")
    group.add_argument("--gnmt-lenpen", type=float, metavar="X", help="or GNMT's")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: a GPU if any")
    text = "fp16 on GPUs; bf16 also on CPUs with AVX512-BF16 or AMX (default: fp32)"
    add("--precision", choices=("fp32", "fp16", "bf16"), default="fp32", help=text)


def run(args: argparse.Namespace) -> None:
    from .translator import load  # here: it imports torch, which takes seconds

    logging.getLogger("fairseq").setLevel(logging.WARNING)  # it tells of each dictionary
    translator = load(args.model, data=args.data, device=args.device, precision=args.precision)
    search = {"beam": args.beam, "lenpen": args.lenpen, "gnmt_lenpen": args.gnmt_lenpen}
    interactive = args.file is None and sys.stdin.isatty()
    text = lines(args.file) if args.file else decoded(sys.stdin.buffer, "standard input")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # whatever the locale says
    first = 1
    # None shows it at a terminal alone.
    with tqdm(unit=" lines", file=sys.stderr, disable=interactive or None) as bar:
        while block := list(itertools.islice(text, 1 if interactive else MANY)):
            try:
                translations = translator.translate(
                    block, nbest=args.nbest, progress=bar.update, **search
                )
            except UserError as error:
                place = "" if interactive else f"from line {first:,} on, "
                raise UserError(f"{place}{error}") from error
            for of_line in translations:
                rows = [row(translation, args) for translation in of_line]
                print(*(rows or [""] * args.nbest), sep="\n")
            sys.stdout.flush()
            first += len(block)


def row(translation: Translation, args: argparse.Namespace) -> str:
    columns = [translation.text]
    if args.scores:
        columns.insert(0, f"{translation.score:.4f}")
    if args.alignments:
        links = " ".join(f"{source}-{target}" for source, target in translation.alignment)
        columns += [" ".join(translation.source), " ".join(translation.tokens), links]
    return "\t".join(columns)
