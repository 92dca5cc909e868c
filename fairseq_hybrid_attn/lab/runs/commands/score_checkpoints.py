"""Score the checkpoints of a training: translate with each, and write the scores by updates.

  fairseq-hybrid score-checkpoints data-bin model --gen-subset valid --reference valid.en \\
      --target-lang en --subwords subword-nmt --tokenizer moses --output model/curve \\
      --generate "--beam 4 --lenpen 0.6"
  fairseq-hybrid curves mine=train.log mine=model/curve/curve.json --figure curves.png

The checkpoints are those of --save-interval-updates (checkpoint_EPOCH_UPDATES.pt); where there
are none, those of epochs (checkpointEPOCH.pt).  Each is translated by fairseq-generate and scored
as `score` does.  The output folder keeps translations, logs and scores of each; run again, only
new checkpoints are translated, and all of them if they are to be translated otherwise.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
from pathlib import Path

from tqdm import tqdm

from ....errors import UserError
from ....tasks.resumable import numbered_checkpoints
from ...arguments import outputs
from ...arguments.flags import positive
from ...engine.programs import Programs, StepFailed
from ...files.checkpoints import read_checkpoint, updates
from ...files.json_files import read_json, write_json
from ...files.text import read_lines
from ...scoring.generate_output import read_generated
from ...scoring.metrics import METRICS, Metric, build_metric, language
from ...text.tokenisers import KINDS
from ..command_lines import GENERATE_TOKENS, USER_DIR, RunFolder, words

#: Beside a translation: what it was made with.
_MADE_WITH = "made_with.json"

_EPOCH = re.compile(r"checkpoint\d+\.pt")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("data", type=Path, metavar="DATA", help="folder of fairseq-preprocess")
    parser.add_argument("checkpoints", type=Path, metavar="FOLDER", help="with the checkpoints")
    parser.add_argument("--gen-subset", default="valid", metavar="NAME", help="default: valid")
    parser.add_argument(
        "--reference", required=True, type=Path, metavar="REF", help="untouched text, one a line"
    )
    parser.add_argument("--target-lang", required=True, metavar="LANG", help="e.g. en, de, zh")
    parser.add_argument(
        "--subwords",
        required=True,
        choices=("none", "subword-nmt", "sentencepiece"),
        help="what the tokens of DATA are",
    )
    parser.add_argument(
        "--tokenizer", required=True, choices=tuple(KINDS), help="how its words are tokenised"
    )
    parser.add_argument(
        "--score", choices=tuple(METRICS), default="bleu", help="see `score` (default: bleu)"
    )
    parser.add_argument("--lowercase", action="store_true", help="ignore case; see `score`")
    parser.add_argument(
        "--every", type=positive, metavar="N", help="only checkpoints whose updates N divides"
    )
    parser.add_argument(
        "--generate",
        type=shlex.split,
        default=[],
        metavar="FLAGS",
        help='flags of fairseq-generate, as --generate="--beam 4"',
    )
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    parser.add_argument(
        "--output", required=True, type=Path, metavar="DIR", help="folder for curve.json and more"
    )


def run(args: argparse.Namespace) -> None:
    """Translate and score what is not there yet, and write the curve.

    Raises:
        UserError: if there are no checkpoints, or a program fails.
    """
    target = language(args.target_lang)
    metric = build_metric(args.score, target, args.lowercase)
    references = read_lines(args.reference)
    found = checkpoints(args.checkpoints, args.every)
    outputs.make_folder("--output", args.output)
    curve = []
    for at in tqdm(sorted(found), unit=" checkpoints", disable=None):
        score = score_one(args, found[at], RunFolder(args.output / str(at)), metric, references)
        curve.append({"updates": at, "scores": {args.score: score}})
        print(f"update {at:,}: {metric.label} {score['value']:.2f}", flush=True)
    write_json(args.output / "curve.json", {"curve": curve, "curve_set": args.gen_subset})
    print(f"{args.output / 'curve.json'}: {curve[0]['scores'][args.score]['signature']}")


def checkpoints(folder: Path, every: int | None) -> dict[int, Path]:
    """The checkpoints of a folder by their updates.

    Raises:
        UserError: if there are none.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder")
    found = numbered_checkpoints(folder)
    if not found:
        epochs = [path for path in folder.iterdir() if _EPOCH.fullmatch(path.name)]
        found = {updates(read_checkpoint(path)): path for path in epochs}
    if not found:
        raise UserError(
            f"{folder} has no checkpoint_EPOCH_UPDATES.pt and no checkpointEPOCH.pt; train with "
            "--save-interval-updates N"
        )
    chosen = {at: path for at, path in found.items() if not every or at % every == 0}
    if not chosen:
        raise UserError(f"--every {every}: there are updates {', '.join(map(str, sorted(found)))}")
    return chosen


def score_one(
    args: argparse.Namespace, path: Path, point: RunFolder, metric: Metric, references: list[str]
) -> dict:
    """A checkpoint's score and signature: what was kept of it, or anew.

    Raises:
        UserError: if it cannot be translated or scored.
    """
    translated = {
        "command": generate_command(args, path),
        "checkpoint": _state(path),
        "data": [
            [file.name, *_state(file)]
            for file in sorted(args.data.iterdir())
            if file.name.startswith((f"{args.gen_subset}.", "dict."))
        ],
    }
    made_with = {
        **translated,
        "reference": [str(args.reference.resolve()), args.reference.stat().st_mtime_ns],
        "scoring": [args.score, args.target_lang, args.lowercase, args.subwords, args.tokenizer],
    }
    kept = read_json(point.score)
    if kept is not None and kept["made_with"] == made_with:
        return kept["score"]
    # Another score, or the right reference after a wrong one, wants no other translation.
    if read_json(point.translation / _MADE_WITH) != translated:
        translate(path, translated["command"], point)
        write_json(point.translation / _MADE_WITH, translated)
    translations, _ = read_generated(
        point.generated(args.gen_subset),
        *(len(references), args.subwords, args.tokenizer, language(args.target_lang)),
    )
    score = metric.score(translations, references)
    result = {"value": score.value, "signature": score.signature}
    write_json(point.score, {"score": result, "made_with": made_with})
    return result


def _state(path: Path) -> list[int]:
    """Size and time of change, by which a file is told from another of its name."""
    return [path.stat().st_size, path.stat().st_mtime_ns]


def translate(path: Path, command: list[str], point: RunFolder) -> None:
    """Translate with a checkpoint, all or nothing.

    Raises:
        UserError: if fairseq-generate fails.
    """
    unfinished = point.path / "translation.partial"
    for folder in (unfinished, point.translation):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        Programs().run(
            [*command, *words("results-path", unfinished)], dict(os.environ), point.log("translate")
        )
    except StepFailed as error:
        raise UserError(f"{path}: {error}") from None
    unfinished.rename(point.translation)


def generate_command(args: argparse.Namespace, path: Path) -> list[str]:
    """fairseq-generate with a checkpoint."""
    return [
        "fairseq-generate",
        str(args.data.resolve()),
        *words("user-dir", USER_DIR),
        *words("path", path.resolve()),
        *words("gen-subset", args.gen_subset),
        *words("max-tokens", GENERATE_TOKENS["cpu" if args.cpu else "cuda"]),
        # Any other size makes fairseq leave out the last batch, that of the longest sentences.
        *words("required-batch-size-multiple", 1),
        *(("--cpu",) if args.cpu else ()),
        *args.generate,
    ]
