"""Make data that fairseq trains on, from a corpus or your own text.

  fairseq-hybrid prepare iwslt14.de-en.fairseq --output data/iwslt14
  fairseq-hybrid prepare own --text my-text --output data/mine
  fairseq-hybrid prepare iwslt14.de-en.mma --text x.de --text x.en --output data/mine
  fairseq-hybrid prepare --like models/mma --text my-text --output data/mine

A recipe (configs/corpora/NAME.yaml) says what is downloaded and how it is cleaned, tokenised
and split into subwords.  --text takes your text instead, and treats it as the recipe says.  Give a
folder with train, valid and test (train.de, train.en, ...), or one pair of files that differ only
in their languages (x.de, x.en), which is then split.  Files may be .gz.

Hand-aligned sentences (gold.de, gold.en, gold.align, gold.yaml; docs/alignment.md) are prepared
too.  The result has raw/ (text; the references are raw/test.LANGUAGE), tokenised/, subwords/, bin/
(for fairseq-train) and manifest.json.  A second run makes only what is missing or outdated.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ...errors import UserError
from ..files.processes import stop_at_signals
from ..files.yaml_files import CONFIGS
from .flags import add_text, positive


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("recipe", nargs="?", metavar="RECIPE", help="name of a recipe, or a .yaml file")
    text = "prepare your text with the tokenisers, subwords and dictionaries of a trained model"
    add("--like", type=Path, metavar="RUN|MODEL", help=text)
    add("--output", required=True, type=Path, metavar="DIR")
    text = "folder of archives; those in it are not downloaded (OUTPUT/downloads)"
    add("--downloads", type=Path, metavar="DIR", help=text)
    text = "folder with corpora/ (%(default)s)"
    add("--configs", type=Path, default=CONFIGS, metavar="DIR", help=text)
    add("--workers", type=positive, metavar="N", help="processes (one per core)")
    add_text(parser)
    add("--pairs", type=positive, metavar="N", help="train on N pairs, the same ones each time")
    text = "number of merges or subwords, instead of the recipe's"
    add("--subword-size", type=positive, metavar="N", help=text)
    text = "also align the words of the training text with eflomal; data in OUTPUT/aligned"
    add("--alignments", action="store_true", help=text)


def run(args: argparse.Namespace) -> None:
    from ..corpora import load_corpus, own_corpus
    from ..corpora.definition import with_options
    from ..corpora.pipeline import prepare
    from ..models.trained import corpus_like, find_model

    if args.recipe and args.like:
        raise UserError(f"--like has the model's recipe; leave out {args.recipe}, or --like")
    if not (args.recipe or args.like):
        raise UserError("name a recipe; or a model, by --like")
    corpus = load_corpus(args.recipe or "own", args.configs)
    if args.like:
        if not args.text or args.source_lang or args.target_lang or args.subword_size:
            raise UserError("--like takes your text, --text, and all else from the model")
        corpus = corpus_like(find_model(args.like), corpus, args.text)
    elif args.text:
        corpus = own_corpus(corpus, args.text, args.source_lang, args.target_lang)
    elif args.source_lang or args.target_lang:
        raise UserError("--source-lang and --target-lang need --text; a recipe has its direction")
    corpus = with_options(corpus, args.pairs, args.subword_size)
    stop_at_signals()  # so that partial output is removed and child processes end
    output = args.output
    manifest = prepare(
        corpus, output, downloads=args.downloads, workers=args.workers, alignments=args.alignments
    )
    print(f"{corpus.title}, {corpus.source} to {corpus.target}: {manifest.pairs}")
    if manifest.gold:
        print(f"hand-aligned: {manifest.gold['sentences']:,} sentences, in {output / 'gold'}")
    if args.alignments:
        print(f"data for fairseq --load-alignments: {output / 'aligned'}")
    print(f"data for fairseq: {output / 'bin'}; details: {output / 'manifest.json'}")
