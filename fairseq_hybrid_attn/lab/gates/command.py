"""Gates of a model: by layer and branch, by part of speech, by window size.

  fairseq-hybrid gates data-bin --path model.pt --gen-subset valid --subwords subword-nmt
  fairseq-hybrid gates data-bin --path model.pt --gen-subset valid --subwords subword-nmt \\
      --tagger de --write-tags valid.tags --figure gates.pdf --json gates.json
  fairseq-hybrid gates data-bin --path window3.pt window5.pt window7.pt --bleu 27.9 27.7 27.6 \\
      --gen-subset valid --subwords subword-nmt --figure figure2.pdf

Of transformer_hybrid_gate, the gate is the share of the local branch (0 = global attention alone,
1 = local attention alone): its mean for each layer (Fig. 3 of that paper), and, of several
models, against their windows (Fig. 2).  Of transformer_hysan with gated sum, it is the mean of each
branch's squeeze gate, in encoder and decoder.

By part of speech (Fig. 4), a word of several subwords counts as their mean.  Tags of the source's
words come from a file, a line for each sentence with a tag for each word, whatever the tagset; or
from a tagger for German, English, Japanese or Chinese, in the universal tagset of the paper's
figure.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tabulate import tabulate
from tqdm import tqdm

from ...errors import UserError
from ..arguments import models as model_args
from ..arguments import outputs
from ..files.writing import atomic_write
from ..inference.attentions import DECODER, ENCODER
from ..inference.sentences import Sentences
from ..text.words import text_of, words_of
from . import figure as figures
from . import tags
from .measure import Gates


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    model_args.add_models(parser)
    model_args.add_sentences(parser)
    model_args.add_selection(parser)
    add_tags(parser)
    parser.add_argument(
        "--bleu", nargs="+", type=float, metavar="X", help="of each model, for the figure"
    )
    outputs.add_outputs(parser)


def add_tags(parser: argparse.ArgumentParser) -> None:
    """Arguments for parts of speech."""
    group = parser.add_argument_group("parts of speech of the source's words")
    group.add_argument("--tags", type=Path, metavar="FILE", help="a line for each sentence")
    group.add_argument(
        "--tagger", choices=tuple(tags.TAGGERS), help="or: let a tagger for this language say"
    )
    group.add_argument(
        "--write-tags", type=Path, metavar="FILE", help="what the tagger said, for --tags"
    )


def run(args: argparse.Namespace) -> None:
    """Measure, print, and write.

    Raises:
        UserError: if arguments or files do not fit together, or a file cannot be read or
            written.
    """
    check_arguments(args)
    models = []
    known: list[list[str]] | None = None  # tags; the words are the same for all models
    for number, loaded in enumerate(model_args.load(args)):
        if known is None:
            known = tags_of(args, loaded.sentences)
        gates = measure(args, loaded, known)
        models.append(figures.of(loaded.name, gates, args.bleu[number] if args.bleu else None))
    for model in models:
        print(model.name)
        print(table(model))
        print()
    outputs.write(
        args,
        {"tags": source_of_tags(args), "models": [vars(model) for model in models]},
        rows_of(models),
        lambda theme: figures.draw(models, theme),
    )


def check_arguments(args: argparse.Namespace) -> None:
    """Refuse arguments that do not go together.

    Raises:
        UserError: naming the flag and the way out.
    """
    model_args.check(args)
    inputs = [path for path in (*args.path, args.source, args.target, args.tags) if path]
    check_tags(args)
    outputs.check(args, inputs, {"--write-tags": args.write_tags})
    if args.bleu and len(args.bleu) != len(args.path):
        raise UserError(f"--bleu gives {len(args.bleu)} numbers for {len(args.path)} models")


def check_tags(args: argparse.Namespace) -> None:
    """The same for parts of speech.

    Raises:
        UserError: likewise.
    """
    if args.tags and args.tagger:
        raise UserError("give one of --tags FILE and --tagger LANGUAGE")
    if args.write_tags and not args.tagger:
        raise UserError("--write-tags is for what --tagger LANGUAGE says; give both")


def source_of_tags(args: argparse.Namespace) -> str | None:
    """Where the tags are from, for JSON."""
    return str(args.tags) if args.tags else args.tagger and f"tagger: {args.tagger}"


def tags_of(args: argparse.Namespace, sentences: Sentences) -> list[list[str]] | None:
    """The tags of all words of the source; None if they are not wanted.

    Raises:
        UserError: if they do not fit, or there is no tagger.
    """
    if not (args.tags or args.tagger):
        return None
    words = [
        [text_of(word, pieces, args.subwords) for word in words_of(pieces, args.subwords)]
        for pieces in sentences.source
    ]
    if args.tags:
        return tags.read_tags(args.tags, words)
    with tqdm(total=len(words), unit=" tagged", file=sys.stderr, mininterval=1.0) as bar:
        found = tags.tag_all(args.tagger, words, bar.update)
    if args.write_tags:
        with atomic_write(args.write_tags) as file:
            file.writelines(f"{' '.join(line)}\n".encode() for line in found)
    return found


def measure(
    args: argparse.Namespace, loaded: model_args.Loaded, known: list[list[str]] | None
) -> Gates:
    """Of one model.

    Raises:
        UserError: if it has no gates.
    """
    attentions = model_args.attentions_of(loaded, [ENCODER, DECODER])
    gates = Gates(attentions.layers)
    if not gates.layers:
        raise UserError(
            f"--path {loaded.path} ({loaded.description}) has no gates; transformer_hybrid_gate "
            "has them, and transformer_hysan with --branch-fusion gated-sum"
        )
    use = gates.use(loaded.sentences, args.subwords, known)
    model_args.look(args, loaded, attentions, model_args.wanted(args, loaded), use)
    return gates


def table(model: figures.ModelGates) -> str:
    """Means by layer, branch and head; then by part of speech."""
    headings, cells = cells_of_gates(model)
    text = tabulate(cells, headings, floatfmt=".3f")
    if model.share is not None:
        text += f"\nall layers: {model.share:.3f}, window {model.window}"
    if model.tag_rows:
        headings, cells = cells_of_tags(model)
        text += f"\n\n{tabulate(cells, headings, floatfmt='.3f')}"
    return text


def cells_of_gates(model: figures.ModelGates) -> tuple[list[str], list[list]]:
    """Headings and rows: means by layer, branch and head."""
    return ["kind", "layer", "gate of", "head", "mean", "deviation"], [
        [row["kind"], row["layer"], row["branch"], row["head"] or "all", *_numbers(row)]
        for row in model.rows
    ]


def cells_of_tags(model: figures.ModelGates) -> tuple[list[str], list[list]]:
    """Headings and rows: means by part of speech."""
    return ["layer", "gate of", "tag", "words", "mean", "deviation"], [
        [row["layer"], row["branch"], row["tag"], row["words"], *_numbers(row)]
        for row in model.tag_rows
    ]


def _numbers(row: dict) -> list[float]:
    return [row["mean"], row["deviation"]]


def rows_of(models: list[figures.ModelGates]) -> list[dict]:
    """For CSV: means over positions have no tag, means over words of a part of speech have one."""
    rows = []
    for model in models:
        for row in (*model.rows, *model.tag_rows):
            about = {key: row[key] for key in ("kind", "layer", "gate", "branch", "head")}
            count = row["words"] if "tag" in row else row["positions"]
            rows.append(
                {
                    **{"model": model.name, "window": model.window, **about},
                    **{"tag": row.get("tag"), "count": count},
                    **{"mean": row["mean"], "deviation": row["deviation"]},
                }
            )
    return rows
