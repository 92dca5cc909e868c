"""Describe trained models in one HTML page: how good they are, and what their attention does.

  fairseq-hybrid report reproduction/runs/full/mma/table2/transformer_mma/de-en/seed1
  fairseq-hybrid report hysan/average.pt base/average.pt --names hysan base

A MODEL is a checkpoint, or the folder of a run.  Its data folder is the one that it was trained on,
or --data; its log is train.log beside it.  The test set is translated by fairseq-generate, unless
the model's run has done that.  Translations are kept in report.translations beside the page: a
second command does not translate again.

The page has scores with signatures, the best and worst translations, BLEU by source length,
attention maps, gates, heads and learning curves.  Models are compared with the first one by paired
bootstrap, and the sentences that differ most are shown.  The numbers are those of the commands
score, lengths, maps, gates, heads, curves and probe.

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
from ..files.json_files import write_json
from ..files.writing import check_outputs
from ..look import gates_command as gates
from ..look import maps_page, outputs, style
from ..look import model_arguments as model_args
from ..look.loaded import Loaded, note
from ..look.loading import load_model
from ..look.sentences import read_sentences
from ..probing.results import read_results
from ..runs.fairseq_commands import RunFolder, generate_command
from ..runs.fairseq_commands import flags as flags_of
from ..scores.generate_output import read_finished, read_generated
from . import curves_command as curves
from . import translations
from .findings import Findings, ModelFindings, look
from .page import Part, report
from .parts import PARTS
from .subjects import Subject, find, names_of
from .translating import translated


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text = "checkpoint, or folder of a run; others are compared with the first"
    add("models", type=Path, nargs="+", metavar="MODEL", help=text)
    text = "names of the models (default: from their paths)"
    add("--names", nargs="+", metavar="NAME", help=text)
    text = "the page (default: report.html)"
    add("--output", type=Path, default=Path("report.html"), metavar="FILE", help=text)
    add("--json", type=Path, metavar="FILE", help="its data")
    text = "subwords per batch (default: 4000)"
    add("--max-tokens", type=flags.positive, default=4000, metavar="N", help=text)
    add("--cpu", action="store_true", help="do not use a GPU")
    text = "sentences with maps, such as 1,5-7 (default: up to three of moderate length)"
    add("--maps", metavar="LIST", help=text)
    model_args.add_selection(parser)
    text = "output of `probe --json` for a model; may be repeated"
    probing = {"action": "append", "type": flags.named_path, "metavar": "NAME=FILE"}
    add("--probing", **probing, default=[], help=text)
    gates.add_tags(parser)
    group = parser.add_argument_group("instead of what is found; by default")
    add = group.add_argument
    add("--data", type=Path, metavar="DIR", help="that of the checkpoint: its data folder")
    add("--gen-subset", default="test", metavar="NAME", help="test")
    add("--subwords", choices=SUBWORDS, help="by the corpus of `prepare`")
    text = "by the corpus of `prepare`; what splits the target; see `score`"
    add("--tokenizer", choices=KINDS, help=text)
    text = "the corpus's text, or else the set's own subwords, joined"
    add("--reference", type=Path, metavar="REF", help=text)
    add("--lowercase", action="store_true", help="by the corpus; ignore case; see `score`")
    text = 'those of the run, or fairseq\'s; flags of fairseq-generate, such as "--beam 4"'
    add("--generate", type=flags.search_flags, metavar="FLAGS", help=text)
    text = "a training log or another file of `curves`; may be repeated"
    logs = {"dest": "logs", "action": "append", "type": flags.named_path, "metavar": "NAME=FILE"}
    add("--log", **logs, default=[], help=text)


def run(args: argparse.Namespace) -> None:
    logging.getLogger("sacrebleu").setLevel(logging.ERROR)  # some texts come in tokens
    names = model_args.names_given(args.names or names_of(args.models), args.models)
    check_arguments(args, names)
    given = {
        **{"data": args.data, "subset": args.gen_subset, "subwords": args.subwords},
        **{"tokenizer": args.tokenizer, "lowercase": args.lowercase},
        **{"reference": args.reference, "search": args.generate},
    }
    subjects = [find(*pair, **given) for pair in zip(names, args.models, strict=True)]
    read_from = [path for s in subjects for path in vars(s).values() if isinstance(path, Path)]
    check_outputs(written(args), read_from)
    probed = read_probing(args.probing, subjects)
    read_curves = curves.read_curves(curves.files_of(curve_files(args, subjects)))
    # Sentences first: what cannot be compared shows before hours of work.
    loaded = [load(subject, args, warn=subject is subjects[0]) for subject in subjects]
    check_same_text(subjects, loaded)
    measured = [model_args.selected(args, model) for model in loaded]
    texts, notes = translations.read_text(subjects[0], loaded[0].sentences)
    systems, commands = {}, {}
    for subject in subjects:
        name = subject.name
        systems[name], commands[name] = translate(args, subject, texts.references)
    texts = replace(texts, systems=systems)
    tags = gates.tags_of(args, loaded[0].sentences.source, subjects[0].subwords)
    models: list[ModelFindings] = []
    for subject, model, numbers in zip(subjects, loaded, measured, strict=True):
        first = models[0].maps if models else None
        made = commands[subject.name]
        models.append(look(subject, model, numbers, args.maps, tags, first, made))
    findings = Findings(
        command=args.command_line,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        about=about(subjects[0], texts.sets),
        versions=provenance.versions(),
        code=provenance.code(),
        models=models,
        tags=gates.source_of_tags(args),
        scores=texts.scores(),
        lengths=texts.by_length(),
        examples=texts.examples(),
        curves=read_curves,
        probing=probed,
        notes=notes,
    )
    parts = []
    for heading, items_of in tqdm(PARTS.items(), unit=" parts", file=sys.stderr):
        if items := list(items_of(findings)):
            parts.append(Part(heading, items))
    text = report(findings.title, parts, findings.about)
    outputs.write_text(args.output, text)
    if args.json:
        write_json(args.json, findings.as_dict())
    print(f"{args.output.absolute()} ({len(text.encode()) / 1e6:.1f} MB): open it in a browser")


def check_arguments(args: argparse.Namespace, names: list[str]) -> None:
    gates.check_tags(args)
    named = [path for _, path in (*args.logs, *args.probing)]
    check_outputs(written(args), [*args.models, args.tags, args.reference, *named])
    maps_page.require()
    style.require()
    for flag, files in (("--log", args.logs), ("--probing", args.probing)):
        for name, _ in files:
            flags.check_name(flag, name, names)


def written(args: argparse.Namespace) -> dict[str, Path | None]:
    return {"--output": args.output, "--json": args.json, "--write-tags": args.write_tags}


def load(subject: Subject, args: argparse.Namespace, warn: bool) -> Loaded:
    """Load a model with its sentences; ``warn`` of those with unknown subwords."""
    languages = {"source_lang": subject.source, "target_lang": subject.target}
    model, task = load_model(subject.model, subject.data, **languages)
    text = subject.text("subwords")  # binary data lose rare ones
    sentences = read_sentences(task, subject.subset, text, subject.subwords, warn=warn)
    at = {"device": model_args.device(args), "max_tokens": args.max_tokens}
    return Loaded(subject.name, subject.model, model, task, sentences, subject.subwords, **at)


def translate(
    args: argparse.Namespace, subject: Subject, references: list[str]
) -> tuple[list[str], list[str] | None]:
    """The translations of a model, and the command that makes them, unless its run has some."""
    if subject.hypotheses:
        return read_finished(subject.hypotheses, subject.reference, len(references)), None
    data, model = subject.data.absolute(), subject.model.absolute()
    folder = RunFolder(args.output.absolute().with_suffix(".translations") / subject.sha256[:16])
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
    files = list(args.logs)
    named = {name for name, _ in files}
    for subject in subjects:
        if subject.name in named:
            continue
        if subject.log:
            files.append((subject.name, subject.log))
        else:
            note(
                f"{subject.name}: no learning curves: there is no train.log beside "
                f"{subject.model}; --log NAME=FILE names what fairseq-train printed"
            )
    return files


def read_probing(given: Sequence[tuple[str, Path]], subjects: Sequence[Subject]) -> dict[str, dict]:
    """The results of ``--probing``, by the models' names and in their order."""
    checksums = {subject.name: subject.sha256 for subject in subjects}
    probed = {}
    for name, path in given:
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
        f"{subject.source} to {subject.target}; {subject.subset} set of "
        f"{subject.corpus.name if subject.corpus else subject.data}: "
        f"{count:,} sentences" + (f" ({', '.join(named)})" if named else "")
    )
