"""Probe a frozen encoder: what can a classifier tell about a sentence from its states?

  fairseq-hybrid probe RUN --task-files SentEval/data/probing --write probing.json
  fairseq-hybrid probe model.pt --task-files probing --tasks SentLen,WC,BShift \\
      --tokens subwords --hidden 100 --dropout 0

This runs the ten tasks of SentEval (Conneau et al. 2018) on their published files.  Each sentence
becomes the mean of an encoder layer over its tokens.  A classifier is trained on these
vectors by SentEval's settings, chosen by its accuracy on the validation part, and tested.
docs/probing.md has definitions and costs; --hidden 100 --dropout 0 is about a tenth of the work.

Sentences are treated like the training text, if that is by fairseq-hybrid prepare.  --tokens names
the tokeniser of the task files, whose work is undone first; SentEval's files follow Moses.  For
other data, write the sentences of the task files in the model's subwords: --tokens subwords.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from ...errors import UserError
from ..corpora.tokenisers import KINDS
from ..figures import style
from ..files.json_files import write_json
from ..probing import AS_TRAINED, SUBWORDS, ProbeSettings, results
from ..probing.tasks import TASKS, find_files, read_task, tasks_named
from . import model_flags, outputs
from .flags import positive

WRITTEN = ("data", "figure")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    model_flags.add_model(parser)
    add = parser.add_argument
    text = "folder with sentence_length.txt, …"
    add("--task-files", required=True, type=Path, metavar="DIR", help=text)
    add("--tasks", default=",".join(TASKS), metavar="LIST", help="default: %(default)s")
    text = "tokeniser of the task files (default: moses); as-trained: that of the training text; "
    text += "subwords: they are in subwords"
    add("--tokens", choices=(*KINDS, AS_TRAINED, SUBWORDS), default="moses", help=text)
    add("--layer", default="last", help="1 = lowest, last (default), 0: embeddings")
    text = "whether the mean includes the end symbol (default: in)"
    add("--end-symbol", choices=("in", "out"), default="in", help=text)
    settings = ProbeSettings()
    add = parser.add_argument_group("classifiers").add_argument
    add("--seeds", type=positive, default=3, metavar="N", help="seeds 1 to N (default: 3)")
    text = "hidden units to choose among; 0: none (default: %(default)s)"
    hidden, dropout = (",".join(map(str, listed)) for listed in (settings.hidden, settings.dropout))
    add("--hidden", default=hidden, metavar="LIST", help=text)
    text = "rates to choose among (default: %(default)s)"
    add("--dropout", default=dropout, metavar="LIST", help=text)
    text, size = "default: %(default)s", settings.batch_size
    add("--batch-size", type=positive, default=size, metavar="N", help=text)
    outputs.add_write(parser, *WRITTEN)


def run(args: argparse.Namespace) -> None:
    if args.layer != "last" and not args.layer.isdecimal():
        raise UserError(f"--layer {args.layer}: use a number from 0, or last")
    settings = ProbeSettings(
        hidden=_numbers("--hidden", args.hidden, int),
        dropout=_numbers("--dropout", args.dropout, float),
        batch_size=args.batch_size,
    )
    from ..models.loading import device_of  # here and below: these import torch
    from ..models.trained import find_model
    from ..probing.probe import probe_model

    tasks = tasks_named(args.tasks.split(","))
    paths = find_files(args.task_files, tasks)
    trained = find_model(args.model, args.data)
    outputs.check(args.write, WRITTEN, [trained.checkpoint, *paths])
    # Check all of them before the work, which takes hours.
    files = [read_task(path, task) for path, task in zip(paths, tasks, strict=True)]
    probed = probe_model(
        trained,
        files,
        settings,
        layer=args.layer,
        end_symbol=args.end_symbol == "in",
        tokens=args.tokens,
        seeds=args.seeds,
        device=device_of(args.device),
        max_tokens=args.max_tokens,
    )
    name = model_flags.names_of([args.model])[0]
    outputs.write(
        args.write,
        data=lambda path: write_json(path, probed),
        figure=lambda path: style.save(results.draw({name: probed}, args.theme), path),
    )
    print(results.grid({"accuracy": probed}).terminal())
    print("\nAccuracy on the test part in per cent; most common class: when always chosen.")
    if args.seeds > 1:
        print(f"Mean and standard deviation of {args.seeds} seeds.")


def _numbers(flag: str, text: str, kind: Callable) -> tuple:
    try:
        return tuple(dict.fromkeys(kind(number) for number in text.split(",")))
    except ValueError:
        raise UserError(f"{flag} {text}: use numbers separated by commas") from None
