"""Draw attention maps of sentences: an interactive page, figures, data.

  fairseq-hybrid maps models/mma --sentence "ein hund spielt ." --page maps.html
  fairseq-hybrid maps RUN --sentences 1,5 --page maps.html
  fairseq-hybrid maps positions=with.pt "no positions=without.pt" --data data/mine \\
      --source test.bpe.de --target test.bpe.en --figures figures --json maps.json

The model reads the source and is forced to decode the given translation, or its own of a typed
sentence.  --page writes one HTML file that needs no network.  --figures writes PNG and PDF files
into a folder, for each sentence, kind of attention and model, and sentenceN.compare of several
models' encoders.  --json has weights and gates.  docs/analysis.md describes them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ...errors import UserError
from ..analysis import UNITS
from ..figures import style
from ..files.writing import check_outputs, make_folder, write_page, write_text
from . import model_flags, outputs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    model_flags.add_models(parser)
    model_flags.add_sentences(parser)
    model_flags.add_selection(parser, unless="the first five")
    model_flags.add_kinds(parser)
    group = parser.add_argument_group("what to write")
    group.add_argument("--page", type=Path, metavar="FILE", help="the page, .html")
    group.add_argument("--figures", type=Path, metavar="FOLDER", help="figures, PNG and PDF")
    group.add_argument("--json", type=Path, metavar="FILE", help="the weights, to 6 digits")
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

    written = {"--page": args.page, "--json": args.json}
    if not (any(written.values()) or args.figures):
        raise UserError("nothing to do: give --page FILE, --figures FOLDER or --json FILE")
    trained = model_flags.named_models(args.models, args.data)
    check_outputs(written, model_flags.files_of(args, trained))
    if args.page:
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
    if args.page:
        title = f"Attention maps: {', '.join(model.name for model in models)}"
        write_page(args.page, maps_page.page(title, models))
    if args.json:
        data = {"models": [model.as_dict(rounded) for model in models]}
        write_text(args.json, json.dumps(data, ensure_ascii=False))
    if args.figures:
        maps_figure.write(models, args.unit, args.figures, args.theme)
