"""Probe a frozen encoder: what can a classifier tell about a sentence from its states?

  fairseq-hybrid probe prepared/bin --path model.pt --task-files SentEval/data/probing \\
      --prepared prepared --json probing.json
  fairseq-hybrid probe data-bin --path model.pt --task-files probing --tasks SentLen,WC,BShift \\
      --bpe-codes codes --tokenizer moses --hidden 100 --dropout 0

This runs the ten tasks of SentEval (Conneau et al. 2018) on their published files.  Each sentence
becomes the mean of an encoder layer over its tokens.  A classifier is trained on these
vectors by SentEval's settings, chosen by its accuracy on the validation part, and tested.
docs/probing.md has definitions and costs; --hidden 100 --dropout 0 is about a tenth of the work.

Sentences are treated like the model's training text.  --prepared reads how from the folder of
fairseq-hybrid prepare.  For other data, give the subwords (--bpe-codes, --sentencepiece
or --no-subwords), --tokenizer and --lowercase.  --tokens names the tokeniser of the task files,
whose work is undone first; SentEval's files follow Moses.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from ...errors import UserError
from ..cli.flags import positive
from ..corpora.tokenisers import KINDS
from ..files.checksums import sha256
from ..files.processes import default_workers
from ..files.provenance import code, hardware, versions
from ..look import model_arguments as model_args
from ..look import outputs
from . import probing_figure
from .classifier import ProbeSettings
from .features import LAST
from .probe import SentenceEncoder, TaskResult, as_dict, probe
from .results import grid, records
from .tasks import TASKS, find_files, read_task, tasks_named
from .treatment import AS_TRAINED, SentenceTreatment, treatment_of

#: Share of unknown subwords above which sentences seem to be treated unlike the training text.
_SUSPICIOUS = 0.02


def add_arguments(parser: argparse.ArgumentParser) -> None:
    model_args.add_model(parser)
    add = parser.add_argument
    text = "folder with sentence_length.txt, …"
    add("--task-files", required=True, type=Path, metavar="DIR", help=text)
    add("--tasks", default=",".join(TASKS), metavar="LIST", help="default: %(default)s")
    add("--layer", default="last", help="1 = lowest, last (default), 0: embeddings")
    text = "whether the mean includes the end symbol (default: in)"
    add("--end-symbol", choices=("in", "out"), default="in", help=text)
    group = parser.add_argument_group("preprocessing of the model's training text")
    add = group.add_argument
    text = "tokeniser of the task files (default: moses); as-trained: that of the training text"
    add("--tokens", choices=(*KINDS, AS_TRAINED), default="moses", help=text)
    add("--tokenizer", choices=KINDS, help="unless --prepared is given")
    add("--lowercase", action="store_true", help="unless --prepared is given")
    add = group.add_mutually_exclusive_group(required=True).add_argument
    add("--prepared", type=Path, metavar="DIR", help="folder of fairseq-hybrid prepare")
    add("--bpe-codes", type=Path, metavar="FILE", help="codes of subword-nmt")
    add("--sentencepiece", type=Path, metavar="FILE", help="model of SentencePiece")
    add("--no-subwords", action="store_true", help="words are not split")
    settings = ProbeSettings()
    add = parser.add_argument_group("classifiers").add_argument
    add("--seeds", type=positive, default=3, metavar="N", help="seeds 1 to N (default: 3)")
    text = "hidden units to choose among; 0: none (default: %(default)s)"
    hidden, dropout = (",".join(map(str, some)) for some in (settings.hidden, settings.dropout))
    add("--hidden", default=hidden, metavar="LIST", help=text)
    text = "rates to choose among (default: %(default)s)"
    add("--dropout", default=dropout, metavar="LIST", help=text)
    text, size = "default: %(default)s", settings.batch_size
    add("--batch-size", type=positive, default=size, metavar="N", help=text)
    outputs.add_outputs(parser)


def run(args: argparse.Namespace) -> None:
    settings, layer = check_arguments(args)
    tasks = tasks_named(args.tasks.split(","))
    paths = find_files(args.task_files, tasks)
    outputs.check(args, [args.path, *paths])
    # Check all of them before the work, which takes hours.
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
        workers=default_workers(),
    )
    seeds = range(1, args.seeds + 1)
    results = []
    for file in files:
        with _bar(f"{file.task.name}: sentences", len(file.sentences), "sentence") as bar:
            vectors = encoder.vectors(file, bar.update)
        if vectors.unknown > _SUSPICIOUS:
            print(
                f"warning: {file.path}: the model does not know {100 * vectors.unknown:.1f} % of "
                "the subwords; is the text treated like the training text?",
                file=sys.stderr,
            )
        with _bar(f"{file.task.name}: classifiers", None, "pass") as bar:
            results.append(
                probe(vectors, file, settings, seeds, device=device, progress=bar.update)
            )
    probed = about(args, encoder, settings, results)
    print(grid({"accuracy": probed}).terminal())
    print("\nAccuracy on the test part in per cent; most common class: when always chosen.")
    if args.seeds > 1:
        print(f"Mean and standard deviation of {args.seeds} seeds.")
    name = model_args.names_of([args.path])[0]
    outputs.write(
        args, probed, records(probed), lambda theme: probing_figure.draw({name: probed}, theme)
    )


def check_arguments(args: argparse.Namespace) -> tuple[ProbeSettings, int]:
    """Refuse arguments that do not go together; return the classifiers' settings and the layer."""
    if args.max_tokens < 1:
        raise UserError(f"--max-tokens {args.max_tokens}: use 1 or more")
    if args.prepared:
        if args.tokenizer or args.lowercase:
            raise UserError("--prepared knows --tokenizer and --lowercase; leave them out")
    elif args.tokens == AS_TRAINED and args.tokenizer:
        raise UserError(f"--tokens {AS_TRAINED} are tokenised; leave --tokenizer out")
    elif args.tokens != AS_TRAINED and not args.tokenizer:
        raise UserError(
            f"--tokenizer: how was the training text tokenised? Give one of {', '.join(KINDS)}, "
            f"or --tokens {AS_TRAINED} if the task files' sentences are tokens of its kind"
        )
    if args.layer != "last" and not args.layer.isdecimal():
        raise UserError(f"--layer {args.layer}: use a number from 0, or last")
    settings = ProbeSettings(
        hidden=_numbers("--hidden", args.hidden, int),
        dropout=_numbers("--dropout", args.dropout, float),
        batch_size=args.batch_size,
    )
    return settings, LAST if args.layer == "last" else int(args.layer)


