"""Attention maps of sentences: a page to explore, figures, data.

  fairseq-hybrid maps data-bin --path model.pt --gen-subset test --sentences 1,5 \\
      --subwords subword-nmt --page maps.html
  fairseq-hybrid maps data-bin --path with.pt without.pt --names "positions" "no positions" \\
      --source test.bpe.de --target test.bpe.en --subwords subword-nmt --page maps.html \\
      --figures figures --json maps.json

The model reads the source and is made to say the translation that is given.  The sentences are a
binarised part of the data folder, or two text files in the model's subwords.  Any fairseq
encoder-decoder will do; one without attention in its encoder or decoder (lstm, fconv) shows what
it has.

--page writes one HTML file that wants no network: choose sentence, encoder, decoder or
cross-attention, layer, branch and head; words or subwords; two maps side by side, of two models or
of one.  Pointing at a cell shows the two tokens and the weight.

--figures writes into a folder, as PNG and PDF, for each sentence, kind of attention and model: a
row for each layer and a column for each head (MMA Fig. 3) or, of layers with several branches,
for each branch, the mean of its heads; and of several models, sentenceN.compare: a row for each
model and a column for each branch of the encoder layer --layer (HySAN Fig. 5).

--json and --csv have the weights.  Words are made of subwords: attention is summed over the pieces
of a key word and averaged over those of a query word.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from tqdm import tqdm

from ...errors import UserError
from ..arguments import models as model_args
from ..arguments import outputs
from ..figures import style
from ..files.writing import check_outputs
from ..inference.attentions import ENCODER, KINDS, Attentions
from . import figure as figures
from . import page
from .measure import UNITS, Map, maps_of

FIRST = 5  # sentences that are shown if none are named


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    model_args.add_models(parser)
    model_args.add_sentences(parser)
    parser.add_argument(
        "--sentences",
        metavar="LIST",
        help="which, from 1, such as 1,5-7, or all (default: the first five)",
    )
    parser.add_argument(
        "--kinds",
        nargs="+",
        choices=KINDS,
        default=list(KINDS),
        help="self-attention of encoder or decoder, cross-attention (default: all)",
    )
    group = parser.add_argument_group("what to write")
    group.add_argument("--page", type=Path, metavar="FILE", help="the page, .html")
    group.add_argument("--figures", type=Path, metavar="FOLDER", help="figures, PNG and PDF")
    group.add_argument("--json", type=Path, metavar="FILE", help="the weights, to 6 digits")
    group.add_argument(
        "--csv", type=Path, metavar="FILE", help="the weights, a line for each that is allowed"
    )
    group.add_argument(
        "--unit",
        choices=UNITS,
        help="rows and columns of figures and data (default: words); the page has both",
    )
    group.add_argument(
        "--layer", type=int, metavar="N", help="of the figure that compares models (default: 1)"
    )
    group.add_argument(
        "--theme", choices=tuple(style.THEMES), help="background of the figures (default: light)"
    )


def run(args: argparse.Namespace) -> None:
    """Look, and write.

    Raises:
        UserError: if arguments or files do not fit together, or a file cannot be read or
            written.
    """
    check_arguments(args)
    models: list[page.ModelMaps] = []
    for loaded in model_args.load(args):
        models.append(look(args, loaded, models[0] if models else None))
    if args.page:
        title = f"Attention maps: {', '.join(model.name for model in models)}"
        outputs.write_text(args.page, page.page(title, models))
    unit = args.unit or UNITS[0]
    if args.json:
        outputs.write_text(args.json, json.dumps(as_dict(models, unit), ensure_ascii=False))
    if args.csv:
        outputs.write_text(args.csv, as_csv(models, unit))
    if args.figures:
        draw(args, models, unit)


def check_arguments(args: argparse.Namespace) -> None:
    """Refuse arguments that do not go together.

    Raises:
        UserError: naming the flag and the way out.
    """
    model_args.check(args)
    outputs = {"--page": args.page, "--json": args.json, "--csv": args.csv}
    outputs = {flag: path for flag, path in outputs.items() if path}
    if not (outputs or args.figures):
        raise UserError("nothing to do: give --page FILE, --figures FOLDER, --json or --csv FILE")
    inputs = [path for path in (*args.path, args.source, args.target) if path]
    check_outputs(outputs, inputs)
    for flag, value in (("--layer", args.layer), ("--theme", args.theme)):
        if value is not None and not args.figures:
            raise UserError(f"{flag} {value} is for --figures FOLDER; give both")
    if args.layer is not None and (len(args.path) < 2 or ENCODER not in args.kinds):
        raise UserError(f"--layer {args.layer} is of encoders that are compared; name two models")
    if args.page:
        page.require()
    if args.figures:
        style.require()
        if args.figures.exists() and not args.figures.is_dir():
            raise UserError(f"--figures {args.figures} is a file; name a folder")
        if not args.figures.parent.is_dir():
            raise UserError(
                f"--figures {args.figures}: there is no directory {args.figures.parent}"
            )


def look(
    args: argparse.Namespace, loaded: model_args.Loaded, first: page.ModelMaps | None
) -> page.ModelMaps:
    """The maps of a model: of the same sentences as of the first, if there was one.

    Raises:
        UserError: if a sentence cannot be looked at.
    """
    before = [one.number for one in first.sentences] if first else None
    numbers = wanted("--sentences", args.sentences, loaded, before)
    attentions = model_args.attentions_of(loaded, args.kinds)
    check_layer(args, loaded, attentions)
    use = maps_of(attentions, loaded.sentences, args.subwords)
    found = model_args.look(args, loaded, attentions, numbers, use)
    model_args.check_seen(loaded, any(one.units[UNITS[0]] for one in found))
    return page.ModelMaps(loaded.name, loaded.description, found)


def check_layer(
    args: argparse.Namespace, loaded: model_args.Loaded, attentions: Attentions
) -> None:
    """See to it, before the work, that a model has the layer that is compared.

    Raises:
        UserError: if not.
    """
    layers = attentions.layers.get(ENCODER)
    if args.layer is not None and layers and not 1 <= args.layer <= len(layers):
        raise UserError(f"--layer {args.layer}: {loaded.name} has {len(layers)} encoder layers")


def wanted(
    flag: str, value: str | None, loaded: model_args.Loaded, before: list[int] | None
) -> list[int]:
    """The sentences (from 0) that are shown.

    Args:
        flag: names them.
        value: what it names; None: the first that can be shown.
        loaded: the model.
        before: what was shown of another model, which this one must show as well; or None.

    Raises:
        UserError: if one is too long or empty, or none is left.
    """
    every = range(len(loaded.sentences))
    numbers = before or model_args.chosen(flag, value or "all", len(every))
    long, empty = loaded.too_long(numbers), loaded.empty(numbers)
    if value is None and before is None:
        numbers = [n for n in every if n not in {*long, *empty}][:FIRST]
        if not numbers:
            raise UserError(f"--path {loaded.path}: none of the sentences can be shown")
        return numbers
    way_out = f"name others by {flag}"
    if long:
        loaded.refuse_too_long(long, way_out)
    if empty:
        loaded.refuse(empty, "empty, or their translations are", way_out)
    return numbers


def draw(args: argparse.Namespace, models: list[page.ModelMaps], unit: str) -> None:
    """Draw all figures into the folder."""
    outputs.make_folder("--figures", args.figures)
    theme = args.theme or "light"
    todo = list(figures_of(args, models, unit))
    for name, rows, one in tqdm(todo, unit=" figures", file=sys.stderr):
        figure = figures.draw(rows, one.queries, one.keys, theme)
        for suffix in (".png", ".pdf"):
            style.save(figure, args.figures / f"{name}{suffix}")


def figures_of(
    args: argparse.Namespace, models: list[page.ModelMaps], unit: str
) -> Iterator[tuple[str, list[figures.Row], Map]]:
    """Name, rows of maps and a map with the tokens of each figure."""
    for place, first in enumerate(models[0].sentences):
        begin = f"sentence{first.number + 1}"
        for number, model in enumerate(models, start=1):
            for kind, one in model.sentences[place].units[unit].items():
                branched = any(len(layer.heads) > 1 for layer in one.layers)
                arrange = figures.branches_of_layers if branched else figures.heads_of_layers
                which = f".model{number}" if len(models) > 1 else ""
                yield f"{begin}.{kind}{which}", arrange(one), one
        compared = [
            (model.name, one)
            for model in models
            if (one := model.sentences[place].units[unit].get(ENCODER))
        ]
        if len(compared) > 1:
            layer = args.layer or 1
            rows = [
                figures.branches(one, layer - 1, f"{name}\nlayer {layer}") for name, one in compared
            ]
            yield f"{begin}.compare", rows, compared[0][1]


def as_dict(models: list[page.ModelMaps], unit: str) -> dict:
    """All weights, for JSON: ``[branches][heads][queries][keys]`` of each layer."""
    return {
        "unit": unit,
        "models": [
            {
                "name": model.name,
                "description": model.description,
                "sentences": [
                    {
                        "sentence": one.number + 1,
                        "source": one.source,
                        "target": one.target,
                        "maps": {kind: map_as_dict(m) for kind, m in one.units[unit].items()},
                    }
                    for one in model.sentences
                ],
            }
            for model in models
        ],
    }


def map_as_dict(one: Map) -> dict:
    """A map, for JSON."""
    return {
        "queries": one.queries,
        "keys": one.keys,
        "layers": [
            {
                "layer": layer.number,
                "branches": layer.branches,
                "heads": layer.heads,
                "weights": weights.astype(float).round(6).tolist(),
            }
            for layer, weights in zip(one.layers, one.weights, strict=True)
        ],
    }


COLUMNS = (
    *("model", "sentence", "kind", "layer", "branch", "head", "pattern"),
    *("query", "key", "query_token", "key_token", "weight"),
)


def as_csv(models: list[page.ModelMaps], unit: str) -> str:
    """Every weight that the patterns allow; layers, heads, queries and keys count from 1."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for model in models:
        for sentence in model.sentences:
            for kind, one in sentence.units[unit].items():
                for layer, weights, allowed in zip(
                    one.layers, one.weights, one.allowed, strict=True
                ):
                    for branch, head, i, j in zip(*allowed.nonzero(), strict=True):
                        writer.writerow(
                            [
                                *(model.name, sentence.number + 1, kind, layer.number),
                                *(layer.branches[branch], head + 1, layer.heads[branch][head]),
                                *(i + 1, j + 1, one.queries[i], one.keys[j]),
                                f"{weights[branch, head, i, j]:.6f}",
                            ]
                        )
    return text.getvalue()
