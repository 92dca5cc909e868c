"""Describe trained models in one HTML page: how good they are, and what their attention does.

  fairseq-hybrid report model/average.pt
  fairseq-hybrid report hysan/average.pt --compare base/average.pt --names hysan base
  fairseq-hybrid report reproduction/runs/full/mma/table2/transformer_mma/de-en/seed1

A MODEL is a checkpoint, or the folder of a run or of a training.  Its data folder is the one that
it was trained on, or --data; its log is train.log beside it or in the folder above.  The test set
is translated by fairseq-generate, unless the model's run has done that.  Translations are kept in
report.translations beside the page: a second command does not translate again.

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
from ..look.loaded import Loaded
from ..look.loading import load_model
from ..look.sentences import read_sentences
from ..probing.results import read_results
from ..runs.fairseq_commands import RunFolder, generate_command
from ..runs.fairseq_commands import flags as flags_of
from ..scores.generate_output import read_finished, read_generated
from ..scores.lengths_command import add_bounds
from . import curves_command as curves
from . import translations
from .findings import Findings, ModelFindings
from .models import look
from .page import Part, report
from .parts import PARTS
from .subjects import Given, Subject, find, names_of
from .translating import translated


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
    text = "sentences with maps, such as 1,5-7 (default: up to three of moderate length)"
    add("--maps", metavar="LIST", help=text)
    model_args.add_selection(parser)
    add_bounds(parser)
    group = parser.add_argument_group("instead of what is found; by default")
    add = group.add_argument
    add("--data", type=Path, metavar="DIR", help="that of the checkpoint: its data folder")
    add("--gen-subset", metavar="NAME", help="test, or valid if there is no test set")
    add("--subwords", choices=SUBWORDS, help="by the marks in the dictionary")
    text = "by the corpus of `prepare`; what splits the target; see `score`"
    add("--tokenizer", choices=KINDS, help=text)
    text = "the corpus's text, or else the set's own subwords, joined"
    add("--reference", type=Path, metavar="REF", help=text)
    add("--lowercase", action="store_true", help="by the corpus; ignore case; see `score`")
    text = 'those of the run, or fairseq\'s; flags of fairseq-generate, such as "--beam 4"'
    add("--generate", type=flags.search_flags, metavar="FLAGS", help=text)
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
    paths = [*args.models, *(args.compare or ())]
    names = model_args.names_given(args.names or names_of(paths), paths)
    check_arguments(args, names, paths)
    told = given_by(args)
    subjects = [find(*pair, told) for pair in zip(names, paths, strict=True)]
    read_from = [path for s in subjects for path in vars(s).values() if isinstance(path, Path)]
    check_outputs(written(args), read_from)
    checksums = {subject.name: sha256(subject.model) for subject in subjects}
    probed = read_probing(args, checksums)
    logs = curve_files(args, subjects)
    read_curves = curves.read_curves(curves.files_of(logs))
    # Sentences first: what cannot be compared shows before hours of work.
    loaded = [load(subject, args, warn=subject is subjects[0]) for subject in subjects]
    check_same_text(subjects, loaded)
    skip_long = args.too_long == "skip"
    measured = [model.usable(args.sentences, skip_long=skip_long) for model in loaded]
    texts, notes = translations.read_text(subjects[0], loaded[0].sentences)
    systems, commands = {}, {}
    for subject, model in zip(subjects, loaded, strict=True):
        name = subject.name
        systems[name], commands[name] = translate(
            args, subject, model, checksums[name], texts.references
        )
    texts = replace(texts, systems=systems)
    tags = gates.tags_of(args, loaded[0].sentences.source, subjects[0].subwords)
    models: list[ModelFindings] = []
    for subject, model, numbers in zip(subjects, loaded, measured, strict=True):
        first = models[0].maps if models else None
        seen = look(subject, model, numbers, args.maps, tags, first, checksums[subject.name])
        models.append(replace(seen, translating=commands[subject.name], search=subject.search_text))
    findings = Findings(
        command=args.command_line,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        text=name_of_text(args, subjects[0], len(loaded[0].sentences)),
        about=about(subjects[0], texts.sets),
        versions=provenance.versions(),
        code=provenance.code(),
        models=models,
        tags=gates.source_of_tags(args),
        scores=texts.scores(),
        lengths=texts.by_length(args.bounds),
        examples=texts.examples(),
        curves=read_curves,
        probing=probed,
        notes=notes,
        absent=absent(args, subjects, models, dict(logs), probed),
    )
    parts = []
    for heading, items_of in tqdm(PARTS.items(), unit=" parts", file=sys.stderr):
        if items := list(items_of(findings)):
            parts.append(Part(heading, items))
    text = report(findings.title, parts, findings.about)
    outputs.write_text(args.output, text)
    if args.json:
        write_json(args.json, findings.as_dict())
    for line in findings.absent:
        print(f"not shown: {line}")
    print(f"{args.output.absolute()} ({len(text.encode()) / 1e6:.1f} MB): open it in a browser")


def check_arguments(args: argparse.Namespace, names: list[str], paths: list[Path]) -> None:
    gates.check_tags(args)
    if args.max_tokens < 1:
        raise UserError(f"--max-tokens {args.max_tokens}: use 1 or more")
    read_from = [*paths, args.tags, args.reference]
    read_from += [path for _, path in (*(args.logs or ()), *(args.probing or ()))]
    check_outputs(written(args), read_from)
    maps_page.require()
    style.require()
    for flag, named in (("--log", args.logs), ("--probing", args.probing)):
        for name, _ in named or ():
            flags.check_name(flag, name, names)


def written(args: argparse.Namespace) -> dict[str, Path | None]:
    return {"--output": args.output, "--json": args.json, "--write-tags": args.write_tags}


def given_by(args: argparse.Namespace) -> Given:
    return Given(
        data=args.data,
        subset=args.gen_subset,
        subwords=args.subwords,
        tokenizer=args.tokenizer,
        reference=args.reference,
        lowercase=args.lowercase,
        search=None if args.generate is None else tuple(args.generate),
    )


def load(subject: Subject, args: argparse.Namespace, warn: bool) -> Loaded:
    """Load a model with its sentences; ``warn`` of those with unknown subwords."""
    languages = {"source_lang": subject.source, "target_lang": subject.target}
    model, task = load_model(subject.model, subject.data, **languages)
    sentences = read_sentences(task, subject.subset, subject.text, subject.subwords, warn=warn)
    at = {"device": model_args.device(args), "max_tokens": args.max_tokens}
    return Loaded(subject.name, subject.model, model, task, sentences, subject.subwords, **at)


def translate(
    args: argparse.Namespace,
    subject: Subject,
    loaded: Loaded,
    checksum: str,
    references: list[str],
) -> tuple[list[str], list[str] | None]:
    """The translations of a model, and the command that makes them, unless its run has some."""
    if subject.hypotheses:
        source = subject.reference or subject.data
        return read_finished(subject.hypotheses, source, len(references)), None
    data, model = subject.data.absolute(), subject.model.absolute()
    folder = RunFolder(args.output.absolute().with_suffix(".translations") / checksum[:16])
    skip_long = args.too_long == "skip"
    command = generate_command(
        *(data, model, subject.subset, folder.translation),
        languages=(subject.source, subject.target),
        search=[*subject.search, *flags_of(skip_invalid_size_inputs_valid_test=skip_long)],
        on_cpu=model_args.device(args) == "cpu",
        user_dir=args.user_dir,
    )
    made = translated(command, data, model, subject.subset, folder)
    how = subject.subwords, subject.tokenizer, subject.target, "empty" if skip_long else "error"
    return read_generated(made, [references], *how)[0], command


def check_same_text(subjects: Sequence[Subject], loaded: Sequence[Loaded]) -> None:
    """Refuse models of other test sets: they cannot be compared."""
    texts = [translations.joined(model.sentences.source, model.subwords) for model in loaded]
    for subject, text in zip(subjects, texts, strict=True):
        if text != texts[0]:
            raise UserError(
                f"{subject.name}: its {subject.subset} set in {subject.data} is not that of "
                f"{subjects[0].name} in {subjects[0].data}; models are compared on the same "
                "sentences, and --data names one folder for all"
            )


def curve_files(args: argparse.Namespace, subjects: Sequence[Subject]) -> list[tuple[str, Path]]:
    """The logs given, and those found of the other models."""
    given = list(args.logs or ())
    named = {name for name, _ in given}
    return given + [(s.name, s.log) for s in subjects if s.log and s.name not in named]


def absent(
    args: argparse.Namespace,
    subjects: Sequence[Subject],
    models: Sequence[ModelFindings],
    logs: Mapping[str, Path],
    probed: Mapping[str, dict],
) -> list[str]:
    """What could not be shown, and how to get it."""
    told = []
    if len(subjects) == 1:
        told.append("A comparison: --compare MODEL.")
    for subject in subjects:
        if subject.name not in logs:
            told.append(
                f"Learning curves of {subject.name}: there is no train.log beside {subject.model}; "
                "--log NAME=FILE names what fairseq-train printed (its --log-file is not that)."
            )
    without = [model.name for model in models if not model.gates]
    if without:
        told.append(
            f"Gates of {', '.join(without)}: there are none. transformer_hybrid_gate has them, and "
            "transformer_hysan with --branch-fusion gated-sum."
        )
    elif not args.tags and not args.tagger:
        told.append("Gates by part of speech: --tagger LANGUAGE or --tags FILE.")
    unprobed = [model.name for model in models if model.name not in probed]
    if unprobed:
        told.append(
            f"Probing of {', '.join(unprobed)}: `fairseq-hybrid probe` takes hours; --probing "
            "NAME=FILE names what its --json wrote."
        )
    return told


def read_probing(args: argparse.Namespace, checksums: Mapping[str, str]) -> dict[str, dict]:
    """The results of ``--probing``, by the models' names and in their order."""
    probed: dict[str, dict] = {}
    for name, path in args.probing or ():
        if name in probed:
            raise UserError(f"--probing {name}=… twice; give one for a model")
        probed[name] = read_results("--probing", path)
        if probed[name]["model_sha256"] != checksums[name]:
            raise UserError(
                f"--probing {name}={path} is of {probed[name]['model']}, which is or was another "
                f"checkpoint than {name}; probe this one"
            )
    return {name: probed[name] for name in checksums if name in probed}


def about(subject: Subject, sets: Mapping[str, slice]) -> str:
    """The languages and the test set of a report, with the named sets that it consists of."""
    named = [f"{name[1:]} {lines.stop - lines.start:,}" for name, lines in sets.items() if name]
    count = max(lines.stop for lines in sets.values())
    return (
        f"{subject.source} to {subject.target}; {subject.subset} set of {subject.corpus_name}: "
        f"{count:,} sentences" + (f" ({', '.join(named)})" if named else "")
    )


def name_of_text(args: argparse.Namespace, subject: Subject, count: int) -> str:
    measured = "" if args.sentences == "all" else f"; measured: {args.sentences}"
    return f"{subject.subset} of {subject.data}, {count:,} sentences{measured}"
