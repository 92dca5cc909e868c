"""Score the checkpoints of a training: translate with each, and write the scores by updates.

  fairseq-hybrid score-checkpoints data-bin model --gen-subset valid --reference valid.en \\
      --target-lang en --subwords subword-nmt --tokenizer moses --output model/curve \\
      --generate "--beam 4 --lenpen 0.6"
  fairseq-hybrid curves mine=train.log mine=model/curve/curve.json --figure curves.png

The checkpoints are those of --save-interval-updates (checkpoint_EPOCH_UPDATES.pt); where there
are none, those of epochs (checkpointEPOCH.pt).  Each is translated by fairseq-generate and scored
as `score` does.  The output folder keeps their translations and logs.  A second run translates only
new checkpoints, or all of them if data or translation flags have changed.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from tqdm import tqdm

from ...errors import UserError
from ..corpora.tokenisers import KINDS
from ..corpora.words import SUBWORDS
from ..files.checkpoints import read_checkpoint, updates
from ..files.json_files import write_json
from ..files.text import read_lines
from ..files.writing import make_folder, say
from ..run.fairseq_commands import RunFolder
from ..scores.generate_output import read_generated
from ..scores.metrics import METRICS, build_metric, check_tokenizer, language
from .flags import add_device, positive, search_flags

_EPOCH = re.compile(r"checkpoint\d+\.pt")


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
    from ..models.loading import device_of  # here: these import torch, which takes seconds
    from ..report.translating import translated

    target = language(args.target_lang)
    check_tokenizer(args.score, args.tokenizer)
    metric = build_metric(args.score, target, args.lowercase)
    references = read_lines(args.reference)
    if not args.data.is_dir():
        raise UserError(f"{args.data}: there is no such folder")
    paths = checkpoints(args.checkpoints, args.every)
    make_folder("--output", args.output)
    how = {
        "search": args.generate,
        "on_cpu": device_of(args.device) == "cpu",
        "user_dir": args.user_dir,
    }
    curve = []
    for at in tqdm(sorted(paths), unit=" checkpoints", disable=None):
        point = RunFolder(args.output.resolve() / str(at))
        _, output = translated(args.data, paths[at], args.gen_subset, point, **how)
        text = [references], args.subwords, args.tokenizer, target
        score = metric.score(read_generated(output, *text)[0], references)
        stored = {"value": score.value, "signature": score.signature}
        curve.append({"updates": at, "scores": {args.score: stored}})
        say(f"update {at:,}: {metric.label} {score.value:.2f}")
    write_json(args.output / "curve.json", {"curve": curve, "curve_set": args.gen_subset})
    print(f"{args.output / 'curve.json'}: {score.signature}")


def checkpoints(folder: Path, every: int) -> dict[int, Path]:
    from ...tasks.resumable import numbered_checkpoints  # here: it imports torch

    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder")
    paths = numbered_checkpoints(folder)
    if not paths:
        epochs = [path for path in folder.iterdir() if _EPOCH.fullmatch(path.name)]
        paths = {updates(read_checkpoint(path)): path for path in epochs}
    if not paths:
        raise UserError(
            f"{folder} has no checkpoint_EPOCH_UPDATES.pt and no checkpointEPOCH.pt; train with "
            "--save-interval-updates N"
        )
    chosen = {at: path for at, path in paths.items() if at % every == 0}
    if not chosen:
        raise UserError(f"--every {every}: there are updates {', '.join(map(str, sorted(paths)))}")
    return chosen
