"""Draw attention maps of sentences: an interactive page, figures, data.

  fairseq-hybrid maps models/mma --sentence "ein hund spielt ." --write maps.html
  fairseq-hybrid maps RUN --sentences 1,5 --write maps.html
  fairseq-hybrid maps positions=with.pt "no positions=without.pt" --data data/mine \\
      --source test.bpe.de --target test.bpe.en --figures figures --write maps.json

The model reads the source and is forced to decode the given translation, or its own of a typed
sentence.  The page, .html, needs no network.  --figures writes PNG and PDF files into a folder, for
each sentence, kind of attention and model, and sentenceN.compare of several models' encoders.  A
.json has weights, to 6 digits, and gates.  docs/analysis.md describes them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ...errors import UserError
from ..analysis import UNITS
from ..figures import style
from ..files.writing import kind_of, make_folder, write_page, write_text
from . import model_flags, outputs

WRITTEN = ("page", "data")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    model_flags.add_models(parser)
    model_flags.add_sentences(parser)
    model_flags.add_selection(parser, unless="the first five")
    model_flags.add_kinds(parser)
    group = parser.add_argument_group("what to write")
    outputs.add_write(group, *WRITTEN)
    group.add_argument("--figures", type=Path, metavar="FOLDER", help="figures, PNG and PDF")
    group.add_argument(
        "--unit",
        choices=UNITS,
        default=UNITS[0],
        help="rows and columns of figures (default: words); page and data have both",
    )
    outputs.add_theme(group)


def run(args: argparse.Namespace) -> None:
    from ..analysis import maps_figure, maps_page  # here: these import torch, which takes seconds
    from ..analysis.maps_measure import ModelMaps, measure_maps, rounded, shown

    if not (args.write or args.figures):
        raise UserError("nothing to do: give --write FILE.html, --write FILE.json or --figures DIR")
    trained = model_flags.named_models(args.models, args.data)
    outputs.check(args.write, WRITTEN, model_flags.files_of(args, trained))
    if "page" in map(kind_of, args.write):
        maps_page.require()
    if args.figures:
        style.require()
        make_folder("--figures", args.figures)
    models: list[ModelMaps] = []
    first: list[int] = []
    for model in model_flags.on_text(args, trained):
        numbers = shown(model, "--sentences", args.sentences, first, args.too_long == "skip")
        first = first or numbers
        models.append(measure_maps(model, args.kinds, numbers))
    title = f"Attention maps: {', '.join(model.name for model in models)}"

    def data() -> str:
        found = {"models": [model.as_dict(rounded) for model in models]}
        return json.dumps(found, ensure_ascii=False)

    outputs.write(
        args.write,
        page=lambda path: write_page(path, maps_page.page(title, models)),
        data=lambda path: write_text(path, data()),
    )
    if args.figures:
        maps_figure.write(models, args.unit, args.figures, args.theme)
