"""Show the mean gates of a model by layer, branch, part of speech and window size.

  fairseq-hybrid gates data-bin --path model.pt --gen-subset valid --subwords subword-nmt
  fairseq-hybrid gates data-bin --path model.pt --gen-subset valid --subwords subword-nmt \\
      --tagger de --write-tags valid.tags --figure gates.pdf --json gates.json
  fairseq-hybrid gates data-bin --path window3.pt window5.pt window7.pt --gen-subset valid \\
      --subwords subword-nmt --figure figure2.pdf

The gate of transformer_hybrid_gate is the share of the local branch (0 = only global attention,
1 = only local attention).  For transformer_hysan with gated sum, it is the mean of each branch's
squeeze gate.  A fusion of your own says itself what its gates are.  The interval of a mean is 95 %,
over sentences; half of it is shown.  docs/analysis.md says more, also of tags.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from ...errors import UserError
from ..corpora.words import text_of, words_of
from ..figures import outputs
from ..files.tabular import Grid
from ..models import DECODER, ENCODER
from ..models import arguments as model_args
from . import tags

if TYPE_CHECKING:
    from ..models.on_text import Loaded
    from .gates_measure import ModelGates

#: Of a gate's values; the interval is half of 95 %, over sentences.
NUMBERS = ("mean", "deviation", "interval")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    model_args.add_models(parser)
    model_args.add_sentences(parser)
    model_args.add_selection(parser)
    add_tags(parser)
    outputs.add_outputs(parser)


def add_tags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("parts of speech of the source's words")
    group.add_argument("--tags", type=Path, metavar="FILE", help="tags, one line per sentence")
    group.add_argument(
        "--tagger", choices=tuple(tags.TAGGERS), help="or: use the tagger for this language"
    )
    group.add_argument(
        "--write-tags", type=Path, metavar="FILE", help="write the tagger's tags, for --tags"
    )


def run(args: argparse.Namespace) -> None:
    from . import gates_figure  # here and below: these import torch, which takes seconds

    model_args.check_models(args)
    check_tags(args)
    inputs = [*model_args.inputs_of(args), args.tags]
    outputs.check(args, inputs, {"--write-tags": args.write_tags})
    models = []
    known: list[list[str]] | None = None  # tags; the words are the same for all models
    for loaded in model_args.load(args):
        if known is None:
            known = tags_of(args, loaded.sentences.source, args.subwords)
        models.append(measure(loaded, model_args.selected(args, loaded), known))
    for model in models:
        print(model.name)
        print(grid_of_gates(model).terminal())
        if model.share is not None:
            print(f"all layers: {share_of(model)}, {window_of(model)}")
        if model.tag_rows:
            print(f"\n{grid_of_tags(model).terminal()}")
        print()
    outputs.write(
        args,
        {"tags": source_of_tags(args), "models": [vars(model) for model in models]},
        lambda theme: gates_figure.draw(models, theme),
    )


def check_tags(args: argparse.Namespace) -> None:
    if args.tags and args.tagger:
        raise UserError("give one of --tags FILE and --tagger LANGUAGE")
    if args.write_tags and not args.tagger:
        raise UserError("--write-tags needs --tagger LANGUAGE; give both")


def source_of_tags(args: argparse.Namespace) -> str | None:
    """Where the tags are from, for JSON."""
    return str(args.tags) if args.tags else args.tagger and f"tagger: {args.tagger}"


def tags_of(
    args: argparse.Namespace, source: Sequence[list[str]], subwords: str
) -> list[list[str]] | None:
    """The tags of all words of sentences in ``subwords``; None if the arguments name none."""
    if not (args.tags or args.tagger):
        return None
    words = [
        [text_of(word, pieces, subwords) for word in words_of(pieces, subwords)]
        for pieces in source
    ]
    if args.tags:
        return tags.read_tags(args.tags, words)
    bar = tqdm(words, unit=" tagged", file=sys.stderr, mininterval=1.0)
    known = tags.tag_all(args.tagger, bar)
    if args.write_tags:
        text = "".join(f"{' '.join(line)}\n" for line in known)
        outputs.write_text(args.write_tags, text)
    return known


def measure(loaded: Loaded, numbers: list[int], known: list[list[str]] | None) -> ModelGates:
    """The gates of a model over these sentences (from 0); ``known``: tags of all, or None."""
    from .gates_measure import Gates

    attentions = loaded.attentions([ENCODER, DECODER])
    gates = Gates(attentions.layers)
    if not gates.layers:
        raise UserError(
            f"--path {loaded.path} ({loaded.description}) has no gates; transformer_hybrid_gate "
            "has them, transformer_hysan with --branch-fusion gated-sum, and a fusion of your own "
            "if it has a gate_kind"
        )
    loaded.look(attentions, numbers, gates.use(loaded, known))
    return gates.of_model(loaded.name)


def share_of(model: ModelGates) -> str:
    interval = model.share_interval
    return f"{model.share:.3f}" + ("" if interval is None else f" ± {interval:.3f}")


def window_of(model: ModelGates) -> str:
    return "no window" if model.window is None else f"window {model.window}"


def grid_of_gates(model: ModelGates) -> Grid:
    columns = {key: key for key in ("kind", "layer", "gate of", "head", *NUMBERS)}
    columns["gate of"] = "branch"
    return Grid.of([{**row, "head": row["head"] or "all"} for row in model.rows], columns)


def grid_of_tags(model: ModelGates) -> Grid:
    columns = {key: key for key in ("layer", "gate of", "tag", "words", *NUMBERS)}
    return Grid.of(model.tag_rows, {**columns, "gate of": "branch"})
