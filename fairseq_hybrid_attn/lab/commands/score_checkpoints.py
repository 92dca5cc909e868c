"""Score the checkpoints of a training: translate with each, and write the scores by updates.

  fairseq-hybrid score-checkpoints data-bin model --gen-subset valid --reference valid.en \\
      --target-lang en --subwords subword-nmt --tokenizer moses --output model/curve \\
      --generate "--beam 4 --lenpen 0.6"
  fairseq-hybrid curves mine=train.log mine=model/curve/curve.json --write curves.png

The checkpoints are those of --save-interval-updates (checkpoint_EPOCH_UPDATES.pt); where there
are none, those of epochs (checkpointEPOCH.pt).  Each is translated by fairseq-generate and scored
as `score` does.  The output folder keeps their translations and logs.  A second run translates only
new checkpoints, or all of them if data or translation flags have changed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ...errors import UserError
from ..corpora.tokenisers import KINDS
from ..corpora.words import SUBWORDS
from ..files.text import read_lines
from ..files.writing import make_folder
from ..run.curve import find_checkpoints, score_checkpoints
from ..scores.metrics import METRICS, build_metric, check_tokenizer, language
from .flags import add_device, positive, search_flags


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("data", type=Path, metavar="DATA", help="output folder of fairseq-preprocess")
    add("checkpoints", type=Path, metavar="FOLDER", help="folder with the checkpoints")
    text = "split in DATA (default: valid)"
    add("--gen-subset", default="valid", metavar="NAME", help=text)
    text = "untouched text, one per line"
    add("--reference", required=True, type=Path, metavar="REF", help=text)
    add("--target-lang", required=True, metavar="LANG", help="e.g. en, de, zh")
    add("--subwords", required=True, choices=SUBWORDS, help="kind of subwords in DATA")
    text = "how its words are tokenised"
    add("--tokenizer", required=True, choices=tuple(KINDS), help=text)
    add("--score", choices=tuple(METRICS), default="bleu", help="see `score` (default: bleu)")
    add("--lowercase", action="store_true", help="ignore case; see `score`")
    text = "only checkpoints at multiples of N updates"
    add("--every", type=positive, default=1, metavar="N", help=text)
    text = 'flags of fairseq-generate, such as --generate="--beam 4"'
    add("--generate", type=search_flags, default=[], metavar="FLAGS", help=text)
    add_device(parser)
    text = "folder for curve.json and more"
    add("--output", required=True, type=Path, metavar="DIR", help=text)


def run(args: argparse.Namespace) -> None:
    from ..models.loading import device_of  # here: it imports torch, which takes seconds

    target = language(args.target_lang)
    check_tokenizer(args.score, args.tokenizer)
    metric = build_metric(args.score, target, args.lowercase)
    references = read_lines(args.reference)
    if not args.data.is_dir():
        raise UserError(f"{args.data}: there is no such folder")
    checkpoints = find_checkpoints(args.checkpoints, args.every)
    make_folder("--output", args.output)
    score_checkpoints(
        args.data,
        checkpoints,
        args.output,
        subset=args.gen_subset,
        references=references,
        metric=metric,
        text=(args.subwords, args.tokenizer, target),
        search=args.generate,
        on_cpu=device_of(args.device) == "cpu",
        user_dir=args.user_dir,
    )
    print(f"{args.output / 'curve.json'}: {metric.signature()}")
