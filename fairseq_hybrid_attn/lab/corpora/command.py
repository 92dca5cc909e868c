"""Make of a corpus, or of your own text, data that fairseq trains on.

  fairseq-hybrid prepare iwslt14.de-en.fairseq --output data/iwslt14
  fairseq-hybrid prepare own --own my-text --output data/mine
  fairseq-hybrid prepare iwslt14.de-en.mma --own x.de x.en --output data/mine

A recipe (configs/corpora/NAME.yaml) says what is downloaded and how it is cleaned, tokenised
and split into subwords.  --own takes your own text instead and keeps the recipe's treatment: a
folder with train, valid and test (train.de, train.en, ...) or one pair of files that differ in
their languages (x.de, x.en), which is then split; files may be .gz.

Hand-aligned sentences (gold.de, gold.en, gold.align, gold.yaml; docs/alignment.md) are prepared as
well.  The result has raw/ (text; the references are raw/test.LANGUAGE), tokenised/, subwords/, bin/
(for fairseq-train) and manifest.json.  Run again, it makes what is missing or no longer fits,
and nothing else.
"""

from __future__ import annotations

import argparse
import signal
from pathlib import Path

from ...errors import UserError

CONFIGS = Path(__file__).resolve().parents[3] / "configs"

TERMINATED = 128 + signal.SIGTERM


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("recipe", metavar="RECIPE", help="name of a recipe, or a .yaml file")
    parser.add_argument("--output", required=True, type=Path, metavar="DIR")
    parser.add_argument(
        "--downloads",
        type=Path,
        metavar="DIR",
        help="where archives are, or go; what is there is not downloaded (OUTPUT/downloads)",
    )
    parser.add_argument(
        "--configs", type=Path, default=CONFIGS, metavar="DIR", help="has corpora/ (%(default)s)"
    )
    parser.add_argument("--workers", type=int, metavar="N", help="processes (one a core)")
    parser.add_argument(
        "--own", type=Path, nargs="+", metavar="DIR|FILE", help="your text: a folder, or two files"
    )
    parser.add_argument("--source-lang", metavar="L", help="of your text: translate from this")
    parser.add_argument("--target-lang", metavar="L", help="of your text: translate to this")
    parser.add_argument(
        "--pairs", type=int, metavar="N", help="train on N pairs, chosen the same way each time"
    )
    parser.add_argument(
        "--subword-size", type=int, metavar="N", help="merges or subwords, if not the recipe's"
    )
    parser.add_argument(
        "--alignments",
        action="store_true",
        help="align the words of the training text as well, by eflomal: data in OUTPUT/aligned",
    )


def run(args: argparse.Namespace) -> None:
    """Prepare, and say what there is.

    Raises:
        UserError: if the arguments do not fit together, or the corpus cannot be prepared.
    """
    from . import load_corpus, own_corpus, prepare
    from .definition import PARTS, with_options

    if args.workers is not None and args.workers < 1:
        raise UserError(f"--workers {args.workers}: use 1 or more")
    corpus = load_corpus(args.recipe, args.configs)
    if args.own:
        corpus = own_corpus(
            corpus,
            own_text(args.own),
            source_lang=args.source_lang,
            target_lang=args.target_lang,
        )
    else:
        check_without_own(args)
    corpus = with_options(corpus, args.pairs, args.subword_size, exact=True)
    signal.signal(signal.SIGTERM, _end)
    manifest = prepare(
        corpus, args.output, args.downloads, args.workers, alignments=args.alignments
    )
    counts = ", ".join(f"{part} {manifest.counts[part]:,}" for part in PARTS)
    if manifest.tests:
        counts += f" ({', '.join(f'{name} {count:,}' for name, count in manifest.tests.items())})"
    print(f"{corpus.title}, {corpus.source} to {corpus.target}: {counts}")
    for part, reasons in manifest.dropped.items():
        listed = ", ".join(f"{reason} {count:,}" for reason, count in reasons.items())
        print(f"not used of {part}: {listed}")
    if manifest.gold:
        print(f"hand-aligned: {manifest.gold['sentences']:,} sentences, in {args.output / 'gold'}")
    if args.alignments:
        print(f"data for fairseq --load-alignments: {args.output / 'aligned'}")
    print(f"data for fairseq: {args.output / 'bin'}; all about it: {args.output / 'manifest.json'}")


def own_text(paths: list[Path]) -> Path | list[Path]:
    """One folder, or two files.

    Raises:
        UserError: if it is neither.
    """
    if len(paths) == 1:
        return paths[0]
    if len(paths) == 2 and not any(path.is_dir() for path in paths):
        return paths
    raise UserError("--own takes one folder, or the two files of a parallel text")


def check_without_own(args: argparse.Namespace) -> None:
    """Refuse what needs text of one's own.

    Raises:
        UserError: naming the flag.
    """
    for flag, value in (("--source-lang", args.source_lang), ("--target-lang", args.target_lang)):
        if value:
            raise UserError(f"{flag} goes with --own; a recipe has its direction")


def _end(number: int, frame: object) -> None:
    """Leave by an exception, so that what was half made is removed and child processes end."""
    raise SystemExit(TERMINATED)
