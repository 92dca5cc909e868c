"""Describe one or several models on a test set, in one HTML page.

  fairseq-hybrid report data-bin --path model.pt --gen-subset test --subwords subword-nmt \\
      --output report.html
  fairseq-hybrid report data-bin --path plain.pt --compare mma.pt --names plain mma \\
      --gen-subset test --subwords subword-nmt --reference raw/test.en --target-lang en \\
      --hypotheses plain=plain.en --hypotheses mma=mma.en --log plain=plain.log --log mma=mma.log \\
      --probing plain=plain.json --probing mma=mma.json --output report.html --json report.json
  fairseq-hybrid report --output report.html \\
      --run reproduction/runs/full/mma/table2/{transformer,transformer_mma}/de-en/seed1

The page describes each model: architecture, patterns, parameters, checksum.  It has interactive
attention maps of a few sentences, gates of models with gates, and distance, entropy and difference
of heads.  With translations, it has scores with their signatures, and BLEU by source length; each
model is compared with the first by paired bootstrap.  With logs, it has learning curves; with
results of `probe`, their accuracies.  What does not apply is left out, with the reason.  The
numbers are those of the commands score, lengths, maps, gates, heads, curves and probe.

--run names folders of finished runs of `reproduce`, which replace data, models and everything
else.  All models must have the same test set.

The page is one file that needs no network.  --json has all of its numbers except the weights of
the maps, which `maps --json` writes.
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
from ..curves import command as curves
from ..engine import provenance
from ..figures import style
from ..files.checksums import sha256
from ..files.json_files import write_json
from ..files.writing import check_outputs
from ..gates import command as gates
from ..inference import arguments as model_args
from ..lengths.systems import System
from ..maps import page
from ..probing.results import read_results
from ..runs.finished_run import FinishedRun, finished_run
from . import translations
from .findings import Findings, ModelFindings
from .models import look
from .page import Part, report
from .parts import PARTS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    model_args.add_models(parser, required=False)
    parser.add_argument(
        "--compare",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="more models (or, with --run, more runs) to compare with the first",
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
        help="a model's training log, or another file of `curves`; may be repeated",
    )
    parser.add_argument(
        "--probing",
        action="append",
        type=flags.named_path,
        metavar="NAME=FILE",
        help="output of `probe --json` for a model; may be repeated",
    )
    gates.add_tags(parser)
    parser.add_argument("--output", required=True, type=Path, metavar="FILE", help="the page")
    parser.add_argument("--json", type=Path, metavar="FILE", help="its data")


def run(args: argparse.Namespace) -> None:
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)
    add_compared(args)
    runs = [finished_run(path) for path in args.runs or ()]
    if runs:
        take_from_runs(args, runs)
    check_arguments(args)
    translated = translations.read(args)
    found_curves = curves.read_curves(curves.files_of(args.logs or ()))
    probed = read_probing(args)
    models: list[ModelFindings] = []
    for loaded in model_args.load(args):
        if not models:  # sentences and their words are the same for all
            sentences = loaded.sentences
            if translated and len(translated.references) != len(sentences):
                raise UserError(
                    f"--reference {args.reference} has {len(translated.references):,} lines, but "
                    f"the sentences of the models are {len(sentences):,}; are they the same test "
                    "set?"
                )
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
    found = Findings(
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
    parts = [
        Part(heading, list(items_of(found)))
        for heading, items_of in tqdm(PARTS.items(), unit=" parts", file=sys.stderr)
    ]
    outputs.write_text(args.output, report(found.title, parts))
    if args.json:
        write_json(args.json, found.as_dict())


def add_compared(args: argparse.Namespace) -> None:
    if not args.compare:
        return
    if not (args.path or args.runs):
        raise UserError("--compare with what? Give --path FILE or --run FOLDER as well")
    if args.runs:
        args.runs = [*args.runs, *args.compare]
    else:
        args.path = [*args.path, *args.compare]


def take_from_runs(args: argparse.Namespace, runs: list[FinishedRun]) -> None:
    known = {
        "DATA": args.data,
        "--path": args.path,
        "--gen-subset": args.gen_subset,
        "--source": args.source,
        "--target": args.target,
        "--subwords": args.subwords,
        "--source-lang": args.source_lang,
        "--target-lang": args.target_lang,
        **translations.given(args),
        "--log": args.logs,
    }
    flags.refuse(known, "--run knows that; leave out {}")
    corpus = runs[0].corpus
    for path, one in zip(args.runs, runs, strict=True):
        if one.corpus.folder != corpus.folder:
            raise UserError(
                f"--run {path} is of the corpus {one.corpus.folder}, the first of "
                f"{corpus.folder}; models are compared on the same test set"
            )
    if args.names and len(args.names) != len(runs):
        raise UserError(f"--names gives {len(args.names)} names for {len(runs)} runs")
    args.names = args.names or model_args.names_of(args.runs)
    args.data, args.path = corpus.binary, [one.folder.model for one in runs]
    # Text, not the binarised set, which has lost unknown subwords.
    text = corpus.folder / "subwords"
    args.source, args.target = (text / f"test.{code}" for code in (corpus.source, corpus.target))
    args.source_lang, args.target_lang = corpus.source, corpus.target
    args.subwords, args.lowercase = corpus.subwords, corpus.lowercase
    args.reference, args.source_words = corpus.reference(), corpus.source_words
    args.test_sets = corpus.test_sets
    named = list(zip(args.names, runs, strict=True))
    args.systems = [System(name, one.folder.hypotheses, False) for name, one in named]
    args.logs = [(name, one.folder.path) for name, one in named if one.has_curves]


def check_arguments(args: argparse.Namespace) -> None:
    needed = {"DATA": args.data, "--path": args.path, "--subwords": args.subwords}
    flags.require(needed, "give {}; or --run FOLDER alone")
    model_args.check(args)
    args.names = args.names or model_args.names_of(args.path)
    gates.check_tags(args)
    inputs = [*model_args.inputs_of(args), args.tags, args.reference, args.source_words]
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


def read_probing(args: argparse.Namespace) -> dict[str, dict]:
    """The results of ``--probing``, by the models' names and in their order."""
    found: dict[str, dict] = {}
    paths = dict(zip(args.names, args.path, strict=True))
    for name, path in args.probing or ():
        if name in found:
            raise UserError(f"--probing {name}=… twice; give one for a model")
        found[name] = read_results("--probing", path)
        if paths[name].is_file() and found[name]["model_sha256"] != sha256(paths[name]):
            raise UserError(
                f"--probing {name}={path} is of {found[name]['model']}, which is or was another "
                f"checkpoint than {paths[name]}; probe this one"
            )
    return {name: found[name] for name in args.names if name in found}


def name_of_text(args: argparse.Namespace, count: int) -> str:
    text = f"{args.source}" if args.source else f"{args.gen_subset or 'test'} of {args.data}"
    measured = "" if args.sentences == "all" else f"; measured: {args.sentences}"
    return f"{text}, {count:,} sentences{measured}"
