"""Draw attention maps of sentences: an interactive page, figures, data.

  fairseq-hybrid maps data-bin --path model.pt --gen-subset test --sentences 1,5 \\
      --subwords subword-nmt --page maps.html
  fairseq-hybrid maps data-bin --path with.pt without.pt --names "positions" "no positions" \\
      --source test.bpe.de --target test.bpe.en --subwords subword-nmt --page maps.html \\
      --figures figures --json maps.json

The model reads the source and is forced to decode the given translation.  --page writes one HTML
file that needs no network.  --figures writes PNG and PDF files into a folder, for each sentence,
kind of attention and model, and sentenceN.compare of several models' encoders.  --json has weights
and gates.  docs/analysis.md describes them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from ...errors import UserError
from ..figures import outputs, style
from ..files.writing import check_outputs
from ..models import ENCODER
from ..models import arguments as model_args
from . import UNITS

if TYPE_CHECKING:
    from ..models.on_text import Loaded
    from .maps_figure import MapRow
    from .maps_measure import Map, ModelMaps

FIRST = 5  # sentences that are shown by default


def add_arguments(parser: argparse.ArgumentParser) -> None:
    model_args.add_models(parser)
    model_args.add_sentences(parser)
    model_args.add_selection(parser, unless="the first five")
    model_args.add_kinds(parser)
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
    from . import maps_page  # here and below: these import torch, which takes seconds
    from .maps_measure import ModelMaps, rounded, sentence_maps

    check_arguments(args)
    models: list[ModelMaps] = []
    for loaded in model_args.load(args):
        attentions = loaded.attentions(args.kinds)
        first = models[0] if models else None
        skip_long = args.too_long == "skip"
        numbers = shown("--sentences", args.sentences, loaded, first, skip_long)
        sentences = loaded.look(attentions, numbers, partial(sentence_maps, loaded, attentions))
        models.append(ModelMaps(loaded.name, loaded.description, sentences))
    if args.page:
        title = f"Attention maps: {', '.join(model.name for model in models)}"
        outputs.write_text(args.page, maps_page.page(title, models))
    if args.json:
        data = {"models": [model.as_dict(rounded) for model in models]}
        outputs.write_text(args.json, json.dumps(data, ensure_ascii=False))
    if args.figures:
        draw(args, models)


def check_arguments(args: argparse.Namespace) -> None:
    from . import maps_page

    model_args.check_models(args)
    written = {"--page": args.page, "--json": args.json}
    if not (any(written.values()) or args.figures):
        raise UserError("nothing to do: give --page FILE, --figures FOLDER or --json FILE")
    check_outputs(written, model_args.inputs_of(args))
    if args.page:
        maps_page.require()
    if args.figures:
        style.require()
        outputs.make_folder("--figures", args.figures)


def shown(
    flag: str, listed: str | None, loaded: Loaded, first: ModelMaps | None, skip_long: bool = False
) -> list[int]:
    """The sentences (from 0) to show.

    Those of the ``first`` model, if this is another; or those that ``flag`` lists; or else the
    first usable ones.
    """
    from ..models.on_text import chosen

    if first:
        return loaded.usable([sentence.number for sentence in first.sentences])
    if listed is None:
        return loaded.usable(range(len(loaded.sentences)), skip_long=True)[:FIRST]
    return loaded.usable(chosen(flag, listed, len(loaded.sentences)), skip_long=skip_long)


def draw(args: argparse.Namespace, models: list[ModelMaps]) -> None:
    from . import maps_figure

    todo = list(figures_of(models, args.unit))
    for name, rows, map_ in tqdm(todo, unit=" figures", file=sys.stderr):
        drawn = maps_figure.draw(rows, map_.queries, map_.keys, args.theme)
        for suffix in (".png", ".pdf"):
            style.save(drawn, args.figures / f"{name}{suffix}")


def figures_of(models: list[ModelMaps], unit: str) -> Iterator[tuple[str, list[MapRow], Map]]:
    """Name, rows of maps and a map with the tokens of each figure."""
    from . import maps_figure

    for place, first in enumerate(models[0].sentences):
        begin = f"sentence{first.number + 1}"
        encoders = {}
        for number, model in enumerate(models, start=1):
            maps = model.sentences[place].units[unit]
            which = f".model{number}" if len(models) > 1 else ""
            for kind, map_ in maps.items():
                yield f"{begin}.{kind}{which}", maps_figure.rows_of(map_), map_
            if ENCODER in maps:
                encoders[model.name] = maps[ENCODER]
        if len(encoders) > 1:
            (map_, *_) = encoders.values()
            yield f"{begin}.compare", maps_figure.compared(encoders), map_
