"""All that is known of one or several models on a test set, in one HTML page.

  fairseq-hybrid report data-bin --path model.pt --gen-subset test --subwords subword-nmt \\
      --output report.html
  fairseq-hybrid report data-bin --path plain.pt --compare mma.pt --names plain mma \\
      --gen-subset test --subwords subword-nmt --reference raw/test.en --target-lang en \\
      --hypotheses plain=plain.en --hypotheses mma=mma.en --log plain=plain.log --log mma=mma.log \\
      --probing plain=plain.json --probing mma=mma.json --output report.html --json report.json
  fairseq-hybrid report --output report.html \\
      --run reproduction/runs/full/mma/table2/{transformer,transformer_mma}/de-en/seed1

The page says what each model is: architecture, patterns, parameters, checksum.  With translations,
it has scores with their signatures, and BLEU by source length; of several models, each is
compared with the first by paired bootstrap.  It has interactive attention maps of a few sentences,
gates of models with gates, distance, entropy and difference of heads, and, with logs, learning
curves, with results of `probe`, these.  What does not apply is left out, and it is said why.  The
numbers are those of the commands score, lengths, maps, gates, heads, curves and probe.

--run names folders of finished runs of `reproduce`, in place of data, models and all else: they
know.  Their models must have one test set.

The page is one file that wants no network.  --json has all of its numbers but the weights of the
maps, which `maps --json` writes.
"""

from __future__ import annotations

import argparse
import logging
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tqdm import tqdm

from ...errors import UserError
from ..arguments import flags, outputs
from ..arguments import models as model_args
from ..curves import command as curves
from ..curves.measure import Curve, check_distinct
from ..engine import provenance
from ..figures import style
from ..files.json_files import write_json
from ..files.writing import check_outputs
from ..gates import command as gates
from ..maps import page
from ..runs.finished import finished_run
from . import probing, translations
from .found import Found, Looked
from .models import look
from .page import report
from .parts import PARTS
from .runs import take_from_runs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    model_args.add_models(parser, required=False)
    parser.add_argument(
        "--compare",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="further ones of --path (or of --run), which are compared with the first",
    )
    model_args.add_sentences(parser, required=False)
    model_args.add_selection(parser)
    parser.add_argument(
        "--run",
        dest="runs",
        type=Path,
        nargs="+",
        metavar="FOLDER",
        help="or: folders of finished runs of `reproduce`",
    )
    parser.add_argument(
        "--maps", metavar="LIST", help="sentences with maps, such as 1,5-7 (default: the first 5)"
    )
    translations.add_arguments(parser)
    parser.add_argument(
        "--log",
        dest="logs",
        action="append",
        type=flags.named_path,
        metavar="NAME=FILE",
        help="log of the training of a model, or as `curves` has it; may be repeated",
    )
    parser.add_argument(
        "--probing",
        action="append",
        type=flags.named_path,
        metavar="NAME=FILE",
        help="what `probe --json` wrote of a model; may be repeated",
    )
    gates.add_tags(parser)
    parser.add_argument("--output", required=True, type=Path, metavar="FILE", help="the page")
    parser.add_argument("--json", type=Path, metavar="FILE", help="its data")


def run(args: argparse.Namespace) -> None:
    """Look, score, and write.

    Raises:
        UserError: if arguments or files do not fit together, or a file cannot be read or
            written.
    """
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)
    take_compared(args)
    runs = [finished_run(path) for path in args.runs or ()]
    if runs:
        take_from_runs(args, runs)
    check_arguments(args)
    translated = translations.read(args)
    found_curves = read_curves(args)
    probed = probing.read(args)
    models: list[Looked] = []
    for loaded in model_args.load(args):
        if not models:  # sentences and their words are the same for all
            sentences = loaded.sentences
            check_count(args, translated, len(sentences))
            tags = gates.tags_of(args, sentences)
        models.append(look(args, loaded, tags, models[0] if models else None))
    scores = translated.scores() if translated else []
    for number, one in enumerate(models):
        bleu = next((s.systems[one.name].value for s in scores if s.name == "bleu"), None)
        models[number] = replace(
            one,
            gates=one.gates and replace(one.gates, bleu=bleu),
            training=runs[number].training if runs else None,
        )
    found = Found(
        command=args.command_line,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        text=name_of_text(args, len(sentences)),
        versions=provenance.versions(),
        code=provenance.code(),
        models=models,
        tags=gates.source_of_tags(args),
        scores=scores,
        lengths=translated and translated.by_length(sentences.source, args.subwords, args.bounds),
        curves=found_curves,
        probing=probed,
    )
    parts = [make(found) for make in tqdm(PARTS, unit=" parts", file=sys.stderr)]
    outputs.write_text(args.output, report(found.title, parts))
    if args.json:
        write_json(args.json, found.as_dict())


def take_compared(args: argparse.Namespace) -> None:
    """Put what is compared behind what it is compared with.

    Raises:
        UserError: if there is no such.
    """
    if not args.compare:
        return
    if not (args.path or args.runs):
        raise UserError("--compare with what? Give --path FILE or --run FOLDER as well")
    if args.runs:
        args.runs = [*args.runs, *args.compare]
    else:
        args.path = [*args.path, *args.compare]


def check_arguments(args: argparse.Namespace) -> None:
    """Refuse arguments that do not go together.

    Raises:
        UserError: naming the flag and the way out.
    """
    needed = {"DATA": args.data, "--path": args.path, "--subwords": args.subwords}
    flags.require(needed, "give {}; or --run FOLDER alone")
    model_args.check(args)
    args.names = args.names or model_args.names_of(args.path)
    gates.check_tags(args)
    inputs = [*args.path, args.source, args.target, args.tags, args.reference, args.source_words]
    inputs += [args.test_sets, *(one.path for one in args.systems or ())]
    inputs += [path for _, path in (*(args.logs or ()), *(args.probing or ()))]
    written = {"--output": args.output, "--json": args.json, "--write-tags": args.write_tags}
    check_outputs(written, inputs)
    page.require()
    style.require()
    translations.check(args)
    for flag, named in (("--log", args.logs), ("--probing", args.probing)):
        for name, _ in named or ():
            flags.check_name(flag, name, args.names)


def read_curves(args: argparse.Namespace) -> list[Curve]:
    """The learning curves of the logs.

    Raises:
        UserError: if one cannot be read.
    """
    files = [(name, path) for name, given in args.logs or () for path in curves.files_of(given)]
    found = [curve for name, path in files for curve in curves.read_curves(name, path)]
    check_distinct(found)
    return found


def check_count(
    args: argparse.Namespace, translated: translations.Translations | None, count: int
) -> None:
    """See to it that translations are of the models' sentences, as far as their number tells.

    Raises:
        UserError: if not.
    """
    if translated and len(translated.references) != count:
        raise UserError(
            f"--reference {args.reference} has {len(translated.references):,} lines, but the "
            f"sentences of the models are {count:,}; are they the same test set?"
        )


def name_of_text(args: argparse.Namespace, count: int) -> str:
    """Which sentences, for people."""
    text = f"{args.source}" if args.source else f"{args.gen_subset or 'test'} of {args.data}"
    measured = "" if args.sentences == "all" else f"; measured: {args.sentences}"
    return f"{text}, {count:,} sentences{measured}"
