"""Score the checkpoints of a training: translate with each, and write the scores by updates.

  fairseq-hybrid score-checkpoints data-bin model --gen-subset valid --reference valid.en \\
      --target-lang en --subwords subword-nmt --tokenizer moses --output model/curve \\
      --generate "--beam 4 --lenpen 0.6"
  fairseq-hybrid curves mine=train.log mine=model/curve/curve.json --figure curves.png

The checkpoints are those of --save-interval-updates (checkpoint_EPOCH_UPDATES.pt); where there
are none, those of epochs (checkpointEPOCH.pt).  Each is translated by fairseq-generate and scored
as `score` does.  The output folder keeps translations, logs and scores of each.  A second run
translates only new checkpoints, or all of them if data or translation flags have changed.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from tqdm import tqdm

from ...errors import UserError
from ...tasks.resumable import numbered_checkpoints
from ..cli.flags import positive, search_flags
from ..corpora.tokenisers import KINDS
from ..files.checkpoints import read_checkpoint, updates
from ..files.checksums import digest
from ..files.json_files import write_json
from ..files.processes import ProgramFailed, run_program
from ..files.stages import Stage, Stages
from ..files.text import read_lines
from ..look import outputs
from ..runs.fairseq_commands import GENERATE_TOKENS, USER_DIR, WHOLE_SET, RunFolder, flags
from ..scores.generate_output import read_generated
from ..scores.metrics import METRICS, Metric, build_metric, check_tokenizer, language

_EPOCH = re.compile(r"checkpoint\d+\.pt")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "data", type=Path, metavar="DATA", help="output folder of fairseq-preprocess"
    )
    parser.add_argument(
        "checkpoints", type=Path, metavar="FOLDER", help="folder with the checkpoints"
    )
    parser.add_argument(
        "--gen-subset", default="valid", metavar="NAME", help="split in DATA (default: valid)"
    )
    parser.add_argument(
        "--reference", required=True, type=Path, metavar="REF", help="untouched text, one per line"
    )
    parser.add_argument("--target-lang", required=True, metavar="LANG", help="e.g. en, de, zh")
    parser.add_argument(
        "--subwords",
        required=True,
        choices=("none", "subword-nmt", "sentencepiece"),
        help="kind of subwords in DATA",
    )
    parser.add_argument(
        "--tokenizer", required=True, choices=tuple(KINDS), help="how its words are tokenised"
    )
    parser.add_argument(
        "--score", choices=tuple(METRICS), default="bleu", help="see `score` (default: bleu)"
    )
    parser.add_argument("--lowercase", action="store_true", help="ignore case; see `score`")
    parser.add_argument(
        "--every", type=positive, metavar="N", help="only checkpoints at multiples of N updates"
    )
    parser.add_argument(
        "--generate",
        type=search_flags,
        default=[],
        metavar="FLAGS",
        help='flags of fairseq-generate, such as --generate="--beam 4"',
    )
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    parser.add_argument(
        "--output", required=True, type=Path, metavar="DIR", help="folder for curve.json and more"
    )


def run(args: argparse.Namespace) -> None:
    """Translate and score what is missing, and write the curve."""
    target = language(args.target_lang)
    check_tokenizer(args.score, args.tokenizer)
    metric = build_metric(args.score, target, args.lowercase)
    references = read_lines(args.reference)
    if not args.data.is_dir():
        raise UserError(f"{args.data}: there is no such folder")
    found = checkpoints(args.checkpoints, args.every)
    outputs.make_folder("--output", args.output)
    curve = []
    for at in tqdm(sorted(found), unit=" checkpoints", disable=None):
        point = RunFolder(args.output / str(at))
        score = score_one(args, found[at], point, metric, references)
        curve.append({"updates": at, "scores": {args.score: score}})
        print(f"update {at:,}: {metric.label} {score['value']:.2f}", flush=True)
    write_json(args.output / "curve.json", {"curve": curve, "curve_set": args.gen_subset})
    print(f"{args.output / 'curve.json'}: {curve[0]['scores'][args.score]['signature']}")


def checkpoints(folder: Path, every: int | None) -> dict[int, Path]:
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
    """A checkpoint's score and signature, kept from an earlier run or computed."""
    command = generate_command(args, path)

    def translate(partial: Path) -> None:
        results, log = RunFolder(partial).translation, point.log("translate")
        try:
            run_program([*command, *flags(results_path=results)], log)
        except ProgramFailed as error:
            raise UserError(f"{path}: {error}\n   Full log: {log}") from None

    def score(_: Path) -> dict:
        translations, _ = read_generated(
            point.generated(args.gen_subset),
            *(len(references), args.subwords, args.tokenizer, language(args.target_lang)),
        )
        score = metric.score(translations, references)
        result = {"value": score.value, "signature": score.signature}
        write_json(point.score, {"score": result})
        return result

    data = [
        [file.name, *_state(file)]
        for file in sorted(args.data.iterdir())
        if file.name.startswith((f"{args.gen_subset}.", "dict."))
    ]
    # Another score, or another reference, does not need a new translation.
    key = digest([command, _state(path), data])
    translated = Stage("translate", "translating", (point.translation.name,), key, translate)
    key = digest(
        [
            *(str(args.reference.resolve()), _state(args.reference)),
            *(args.score, args.target_lang, args.lowercase, args.subwords, args.tokenizer),
        ]
    )
    scored = Stage("score", "scoring", (point.score.name,), key, score, [translated], in_place=True)
    point.path.mkdir(exist_ok=True)
    shop = Stages(point.path, say=lambda _: None)
    shop.clear()
    shop.ensure(translated)
    return shop.ensure(scored)


def _state(path: Path) -> list[int]:
    """Size and modification time, which distinguish versions of a file."""
    return [path.stat().st_size, path.stat().st_mtime_ns]


def generate_command(args: argparse.Namespace, path: Path) -> list[str]:
    return [
        *("fairseq-generate", str(args.data.resolve())),
        *flags(user_dir=args.user_dir or USER_DIR, path=path.resolve(), gen_subset=args.gen_subset),
        *flags(WHOLE_SET, max_tokens=GENERATE_TOKENS["cpu" if args.cpu else "cuda"]),
        *flags(cpu=args.cpu),
        *args.generate,
    ]
