"""Show the mean gates of a model by layer, branch, part of speech and window size.

  fairseq-hybrid gates RUN --gen-subset valid --tagger de --write-tags valid.tags \\
      --write gates.pdf --write gates.json
  fairseq-hybrid gates window3.pt window5.pt --data data/mine --write figure2.pdf

The gate of transformer_hybrid_gate is the share of the local branch (0 = only global attention,
1 = only local attention).  For transformer_hysan with gated sum, it is the mean of each branch's
squeeze gate.  A fusion of your own says itself what its gates are.  The interval of a mean is 95 %,
over sentences; half of it is shown.  docs/analysis.md says more, also of tags.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ...errors import UserError
from ..analysis import tags
from ..figures import style
from ..files.json_files import write_json
from . import model_flags, outputs

WRITTEN = ("data", "figure")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    model_flags.add_models(parser)
    model_flags.add_sentences(parser)
    model_flags.add_selection(parser)
    group = parser.add_argument_group("parts of speech of the source's words")
    group.add_argument("--tags", type=Path, metavar="FILE", help="tags, one line per sentence")
    group.add_argument(
        "--tagger", choices=tuple(tags.TAGGERS), help="or: use the tagger for this language"
    )
    group.add_argument(
        "--write-tags", type=Path, metavar="FILE", help="write the tagger's tags, for --tags"
    )
    outputs.add_write(parser, *WRITTEN)


def run(args: argparse.Namespace) -> None:
    from ..analysis.gates import as_dict, draw, measure  # here: it imports torch

    if args.tags and args.tagger:
        raise UserError("give one of --tags FILE and --tagger LANGUAGE")
    if args.write_tags and not args.tagger:
        raise UserError("--write-tags needs --tagger LANGUAGE; give both")
    trained = model_flags.named_models(args.models, args.data)
    inputs = [*model_flags.files_of(args, trained), args.tags]
    outputs.check(args.write, WRITTEN, inputs, {"--write-tags": args.write_tags})
    models = measure(
        model_flags.on_text(args, trained),
        args.sentences,
        skip_long=args.too_long == "skip",
        tags=args.tags,
        tagger=args.tagger,
        write_tags=args.write_tags,
    )
    tagged_by = str(args.tags) if args.tags else args.tagger and f"tagger: {args.tagger}"
    outputs.write(
        args.write,
        data=lambda path: write_json(path, as_dict(models, tagged_by)),
        figure=lambda path: style.save(draw(models, args.theme), path),
    )
    for gates in models:
        print(gates.name)
        print(gates.grid.terminal())
        if gates.share_text:
            print(f"all layers: {gates.share_text}")
        if gates.tag_rows:
            print(f"\n{gates.grid_of_tags.terminal()}")
        print()
