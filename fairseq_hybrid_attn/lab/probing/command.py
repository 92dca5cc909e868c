"""Probing: what a classifier can tell of a sentence from the states of a frozen encoder.

  fairseq-hybrid probe prepared/bin --path model.pt --task-files SentEval/data/probing \\
      --prepared prepared --json probing.json
  fairseq-hybrid probe data-bin --path model.pt --task-files probing --tasks SentLen,WC,BShift \\
      --bpe-codes codes --tokenizer moses --hidden 100 --dropout 0

The ten tasks of SentEval (Conneau et al. 2018), from its files in their published form.  Each
sentence becomes the mean of a layer of the encoder over its tokens; a classifier is trained on that
by SentEval's settings, chosen by its accuracy on the validation part, and tested.  See
docs/probing.md for what they are and what they cost; --hidden 100 --dropout 0 is about a tenth of
the work.

The sentences are given to the model as its training text was.  --prepared takes all about that from
the folder of fairseq-hybrid prepare.  For data made otherwise, say it: the subwords (--bpe-codes,
--sentencepiece or --no-subwords), --tokenizer, --lowercase.  --tokens says what tokeniser the task
files come from; it is undone first.  SentEval's keep to Moses' conventions.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from ...errors import UserError
from ..arguments import models as model_args
from ..arguments import outputs
from ..engine.processes import default_workers
from ..engine.provenance import code, hardware, versions
from ..files.checksums import sha256
from ..files.tabular import Grid
from ..text.tokenisers import KINDS
from . import figure
from .classifier import Settings
from .features import LAST
from .probe import SentenceEncoder, TaskResult, as_dict, groups_of, probe_task, settings_for
from .tasks import GROUPS, TASKS, find_files, read_task, tasks_named
from .text import AS_TRAINED, Treatment, treatment_of

#: More of the subwords unknown than this: the sentences are hardly treated as the training text.
_SUSPICIOUS = 0.02


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    model_args.add_model(parser)
    parser.add_argument(
        "--task-files", required=True, type=Path, metavar="DIR", help="has sentence_length.txt, …"
    )
    parser.add_argument(
        "--tasks", default=",".join(TASKS), metavar="LIST", help="default: %(default)s"
    )
    parser.add_argument("--layer", default="last", help="1 = lowest, last (default); 0: embeddings")
    parser.add_argument(
        "--end-symbol",
        choices=("in", "out"),
        default="in",
        help="is the end symbol a token of the mean? (in)",
    )
    text = parser.add_argument_group("how the model's training text was treated")
    text.add_argument(
        "--tokens",
        choices=(*KINDS, AS_TRAINED),
        default="moses",
        help="what made the task files' tokens (moses); as-trained: what made the training text's",
    )
    source = text.add_mutually_exclusive_group(required=True)
    source.add_argument("--prepared", type=Path, metavar="DIR", help="of fairseq-hybrid prepare")
    source.add_argument("--bpe-codes", type=Path, metavar="FILE", help="of subword-nmt")
    source.add_argument("--sentencepiece", type=Path, metavar="FILE", help="its model")
    source.add_argument("--no-subwords", action="store_true", help="words are not split")
    text.add_argument("--tokenizer", choices=KINDS, help="if not --prepared")
    text.add_argument("--lowercase", action="store_true", help="if not --prepared")
    text.add_argument("--workers", type=int, metavar="N", help="processes (one a core)")
    settings = Settings()
    fits = parser.add_argument_group("classifiers")
    fits.add_argument("--seeds", type=int, default=3, metavar="N", help="seeds 1 to N; %(default)s")
    fits.add_argument(
        "--hidden",
        default=",".join(map(str, settings.hidden)),
        metavar="LIST",
        help="hidden units to choose among; 0: none (%(default)s)",
    )
    fits.add_argument(
        "--dropout",
        default=",".join(f"{rate:g}" for rate in settings.dropout),
        metavar="LIST",
        help="rates to choose among (%(default)s)",
    )
    fits.add_argument(
        "--batch-size", type=int, default=settings.batch_size, metavar="N", help="%(default)s"
    )
    outputs.add_outputs(parser)


def run(args: argparse.Namespace) -> None:
    """Probe, print the accuracies, and write them where they are wanted.

    Raises:
        UserError: if the arguments do not fit together or something cannot be read or written.
    """
    settings, layer = check_arguments(args)
    tasks = tasks_named(args.tasks.split(","))
    paths = find_files(args.task_files, tasks)
    outputs.check(args, [args.path, *paths])
    # All are checked before the work, which takes hours.
    files = [read_task(path, task) for path, task in zip(paths, tasks, strict=True)]
    model, task = model_args.load_one(args)
    device = model_args.device(args)
    encoder = SentenceEncoder(
        model=model.to(device),
        task=task,
        treatment=treatment(args, task),
        layer=layer,
        end_symbol=args.end_symbol == "in",
        max_tokens=args.max_tokens,
        device=device,
        workers=args.workers or default_workers(),
    )
    seeds = range(1, args.seeds + 1)
    results = []
    for file in files:
        with _bar(f"{file.task.name}: sentences", len(file.sentences), "sentence") as bar:
            vectors = encoder.vectors(file, bar.update)
        if vectors.unknown > _SUSPICIOUS:
            print(
                f"warning: {file.path}: the model knows no word for {100 * vectors.unknown:.1f} % "
                "of the subwords; is the text treated as the training text was?",
                file=sys.stderr,
            )
        with _bar(f"{file.task.name}: classifiers", None, "pass") as bar:
            results.append(
                probe_task(vectors, file, settings, seeds, device=device, progress=bar.update)
            )
    print(report(results))
    found = about(args, encoder, settings, results)
    name = model_args.names_of([args.path])[0]
    outputs.write(args, found, rows_of(found), lambda theme: figure.draw({name: found}, theme))


def check_arguments(args: argparse.Namespace) -> tuple[Settings, int]:
    """Refuse arguments that do not go together.

    Returns:
        the classifiers' settings, and the layer.

    Raises:
        UserError: naming the flag and the way out.
    """
    for flag, value in (
        ("--max-tokens", args.max_tokens),
        ("--seeds", args.seeds),
        ("--workers", args.workers),
    ):
        if value is not None and value < 1:
            raise UserError(f"{flag} {value}: use 1 or more")
    if args.prepared:
        if args.tokenizer or args.lowercase:
            raise UserError("--tokenizer and --lowercase are known of --prepared; leave them out")
    elif args.tokens == AS_TRAINED and args.tokenizer:
        raise UserError(f"--tokens {AS_TRAINED} are tokenised; leave --tokenizer out")
    elif args.tokens != AS_TRAINED and not args.tokenizer:
        raise UserError(
            f"--tokenizer: how was the training text tokenised? Give one of {', '.join(KINDS)}, "
            f"or --tokens {AS_TRAINED} if the task files' sentences are tokens of its kind"
        )
    if args.layer != "last" and not args.layer.isdecimal():
        raise UserError(f"--layer {args.layer}: use a number from 0, or last")
    settings = Settings(
        hidden=_numbers("--hidden", args.hidden, int),
        dropout=_numbers("--dropout", args.dropout, float),
        batch_size=args.batch_size,
    )
    return settings, LAST if args.layer == "last" else int(args.layer)


def _numbers(flag: str, text: str, kind: Callable) -> tuple:
    try:
        return tuple(dict.fromkeys(kind(number) for number in text.split(",")))
    except ValueError:
        raise UserError(f"{flag} {text}: use numbers with commas between") from None


def treatment(args: argparse.Namespace, task) -> Treatment:
    """How the sentences become what the model reads.

    Raises:
        UserError: if a file is missing, or does not fit the model.
    """
    language = getattr(getattr(task, "cfg", None), "source_lang", None)
    if language is None:
        raise UserError(f"--path {args.path}: its task translates nothing, so it has no encoder")
    if args.prepared:
        return treatment_of(args.prepared, args.data, language, args.tokens)
    model = args.bpe_codes or args.sentencepiece
    flag = "--bpe-codes" if args.bpe_codes else "--sentencepiece"
    if model and not model.is_file():
        raise UserError(f"{flag} {model}: there is no such file")
    kind = "subword-nmt" if args.bpe_codes else "sentencepiece" if args.sentencepiece else None
    return Treatment(language, args.tokens, args.tokenizer or "none", args.lowercase, kind, model)


def _bar(title: str, total: int | None, unit: str) -> tqdm:
    return tqdm(total=total, desc=title, unit=unit, file=sys.stderr, leave=False, disable=None)


def report(results: Sequence[TaskResult]) -> str:
    """The accuracies, for people: of each task, and of each group that is whole."""
    several = len(results[0].fits) > 1
    rows = [
        [
            task.name,
            task.group,
            *_accuracy(result.as_dict(), several),
            f"{result.file.majority:.2f}",
        ]
        for result in results
        for task in (result.file.task,)
    ]
    headings = ["task", "group", "accuracy", *(["±"] * several), "commonest class"]
    groups = groups_of(results)
    lines = [Grid(headings, rows, left=1).terminal()]
    if groups:
        rows = [[group, *_accuracy(groups[group], several)] for group in GROUPS if group in groups]
        lines += ["", Grid(["group", "accuracy", *(["±"] * several)], rows, left=1).terminal()]
    lines += ["", "Accuracy on the test part in per cent; commonest class: by always saying that."]
    if several:
        lines.append(f"Mean and standard deviation of {len(results[0].fits)} seeds.")
    return "\n".join(lines)


def rows_of(found: dict) -> list[dict]:
    """For CSV: a task or a whole group each.

    Args:
        found: of :func:`~..analysis.probing.probe.as_dict`.
    """
    tasks = [(name, TASKS[name].group, one) for name, one in found["tasks"].items()]
    groups = [(None, name, one) for name, one in found["groups"].items()]
    return [
        {
            "task": name,
            "group": group,
            "accuracy": one["accuracy"],
            "deviation": one["deviation"],
            "seeds": len(one["seeds"]),
            "majority": one.get("majority"),
            "classes": one.get("classes"),
            "unknown_subwords": one.get("unknown_subwords"),
        }
        for name, group, one in (*tasks, *groups)
    ]


def _accuracy(summary: dict, several: bool) -> list[str]:
    cells = [f"{summary['accuracy']:.2f}"]
    return [*cells, f"{summary['deviation']:.2f}"] if several else cells


def about(
    args: argparse.Namespace,
    encoder: SentenceEncoder,
    settings: Settings,
    results: Sequence[TaskResult],
) -> dict:
    """Everything, for JSON."""
    treated = encoder.treatment
    return {
        **as_dict(results),
        "model": str(args.path),
        "model_sha256": sha256(args.path),
        "layer": args.layer,
        "end_symbol": args.end_symbol,
        "text": {
            **{key: value for key, value in asdict(treated).items() if key != "model"},
            "model_sha256": sha256(treated.model) if treated.model else None,
        },
        "classifier": {
            **asdict(settings),
            "linear_tasks": [
                result.file.task.name
                for result in results
                if settings_for(result.file, settings).hidden == (0,)
            ],
        },
        "versions": versions(),
        "code": code(),
        "hardware": hardware(),
    }
