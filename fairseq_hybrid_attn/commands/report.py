"""All that is known of one or several models on a test set, in one HTML page.

  fairseq-hybrid report data-bin --path model.pt --gen-subset test --subwords subword-nmt \\
      --output report.html
  fairseq-hybrid report data-bin --path plain.pt mma.pt --names plain mma --gen-subset test \\
      --subwords subword-nmt --reference raw/test.en --target-lang en \\
      --hypotheses plain=plain.en --hypotheses mma=mma.en --log plain=plain.log --log mma=mma.log \\
      --output report.html --json report.json
  fairseq-hybrid report --run reproduction/runs/full/mma/table2/{base,mma}/bleu/seed1 \\
      --output report.html

The page says what each model is: architecture, patterns, parameters, checksum.  With translations,
it has scores with their signatures, and BLEU by source length; of several models, each is
compared with the first by paired bootstrap.  It has interactive attention maps of a few sentences,
gates of models with gates, distance, entropy and difference of heads, and, with logs, learning
curves.  What does not apply is left out, and it is said why.  The numbers are those of the
commands score, lengths, maps, gates, heads and curves.

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

from ..analysis import page
from ..analysis.curves import Curve, check_distinct
from ..analysis.figures import gates as gate_figure
from ..analysis.figures import style
from ..analysis.gates import Gates
from ..analysis.heads import Heads
from ..analysis.lengths import ScoresByLength, compare_systems, score_by_length, word_counts
from ..analysis.maps import maps_of
from ..analysis.observing import KINDS, Observed
from ..analysis.page.report import report
from ..analysis.summary import summary
from ..errors import UserError
from ..experiments import provenance
from ..experiments.finished import FinishedRun, finished_run
from ..files import check_outputs, read_lines, write_json
from ..inference import Sentences
from ..scoring import build_metric, default_scores
from ..scoring.test_sets import read_test_sets, slices
from . import curves, gates, lengths, looking, maps, several
from .generated import join_subwords
from .report_parts import PARTS, Found, Looked, SetScore
from .score import TOKENIZERS, language

HELP = "all of a model on a test set in one HTML page; several are compared"

#: The unit of the numbers about heads, as `heads` has it.
UNIT = "subwords"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    several.add_models(parser, required=False)
    looking.add_sentences(parser, required=False)
    several.add_corpus(parser)
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
    group = parser.add_argument_group("translations, each under the name of its model")
    lengths.add_systems(group)
    group.add_argument("--reference", type=Path, metavar="REF", help="untouched text, one a line")
    group.add_argument("--tokenizer", choices=TOKENIZERS, help="of --generated; see `score`")
    group.add_argument("--lowercase", action="store_true", help="ignore case; see `score`")
    group.add_argument(
        "--test-sets", type=Path, metavar="FILE", help="what sets it consists of; see `score`"
    )
    group.add_argument(
        "--source-words",
        type=Path,
        metavar="FILE",
        help="tokenised source, whose words are counted (default: those of the model's text)",
    )
    parser.add_argument(
        "--log",
        dest="logs",
        action="append",
        type=curves.named_path,
        metavar="NAME=FILE",
        help="log of the training of a model, or as `curves` has it; may be repeated",
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
    runs = [finished_run(path) for path in args.runs or ()]
    if runs:
        take_from_runs(args, runs)
    check_arguments(args)
    texts = Texts(args)
    found_curves = read_curves(args)
    models, sentences = look(args, texts)
    scores, by_length = texts.score(args, sentences)
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
        lengths=by_length,
        curves=found_curves,
    )
    parts = [make(found) for make in tqdm(PARTS, unit=" parts", file=sys.stderr)]
    maps.write_text(args.output, report(found.title, parts))
    if args.json:
        write_json(args.json, found.as_dict())


def take_from_runs(args: argparse.Namespace, runs: list[FinishedRun]) -> None:
    """Fill in what the runs know.

    Raises:
        UserError: if that is given as well, or they have not one test set.
    """
    known = {
        "DATA": args.data,
        "--path": args.path,
        "--gen-subset": args.gen_subset,
        "--source": args.source,
        "--target": args.target,
        "--subwords": args.subwords,
        "--source-lang": args.source_lang,
        "--target-lang": args.target_lang,
        "--hypotheses or --generated": args.systems,
        "--reference": args.reference,
        "--tokenizer": args.tokenizer,
        "--lowercase": args.lowercase,
        "--test-sets": args.test_sets,
        "--source-words": args.source_words,
        "--log": args.logs,
    }
    for flag, value in known.items():
        if value:
            raise UserError(f"--run knows that; leave out {flag}")
    first = runs[0]
    for path, one in zip(args.runs, runs, strict=True):
        if one.corpus != first.corpus:
            raise UserError(
                f"--run {path} is of the corpus {one.corpus}, the first of {first.corpus}; models "
                "are compared on one test set"
            )
    if args.names and len(args.names) != len(runs):
        raise UserError(f"--names gives {len(args.names)} names for {len(runs)} runs")
    args.names = args.names or several.names_of(args.runs)
    args.data, args.path = first.data, [one.folder.model for one in runs]
    # Text rather than the binarised set, which has lost unknown subwords.
    text = first.corpus / "subwords"
    args.source, args.target = (text / f"test.{code}" for code in (first.source, first.target))
    args.source_lang, args.target_lang = first.source, first.target
    args.subwords, args.lowercase = first.subwords, first.lowercase
    args.reference, args.source_words = first.reference, first.source_words
    args.test_sets = first.test_sets
    named = list(zip(args.names, runs, strict=True))
    args.systems = [lengths.System(name, one.folder.hypotheses, False) for name, one in named]
    args.logs = [(name, one.folder.path) for name, one in named if one.has_curves]


def check_arguments(args: argparse.Namespace) -> None:
    """Refuse arguments that do not go together.

    Raises:
        UserError: naming the flag and the way out.
    """
    needed = {"DATA": args.data, "--path": args.path, "--subwords": args.subwords}
    lacking = [flag for flag, value in needed.items() if not value]
    if lacking:
        raise UserError(f"give {' and '.join(lacking)}; or --run FOLDER alone")
    several.check(args)
    args.names = args.names or several.names_of(args.path)
    inputs = [*args.path, args.source, args.target, args.tags, args.reference, args.source_words]
    inputs += [args.test_sets, *(one.path for one in args.systems or ())]
    inputs += [path for _, path in args.logs or ()]
    inputs = [path for path in inputs if path]
    gates.check_tags(args, inputs)
    outputs = {"--output": args.output, "--json": args.json, "--write-tags": args.write_tags}
    check_outputs({flag: path for flag, path in outputs.items() if path}, inputs)
    page.require()
    style.require()
    check_translations(args)
    for name, _ in args.logs or ():
        check_name("--log", name, args.names)


def check_name(flag: str, name: str, models: list[str]) -> None:
    """Refuse a name of no model.

    Raises:
        UserError: naming the models.
    """
    if name not in models:
        raise UserError(
            f"{flag} {name}=…: there is no such model; they are called {', '.join(models)} "
            "(--names calls them otherwise)"
        )


def check_translations(args: argparse.Namespace) -> None:
    """Refuse arguments about translations that do not go together.

    Raises:
        UserError: naming the flag and the way out.
    """
    flag = "--hypotheses or --generated"
    if not args.systems:
        others = {
            "--reference": args.reference,
            "--tokenizer": args.tokenizer,
            "--lowercase": args.lowercase,
            "--test-sets": args.test_sets,
            "--source-words": args.source_words,
        }
        for other, value in others.items():
            if value:
                raise UserError(f"{other} is for translations; give {flag} as well")
        return
    lengths.check_names(args.systems)
    for one in args.systems:
        check_name(flag, one.name, args.names)
    without = set(args.names).difference(one.name for one in args.systems)
    if without:
        raise UserError(f"{flag}: there are no translations of {', '.join(sorted(without))}")
    for needed, value in {"--reference": args.reference, "--target-lang": args.target_lang}.items():
        if not value:
            raise UserError(f"translations are scored: give {needed} as well")
    if any(one.generated for one in args.systems):
        if args.tokenizer is None:
            raise UserError("--generated needs --tokenizer as well (none is a choice)")
    elif args.tokenizer not in (None, "none"):
        raise UserError(
            f"--tokenizer {args.tokenizer} goes with --generated; --hypotheses is text as is"
        )


class Texts:
    """The translations and their reference, read before any model is.

    Args:
        args: of the command.

    Raises:
        UserError: if they cannot be read, or do not fit each other.
    """

    def __init__(self, args: argparse.Namespace):
        self.systems: dict[str, list[str]] = {}
        if not args.systems:
            return
        self.target = language(args.target_lang)
        self.references = read_lines(args.reference)
        count = len(self.references)
        given = {one.name: one for one in args.systems}
        self.systems = {
            name: lengths.translations(given[name], args, self.target, count) for name in args.names
        }
        sets = read_test_sets(args.test_sets, count) if args.test_sets else {}
        self.slices = slices(sets, count)
        self.words = word_counts(read_lines(args.source_words)) if args.source_words else None
        if self.words is not None and len(self.words) != count:
            raise UserError(
                f"{args.source_words} has {len(self.words):,} lines, the reference "
                f"{args.reference} has {count:,}"
            )

    def check(self, args: argparse.Namespace, sentences: Sentences) -> None:
        """See to it that they are of these sentences, as far as their number tells.

        Raises:
            UserError: if not.
        """
        if self.systems and len(self.references) != len(sentences):
            raise UserError(
                f"--reference {args.reference} has {len(self.references):,} lines, but the "
                f"sentences of the models are {len(sentences):,}; are they the same test set?"
            )

    def score(
        self, args: argparse.Namespace, sentences: Sentences
    ) -> tuple[list[SetScore], ScoresByLength | None]:
        """All scores, and those by length; nothing without translations."""
        if not self.systems:
            return [], None
        todo = [
            (name, suffix, part)
            for suffix, part in self.slices.items()
            for name in default_scores(self.target)
        ]
        scores = [self._score(args, *one) for one in tqdm(todo, unit=" scores", file=sys.stderr)]
        words = self.words
        if words is None:
            lines = (join_subwords(" ".join(one), args.subwords) for one in sentences.source)
            words = word_counts(lines)
        by_length = score_by_length(
            "bleu",
            self.systems,
            self.references,
            words,
            self.target,
            lowercase=args.lowercase,
            progress=lambda parts: tqdm(parts, unit=" groups", file=sys.stderr),
        )
        return scores, by_length

    def _score(self, args: argparse.Namespace, name: str, suffix: str, part: slice) -> SetScore:
        references = self.references[part]
        systems = {system: lines[part] for system, lines in self.systems.items()}
        metric = build_metric(name, self.target, args.lowercase)
        signature = metric.score(next(iter(systems.values())), references).signature
        return SetScore(
            name=f"{name}{suffix}",
            label=metric.label,
            signature=signature,
            sentences=len(references),
            systems=compare_systems(
                name, systems, references, self.target, lowercase=args.lowercase
            ),
        )


def read_curves(args: argparse.Namespace) -> list[Curve]:
    """The learning curves of the logs.

    Raises:
        UserError: if one cannot be read.
    """
    files = [(name, path) for name, given in args.logs or () for path in curves.files_of(given)]
    found = [curve for name, path in files for curve in curves.read_curves(name, path)]
    check_distinct(found)
    return found


def look(args: argparse.Namespace, texts: Texts) -> tuple[list[Looked], Sentences]:
    """All models, one after the other, and the sentences as the first one reads them.

    Raises:
        UserError: if one cannot be looked at.
    """
    models: list[Looked] = []
    tags = None
    for loaded in several.load(args):
        if not models:
            first = loaded.sentences
            texts.check(args, first)
        measured = several.wanted(args, loaded)
        before = [one.number for one in models[0].maps.sentences] if models else None
        shown = maps.wanted("--maps", args.maps, loaded, before)
        attentions = several.attentions_of(loaded, list(KINDS))
        gated = Gates(attentions.layers)
        if gated.layers and tags is None:  # the words are the same for all models
            tags = gates.tags_of(args, loaded.sentences)
        heads = Heads()
        uses = {
            "gates": gated.use(loaded.sentences, args.subwords, tags),
            "heads": heads.use(attentions, loaded.sentences, args.subwords, UNIT),
        }
        make_maps = maps_of(attentions, loaded.sentences, args.subwords)
        here, there = set(measured), set(shown)

        def use(number: int, observed: Observed):
            if number in here:  # noqa: B023  (used within this turn of the loop)
                for one in uses.values():  # noqa: B023
                    one(number, observed)
            return make_maps(number, observed) if number in there else None  # noqa: B023

        found = several.look(args, loaded, attentions, sorted(here | there), use)
        models.append(
            Looked(
                summary=summary(
                    *(loaded.name, loaded.description, loaded.model),
                    *(attentions.layers, loaded.path),
                ),
                training=None,
                missing=attentions.missing(),
                sentences=len(measured),
                maps=page.ModelMaps(
                    loaded.name, loaded.description, [one for one in found if one is not None]
                ),
                gates=gate_figure.of(loaded.name, gated) if gated.layers else None,
                heads=heads.rows(),
                differences=heads.differences(),
            )
        )
    return models, first


def name_of_text(args: argparse.Namespace, count: int) -> str:
    """Which sentences, for people."""
    text = f"{args.source}" if args.source else f"{args.gen_subset or 'test'} of {args.data}"
    measured = "" if args.sentences == "all" else f"; measured: {args.sentences}"
    return f"{text}, {count:,} sentences{measured}"
