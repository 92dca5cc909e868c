"""Translate text with a trained model: lines in, lines out, in their order.

  fairseq-hybrid translate models/mma < text.de > text.en
  fairseq-hybrid translate reproduction/runs/full/mma/table4/local/bleu/seed1 text.de > text.en
  fairseq-hybrid translate checkpoints/avg.pt --data data/mine text.de --nbest 5 --scores

A run, or a model that "export" made, says how text is tokenised and split into subwords, and with
which beam and length penalty the run translated.  At a terminal each line is translated at once;
otherwise thousands are read together, so that those of similar length share a batch, and are
written before the next are read.  A line of white space alone is left empty, and so is one that is
too long for the model: a message names it, all others are translated, and the status is 1.

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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from ...errors import UserError
from ..files.text import decoded, lines
from .flags import add_device, positive
from .model_flags import MODEL, add_data

if TYPE_CHECKING:
    from ..models.translator import Translation

#: Lines that are read together: enough to fill batches with lines of one length.
MANY = {"cpu": 2_000, "cuda": 10_000}

#: Where progress is not shown at a terminal, it is written this often.
SECONDS_OF_SILENCE = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL", help=MODEL)
    add("file", type=Path, nargs="?", metavar="FILE", help="text (default: standard input)")
    add_data(parser)
    add(
        "--nbest",
        type=positive,
        default=1,
        metavar="N",
        help="translations of a line; the beam is no smaller",
    )
    add("--scores", action="store_true", help="print the score of each translation")
    add("--alignments", action="store_true", help="print tokens and their links")
    group = parser.add_argument_group("the search (default: as in the run, or else fairseq's)")
    group.add_argument("--beam", type=positive, metavar="N")
    group.add_argument("--lenpen", type=float, metavar="X", help="fairseq's length penalty")
    group.add_argument("--gnmt-lenpen", type=float, metavar="X", help="or GNMT's")
    add_device(parser)
    text = "auto (default): fp16 on a GPU, else fp32; bf16 also on CPUs with AVX512-BF16 or AMX"
    add("--precision", choices=("auto", "fp32", "fp16", "bf16"), default="auto", help=text)


def run(args: argparse.Namespace) -> None:
    from ..models.translator import load  # here: it imports torch, which takes seconds

    logging.getLogger("fairseq").setLevel(logging.WARNING)  # it tells of each dictionary
    translator = load(args.model, data=args.data, device=args.device, precision=args.precision)
    search = {"beam": args.beam, "lenpen": args.lenpen, "gnmt_lenpen": args.gnmt_lenpen}
    if args.file is None and sys.stdin is None:
        raise UserError("standard input is closed: name a FILE")
    interactive = args.file is None and sys.stdin.isatty()
    text = lines(args.file) if args.file else decoded(sys.stdin.buffer, "standard input")
    if sys.stdout is None:
        raise UserError("standard output is closed: translations cannot be written")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # whatever the locale says
    shown = [translator.trained.shown(language) for language in translator.trained.languages]
    nothing = "\t" * (args.scores + 3 * args.alignments)  # as many columns as a translation has
    read, left_out = 0, 0

    def refused(number: int, fault: str) -> None:
        nonlocal left_out
        left_out += 1
        print(f"not translated: line {read + number + 1:,} {fault}", file=sys.stderr)

    many = 1 if interactive else MANY[translator.device]
    slow = {"delay": SECONDS_OF_SILENCE, "mininterval": SECONDS_OF_SILENCE}
    how = {} if sys.stderr.isatty() else slow
    with tqdm(unit=" lines", file=sys.stderr, disable=interactive, **how) as bar:
        while block := list(itertools.islice(text, many)):
            found = translator.translate(
                block,
                nbest=args.nbest,
                first=read + 1,
                progress=bar.update,
                refused=refused,
                **search,
            )
            for translations in found:
                rows = [row(one, args.scores, args.alignments, shown) for one in translations]
                print(*rows, *[nothing] * (args.nbest - len(rows)), sep="\n")
            sys.stdout.flush()
            read += len(block)
    if left_out:
        raise UserError(f"{left_out:,} of {read:,} lines are not translated, see above")


def row(
    translation: Translation, scores: bool, alignments: bool, shown: Sequence[Callable[[str], str]]
) -> str:
    columns = [translation.text]
    if scores:
        columns.insert(0, f"{translation.score:.4f}")
    if alignments:
        links = " ".join(f"{source}-{target}" for source, target in translation.alignment)
        sides = zip(shown, (translation.source, translation.tokens), strict=True)
        columns += [*(" ".join(map(show, words)) for show, words in sides), links]
    return "\t".join(columns)
