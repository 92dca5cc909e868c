"""Describe trained models in one HTML page: how good they are, and what their attention does.

  fairseq-hybrid report model/average.pt
  fairseq-hybrid report hysan/average.pt --compare base/average.pt --names hysan base
  fairseq-hybrid report reproduction/runs/full/mma/table2/transformer_mma/de-en/seed1

A MODEL is a checkpoint, or the folder of a run or of a training.  Its data folder and log are found
where the checkpoint says, or beside it if it was moved; --data names the data folder otherwise.
The test set is translated by fairseq-generate, unless the model's run has done that.  Translations
are kept in MODEL.report beside the model: an interrupted command resumes, and a second one does not
translate again.

The page has scores with signatures, the best and worst translations, BLEU by source length,
attention maps, gates, heads and learning curves.  Models are compared with the first one by paired
bootstrap, and the sentences that differ most are shown.  The numbers are those of the commands
score, lengths, maps, gates, heads, curves and probe.  The last lines of the page, and of the
command, say what could not be found.

The page is one file that needs no network.  --json has all of its numbers except the weights of
the maps, which `maps --json` writes.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tqdm import tqdm

from ...errors import UserError
from ..cli import flags
from ..corpora.tokenisers import KINDS
from ..corpora.words import SUBWORDS
from ..files import provenance
from ..files.checksums import sha256
from ..files.json_files import write_json
from ..files.writing import check_outputs
from ..look import gates_command as gates
from ..look import maps_page, outputs, style
from ..look import model_arguments as model_args
from ..probing.results import read_results
from ..scores import systems as lengths
from . import curves_command as curves
from . import translations
from .findings import Findings, ModelFindings
from .models import look, within
from .page import Part, report
from .parts import PARTS
from .subjects import Subject, find, names_of
from .translating import generate_command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("models", type=Path, nargs="+", metavar="MODEL", help="checkpoint, or folder of a run")
    add("--compare", type=Path, nargs="+", metavar="MODEL", help="more, to compare with the first")
    add(
        "--names", nargs="+", metavar="NAME", help="names of the models (default: from their paths)"
    )
    text = "the page (default: report.html)"
    add("--output", type=Path, default=Path("report.html"), metavar="FILE", help=text)
    add("--json", type=Path, metavar="FILE", help="its data")
    add(
        "--max-tokens",
        type=int,
        default=4000,
        metavar="N",
        help="subwords per batch (default: 4000)",
    )
    add("--cpu", action="store_true", help="do not use a GPU")
    text = "sentences with maps, such as 1,5-7 (default: up to five of moderate length)"
    add("--maps", metavar="LIST", help=text)
    model_args.add_selection(parser)
    lengths.add_bounds(parser)
    group = parser.add_argument_group("instead of what is found; by default")
    add = group.add_argument
    add("--data", type=Path, metavar="DIR", help="that of the checkpoint: its data folder")
    add("--gen-subset", metavar="NAME", help="test, or valid if there is no test set")
    add("--source-lang", metavar="LANG", help="as in the checkpoint")
    add("--target-lang", metavar="LANG", help="as in the checkpoint")
    add("--subwords", choices=SUBWORDS, help="by the marks in the dictionary")
    add("--tokenizer", choices=KINDS, help="by the corpus; what splits the target; see `score`")
    text = "the corpus's text, or else the set's own subwords, joined"
    add("--reference", type=Path, metavar="REF", help=text)
    add("--lowercase", action="store_true", help="by the corpus; ignore case; see `score`")
    text = 'those of the run, or fairseq\'s; flags of fairseq-generate, such as "--beam 4"'
    add("--generate", type=flags.search_flags, metavar="FLAGS", help=text)
    lengths.add_systems(group)
    text = "a training log or another file of `curves`; may be repeated"
    add(
        "--log", dest="logs", action="append", type=flags.named_path, metavar="NAME=FILE", help=text
    )
    group = parser.add_argument_group("what is not found")
    text = "output of `probe --json` for a model; may be repeated"
    probing = {"action": "append", "type": flags.named_path, "metavar": "NAME=FILE"}
    group.add_argument("--probing", **probing, help=text)
    gates.add_tags(parser)


def run(args: argparse.Namespace) -> None:
    logging.getLogger("sacrebleu").setLevel(logging.ERROR)  # some texts come in tokens
    args.path = [*args.models, *(args.compare or ())]
    check_arguments(args)
    subjects = [find(*pair, args) for pair in zip(args.names, args.path, strict=True)]
    check_outputs(
        written(args),
        [path for one in subjects for path in vars(one).values() if isinstance(path, Path)],
    )
    args.path = [one.model for one in subjects]
    probed = read_probing(args)
    logs = curve_files(args, subjects)
    found_curves = curves.read_curves(curves.files_of(logs))
    checksums = [sha256(one.model) for one in subjects]
    # Sentences first: what cannot be translated or compared shows before hours of work.
    loaded = [next(model_args.load(one.arguments(args))) for one in subjects]
    check_same_text(subjects, loaded)
    texts = [one.sentences for one in loaded]
    translated, notes = translations.translate(subjects, texts, checksums, args)
    tags = gates.tags_of(subjects[0].arguments(args), texts[0])
    models: list[ModelFindings] = []
    for one, of_model, checksum in zip(subjects, loaded, checksums, strict=True):
        first = models[0] if models else None
        models.append(look(one.arguments(args), of_model, tags, first, checksum))
    if args.maps is None:
        models = within(models)
    scores = translated.scores()
    given = {system.name for system in args.systems or ()}
    models = [
        replace(
            model,
            gates=model.gates and replace(model.gates, bleu=scores[0].systems[model.name].value),
            training=one.training,
            translating=(
                None if one.hypotheses or one.name in given else generate_command(one, args)
            ),
            search=None if one.name in given else one.search,
        )
        for one, model in zip(subjects, models, strict=True)
    ]
    found = Findings(
        command=args.command_line,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        text=name_of_text(args, subjects[0], len(texts[0])),
        about=about(subjects[0], translated.sets),
        versions=provenance.versions(),
        code=provenance.code(),
        models=models,
        tags=gates.source_of_tags(args),
        scores=scores,
        lengths=translated.by_length(args.bounds),
        examples=translated.examples(),
        curves=found_curves,
        probing=probed,
        beside={} if subjects[0].name in given else subjects[0].beside or {},
        notes=notes,
        absent=absent(args, subjects, models, dict(logs), probed),
    )
    parts = []
    for heading, items_of in tqdm(PARTS.items(), unit=" parts", file=sys.stderr):
        if items := list(items_of(found)):
            parts.append(Part(heading, items))
    text = report(found.title, parts, found.about)
    outputs.write_text(args.output, text)
    if args.json:
        write_json(args.json, found.as_dict())
    for line in found.absent:
        print(f"not shown: {line}")
    print(f"{args.output.absolute()} ({len(text.encode()) / 1e6:.1f} MB): open it in a browser")


def check_arguments(args: argparse.Namespace) -> None:
    model_args.check_names(args)
    args.names = args.names or names_of(args.path)
    gates.check_tags(args)
    if args.max_tokens < 1:
        raise UserError(f"--max-tokens {args.max_tokens}: use 1 or more")
    given = [*args.path, args.tags, args.reference, *(one.path for one in args.systems or ())]
    given += [path for _, path in (*(args.logs or ()), *(args.probing or ()))]
    check_outputs(written(args), given)
    maps_page.require()
    style.require()
    lengths.check_names(args.systems or ())
    for one in args.systems or ():
        flags.check_name("--generated" if one.generated else "--hypotheses", one.name, args.names)
    for flag, named in (("--log", args.logs), ("--probing", args.probing)):
        for name, _ in named or ():
            flags.check_name(flag, name, args.names)


def written(args: argparse.Namespace) -> dict[str, Path | None]:
    return {"--output": args.output, "--json": args.json, "--write-tags": args.write_tags}


def check_same_text(subjects: Sequence[Subject], loaded: Sequence[model_args.Loaded]) -> None:
    """Refuse models of other test sets: they cannot be compared."""
    texts = [
        translations.joined(one.sentences.source, subject.subwords)
        for one, subject in zip(loaded, subjects, strict=True)
    ]
    for subject, text in zip(subjects, texts, strict=True):
        if text != texts[0]:
            raise UserError(
                f"{subject.name}: its {subject.subset} set in {subject.data} is not that of "
                f"{subjects[0].name} in {subjects[0].data}; models are compared on the same "
                "sentences, and --data names one folder for all"
            )


def curve_files(args: argparse.Namespace, subjects: Sequence[Subject]) -> list[tuple[str, Path]]:
    """The logs given, and those found of the other models."""
    given = {name for name, _ in args.logs or ()}
    found = [(one.name, one.log) for one in subjects if one.log and one.name not in given]
    return [*(args.logs or ()), *found]


def absent(
    args: argparse.Namespace,
    subjects: Sequence[Subject],
    models: Sequence[ModelFindings],
    logs: Mapping[str, Path],
    probed: Mapping[str, dict],
) -> list[str]:
    """What could not be shown, and how to get it."""
    told = []
    if len(subjects) == 1 and not subjects[0].beside:
        told.append("A comparison: --compare MODEL.")
    for one in subjects:
        if one.name not in logs:
            told.append(
                f"Learning curves of {one.name}: there is no log of its training beside "
                f"{one.model}, of what fairseq-train printed (its --log-file is not that); "
                "--log NAME=FILE names one."
            )
    without = [model.name for model in models if not model.gates]
    if without:
        told.append(
            f"Gates of {', '.join(without)}: there are none. transformer_hybrid_gate has them, and "
            "transformer_hysan with --branch-fusion gated-sum."
        )
    elif not args.tags and not args.tagger:
        told.append("Gates by part of speech: --tagger LANGUAGE or --tags FILE.")
    if len(without) == len(models) and (args.tags or args.tagger):
        told.append(f"So parts of speech were not used ({gates.source_of_tags(args)}).")
    for model in models:
        if not model.heads.heads:
            told.append(f"{model.name} has no attention that can be looked at.")
    unprobed = [model.name for model in models if model.name not in probed]
    if unprobed:
        told.append(
            f"Probing of {', '.join(unprobed)}: `fairseq-hybrid probe` takes hours; --probing "
            "NAME=FILE names what its --json wrote."
        )
    return told


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


def about(subject: Subject, sets: Mapping[str, slice]) -> str:
    """The languages and the test set of a report, with the named sets that it consists of."""
    named = [f"{name[1:]} {one.stop - one.start:,}" for name, one in sets.items() if name]
    count = max(one.stop for one in sets.values())
    return (
        f"{subject.source} to {subject.target}; {subject.subset} set of {subject.corpus_name}: "
        f"{count:,} sentences" + (f" ({', '.join(named)})" if named else "")
    )


def name_of_text(args: argparse.Namespace, subject: Subject, count: int) -> str:
    measured = "" if args.sentences == "all" else f"; measured: {args.sentences}"
    return f"{subject.subset} of {subject.data}, {count:,} sentences{measured}"