def _numbers(flag: str, text: str, kind: Callable) -> tuple:
    try:
        return tuple(dict.fromkeys(kind(number) for number in text.split(",")))
    except ValueError:
        raise UserError(f"{flag} {text}: use numbers separated by commas") from None


def treatment(args: argparse.Namespace, task) -> SentenceTreatment:
    language = getattr(getattr(task, "cfg", None), "source_lang", None)
    if language is None:
        raise UserError(f"--path {args.path}: its task is not a translation, so it has no encoder")
    if args.prepared:
        return treatment_of(args.prepared, args.data, language, args.tokens)
    model = args.bpe_codes or args.sentencepiece
    flag = "--bpe-codes" if args.bpe_codes else "--sentencepiece"
    if model and not model.is_file():
        raise UserError(f"{flag} {model}: there is no such file")
    kind = "subword-nmt" if args.bpe_codes else "sentencepiece" if args.sentencepiece else None
    tokenizer = args.tokenizer or "none"
    return SentenceTreatment(language, args.tokens, tokenizer, args.lowercase, kind, model)


def _bar(title: str, total: int | None, unit: str) -> tqdm:
    return tqdm(total=total, desc=title, unit=unit, file=sys.stderr, leave=False, disable=None)


def about(
    args: argparse.Namespace,
    encoder: SentenceEncoder,
    settings: ProbeSettings,
    results: Sequence[TaskResult],
) -> dict:
    """Return everything for JSON."""
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
        "classifier": asdict(settings),
        "versions": versions(),
        "code": code(),
        "hardware": hardware(),
    }
