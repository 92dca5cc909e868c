"""Describe trained models in one HTML page: how good they are, and what their attention does.

  fairseq-hybrid report reproduction/runs/full/mma/table2/transformer_mma/de-en/seed1
  fairseq-hybrid report hysan=hysan/average.pt base=base/average.pt

A MODEL is a run, an exported model, or a checkpoint.  Its test set is that of the data on which it
was trained, or of --data; its log is train.log beside it.  fairseq-generate translates the set,
unless the model's run has done that, and its output is kept in report.translations beside the page:
a second command does not translate again.

The page has scores with signatures, the best and worst translations, BLEU by source length,
attention maps, gates, heads and learning curves.  Models are compared with the first one by paired
bootstrap, and the sentences that differ most are shown.  The numbers are those of the commands
score, maps, gates, heads, curves and probe.

The page, report.html if --write names no other, is one file that needs no network.  A .json has all
of its numbers except the weights of the maps, which `maps` writes.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from ...errors import UserError
from ..corpora.tokenisers import KINDS
from ..corpora.words import SUBWORDS
from ..figures import style
from ..files.json_files import read_written, write_json
from ..files.writing import kind_of, write_page
from . import flags, model_flags, outputs

#: The page is ``report.html`` if no other is named.
WRITTEN = ("page", "data")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    model_flags.add_models(parser)
    add = parser.add_argument
    outputs.add_write(parser, *WRITTEN)
    text = "sentences with maps, such as 1,5-7 (default: up to three of moderate length)"
    add("--maps", metavar="LIST", help=text)
    model_flags.add_selection(parser)
    text = "output of `probe --write` for a model; may be repeated"
    named = flags.named_path
    add("--probing", action="append", type=named, metavar="NAME=FILE", default=[], help=text)
    text = "show the numbers of `compare --write FILE` (.json), of all seeds, in place of its own"
    add("--comparison", type=Path, metavar="FILE", help=text)
    group = parser.add_argument_group("instead of what is found; by default")
    add = group.add_argument
    add("--gen-subset", default="test", metavar="NAME", help="test")
    add("--subwords", choices=SUBWORDS, help="as the data of `prepare` say; how words are split")
    text = "likewise; what splits the target; see `score`"
    add("--tokenizer", choices=KINDS, help=text)
    text = "the untouched text there, or else the set's own subwords, joined"
    add("--reference", type=Path, metavar="REF", help=text)
    add("--lowercase", action="store_true", help="likewise; ignore case; see `score`")
    text = 'those of the run, or fairseq\'s; flags of fairseq-generate, such as "--beam 4"'
    add("--generate", type=flags.search_flags, metavar="FLAGS", help=text)


def run(args: argparse.Namespace) -> None:
    from ..analysis import maps_page  # here: these import torch, which takes seconds
    from ..models.loading import device_of
    from ..report.findings import measure, read_probing
    from ..report.parts import compared, page
    from ..report.subjects import Request, find_subject

    logging.getLogger("sacrebleu").setLevel(logging.ERROR)  # some texts come in tokens
    maps_page.require()
    style.require()
    pages = [path for path in args.write if kind_of(path) == "page"]
    if len(pages) > 1:
        raise UserError("--write: name one page")
    written = args.write if pages else [*args.write, Path("report.html")]
    asked = Request(
        page=(pages or written)[-1],
        command=tuple(args.command_line),
        subset=args.gen_subset,
        subwords=args.subwords,
        tokenizer=args.tokenizer,
        lowercase=args.lowercase,
        reference=args.reference,
        search=None if args.generate is None else tuple(args.generate),
        maps=args.maps,
        sentences=args.sentences,
        skip_long=args.too_long == "skip",
        device=device_of(args.device),
        max_tokens=args.max_tokens,
        user_dir=args.user_dir,
    )
    ((name, first), *others), named = args.models, args.models
    if not (others or name) and first.resolve().name.startswith("seed"):
        named = [("/".join(first.resolve().parts[-3:]), first)]  # a run alone: ROW/COLUMN/seedN
    models = model_flags.named_models(named, args.data)
    for name, _ in args.probing:
        if name not in models:
            raise UserError(
                f"--probing {name}=…: there is no such model; they are called {', '.join(models)} "
                "(NAME=MODEL changes that)"
            )
    subjects = {name: find_subject(trained, asked) for name, trained in models.items()}
    read = [path for subject in subjects.values() for path in subject.files]
    read += [*(path for _, path in args.probing), args.comparison]
    outputs.check(written, WRITTEN, read)
    probing = read_probing(args.probing, subjects)
    comparison = args.comparison and read_written(
        f"--comparison {args.comparison}",
        *(args.comparison, "compare --write FILE.json", lambda content: [*compared(content)]),
    )
    findings = measure(subjects, asked, probing, comparison)
    outputs.write(
        written,
        data=lambda path: write_json(path, findings.as_dict()),
        page=lambda path: write_page(path, page(findings)),
    )
