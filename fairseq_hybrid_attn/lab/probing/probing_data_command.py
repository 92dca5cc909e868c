"""Make small probing tasks from any text.

  fairseq-hybrid probing-data prepared/tokenised/train.de --output probing
  fairseq-hybrid probing-data news.de --tokenizer moses --lang de --output probing \\
      --sizes 5000 500 500 --words 50 --first-rank 500

It makes SentLen (sentence_length.txt), WC (word_content.txt) and BShift (bigram_shift.txt) in the
form of SentEval's files.  Each class has the same number of sentences, no sentence is in two parts,
and the same seed gives the same files.  TEXT has one sentence per line, in tokens separated by
spaces; other text is tokenised by --tokenizer.  To probe, give fairseq-hybrid probe --tokens
as-trained for tokens of the training text (prepared/tokenised/), else --tokens with the
tokeniser's name.

To learn what a model makes of new sentences, use more than its training text.  The published files
use the 1,000 words from rank 2,001 of the corpus for WC; shorter text has too few sentences for
each.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from ...errors import UserError
from ..corpora.tokenisers import KINDS, tokenise_file
from ..files.text import lines
from ..files.writing import atomic_write
from ..look import outputs
from .generate import GENERATORS, Wanted, usable
from .tasks import PARTS, TASKS, tasks_named


def add_arguments(parser: argparse.ArgumentParser) -> None:
    wanted = Wanted()
    parser.add_argument("text", type=Path, metavar="TEXT", help="one sentence per line (or .gz)")
    parser.add_argument("--output", required=True, type=Path, metavar="DIR")
    parser.add_argument(
        "--tasks", default=",".join(GENERATORS), metavar="LIST", help="default: %(default)s"
    )
    parser.add_argument(
        "--sizes",
        type=int,
        nargs=len(PARTS),
        default=wanted.sizes,
        metavar="N",
        help=f"sentences of {', '.join(PARTS)} (default: {' '.join(map(str, wanted.sizes))})",
    )
    parser.add_argument(
        "--words",
        type=int,
        default=wanted.words,
        metavar="N",
        help="classes of WC (default: %(default)s)",
    )
    parser.add_argument(
        "--first-rank",
        type=int,
        default=wanted.first_rank,
        metavar="N",
        help="frequency rank of WC's first word (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=wanted.seed, metavar="N", help="default: %(default)s"
    )
    parser.add_argument("--tokenizer", choices=KINDS, help="tokeniser to apply to TEXT")
    parser.add_argument("--lang", metavar="LANG", help="language of TEXT, for --tokenizer")


def run(args: argparse.Namespace) -> None:
    """Make the files, all or none, and print their sizes."""
    wanted = Wanted(tuple(args.sizes), args.seed, args.words, args.first_rank)
    tasks = tasks_named(args.tasks.split(","))
    impossible = [task.name for task in tasks if task.name not in GENERATORS]
    if impossible:
        raise UserError(
            f"--tasks: {', '.join(impossible)} cannot be made without a parser; choose among "
            f"{', '.join(GENERATORS)}"
        )
    if (args.tokenizer is None) != (args.lang is None):
        raise UserError("give both of --tokenizer and --lang, or none if TEXT is tokenised")
    for task in TASKS.values():  # published files, or files of other text
        if (args.output / task.file).exists():
            raise UserError(f"--output {args.output}: {task.file} exists; choose another folder")
    sentences = usable(tokens(args))
    made = {task: GENERATORS[task.name](sentences, wanted) for task in tasks}
    outputs.make_folder("--output", args.output)
    for task, examples in made.items():
        with atomic_write(args.output / task.file) as file:
            file.writelines("{}\t{}\t{}\n".format(*example).encode() for example in examples)
        counts = ", ".join(
            f"{part} {sum(example.part == part for example in examples):,}" for part in PARTS
        )
        classes = len({example.label for example in examples})
        print(f"{args.output / task.file}: {classes} classes; {counts}")


def tokens(args: argparse.Namespace) -> list[str]:
    if args.tokenizer is None:
        return list(lines(args.text))
    with tempfile.TemporaryDirectory(prefix="probing-") as folder:
        path = Path(folder) / "tokens"
        tokenise_file(args.text, path, args.tokenizer, args.lang, workers=1)
        return list(lines(path))
