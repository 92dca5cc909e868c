r"""Align training text with eflomal, and write alignment files for fairseq.

  fairseq-hybrid align-training --source-lang de --target-lang en --subwords subword-nmt \
      --trainpref bpe/train --validpref bpe/valid
  fairseq-preprocess … --trainpref bpe/train --validpref bpe/valid --align-suffix align
  fairseq-train … --load-alignments …

It reads bpe/train.de and bpe/train.en and writes bpe/train.align, likewise for the other parts:
i-j, source and target subword, from 0, one line per sentence.  All parts are aligned together, as
words; every subword of a source word is linked to every subword of its target words.  eflomal
(Oestling & Tiedemann 2016) cannot be seeded: two runs differ in some links.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ...errors import UserError
from ..corpora.link_files import Links, write_pharaoh
from ..corpora.training_links import (
    LONGEST,
    SYMMETRISATIONS,
    Bitext,
    align_words,
    read_bitext,
    symmetrise,
)
from ..corpora.words import SUBWORDS
from ..files.writing import check_outputs, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--source-lang", required=True, metavar="LANG")
    add("--target-lang", required=True, metavar="LANG")
    for part in ("train", "valid", "test"):
        text = f"{part} text: PREFIX.LANG of both languages"
        add(f"--{part}pref", metavar="PREFIX", help=text)
    add("--subwords", required=True, choices=SUBWORDS, help="how the text's words are split")
    text = "write PREFIX.SUFFIX; default align"
    add("--align-suffix", default="align", metavar="SUFFIX", help=text)
    text = "write links between words to PREFIX.SUFFIX too"
    add("--word-suffix", metavar="SUFFIX", help=text)
    default = "grow-diag-final-and"
    text = f"{', '.join(SYMMETRISATIONS)}; default {default}"
    add("--symmetrise", choices=SYMMETRISATIONS, default=default, metavar="HOW", help=text)


def run(args: argparse.Namespace) -> None:
    prefixes = list(filter(None, (args.trainpref, args.validpref, args.testpref)))
    if not prefixes:
        raise UserError("give text to align: --trainpref, --validpref, --testpref")
    if len(set(prefixes)) < len(prefixes):
        raise UserError("--trainpref, --validpref and --testpref must differ")
    languages = (args.source_lang, args.target_lang)
    files = {prefix: [Path(f"{prefix}.{lang}") for lang in languages] for prefix in prefixes}
    suffixes = {"--align-suffix": args.align_suffix, "--word-suffix": args.word_suffix}
    outputs = {
        f"{flag} {suffix} ({prefix})": Path(f"{prefix}.{suffix}")
        for prefix in prefixes
        for flag, suffix in suffixes.items()
        if suffix
    }
    check_outputs(outputs, [path for pair in files.values() for path in pair])
    parts = {
        prefix: read_bitext(source, target, args.subwords)
        for prefix, (source, target) in files.items()
    }
    words = (
        [sentence.words for part in parts.values() for sentence in part.source],
        [sentence.words for part in parts.values() for sentence in part.target],
    )
    warn_of_long(parts)
    say(f"aligning {len(words[0]):,} sentence pairs in both directions")
    directions = align_words(*words)
    links = (symmetrise(*pair, args.symmetrise) for pair in zip(*directions, strict=True))
    for prefix, part in parts.items():
        write(args, prefix, part, [next(links) for _ in part.source])


def warn_of_long(parts: dict[str, Bitext]) -> None:
    for prefix, part in parts.items():
        long = [
            number
            for number, pair in enumerate(zip(part.source, part.target, strict=True), start=1)
            if max(len(side.words) for side in pair) > LONGEST
        ]
        if long:
            print(
                f"warning: {prefix}: {len(long):,} sentences have more than {LONGEST:,} words; "
                f"eflomal gives them no links (the first is in line {long[0]})",
                file=sys.stderr,
            )


def write(args: argparse.Namespace, prefix: str, part: Bitext, links: list[Links]) -> None:
    path = Path(f"{prefix}.{args.align_suffix}")
    write_pharaoh(path, part.expand(links))
    count, unaligned = sum(map(len, links)), sum(not of_sentence for of_sentence in links)
    say(
        f"{path}: {len(links):,} sentences, {count:,} links between words, {unaligned:,} sentences "
        "without any"
    )
    if args.word_suffix:
        write_pharaoh(Path(f"{prefix}.{args.word_suffix}"), links)
