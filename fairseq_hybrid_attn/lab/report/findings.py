"""The contents of a report, and what is found about each model."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from ...errors import UserError
from ..analysis import maps_command as maps
from ..analysis.gates_measure import Gates, ModelGates
from ..analysis.heads_measure import Heads, ModelHeads
from ..analysis.maps_measure import ModelMaps, SentenceMaps, sentence_maps
from ..files import provenance
from ..files.text import read_lines
from ..models import KINDS
from ..models import arguments as model_args
from ..models.attentions import Observed
from ..models.loading import load_model
from ..models.on_text import Loaded, note
from ..models.sentences import read_sentences
from ..probing.results import read_results
from ..runs.fairseq_commands import RunFolder, flags
from ..scores.counts import SAMPLES, SEED
from ..scores.generate_output import read_generated
from ..scores.lengths_measure import ScoresByLength
from . import curves_command as curves
from .curves_measure import Curve
from .subjects import Subject
from .translating import translated
from .translations import SentenceScores, SetScore, joined, read_test_set


@dataclass(frozen=True)
class ModelFindings:
    """What was found about a model."""

    name: str
    description: str  #: architecture, and whether there are positions
    parameters: int  #: shared ones count once
    path: str
    sha256: str
    missing: dict[str, str]  #: kinds of attention that it does not have, and why
    sentences: int  #: how many heads and gates are measured over
    maps: ModelMaps  #: of the sentences shown
    gates: ModelGates | None
    heads: ModelHeads
    search: str  #: flags of fairseq-generate
    translating: list[str] | None  #: the command that translates as was done here

    def as_dict(self) -> dict:
        """Plain data for JSON, without maps."""
        return {
            **{key: value for key, value in vars(self).items() if key != "maps"},
            "gates": vars(self.gates) if self.gates else None,
            "heads": self.heads.heads,
            "layers": self.heads.layers,
        }


@dataclass(frozen=True)
class Findings:
    """The contents of a report; what was not given is empty."""

    command: list[str]  #: the report's own
    made: str  #: when
    about: str  #: languages and test set, for display under the title
    versions: dict[str, str]
    code: dict  #: this package's digest and commit
    models: list[ModelFindings]
    scores: list[SetScore]
    lengths: ScoresByLength
    examples: list[SentenceScores]  #: all sentences of the set
    curves: list[Curve]
    probing: dict[str, dict]  #: by the names of the models probed
    notes: list[str]  #: about the scores

    @property
    def title(self) -> str:
        return f"Report: {', '.join(model.name for model in self.models)}"

    def as_dict(self) -> dict:
        return {
            **vars(self),
            "models": [model.as_dict() for model in self.models],
            "scores": [asdict(score) for score in self.scores],
            "examples": [asdict(example) for example in self.examples],
            "samples": SAMPLES,
            "seed": SEED,
            "lengths": self.lengths.as_dict(),
            "curves": [curve.as_dict() for curve in self.curves],
        }


def measure(args: argparse.Namespace, subjects: Sequence[Subject]) -> Findings:
    """Translate the test set with the models, score that, and look into them."""
    probed = dict(read_probing(args.probing, subjects))
    read_curves = curves.read_curves(log_files(subjects))
    # Sentences first: what cannot be compared shows before hours of work.
    loaded = [load(subject, args, warn=subject is subjects[0]) for subject in subjects]
    check_same_text(subjects, loaded)
    usable = [model_args.selected(args, model) for model in loaded]
    test_set = read_test_set(subjects[0], loaded[0].sentences)
    made = {subject.name: translate(args, subject, test_set.references) for subject in subjects}
    systems = {name: translations for name, (translations, _) in made.items()}
    models: list[ModelFindings] = []
    for subject, model, numbers in zip(subjects, loaded, usable, strict=True):
        first = models[0].maps if models else None
        _, command = made[subject.name]
        models.append(look(subject, model, numbers, args.maps, first, command))
    return Findings(
        command=args.command_line,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        about=test_set.about,
        versions=provenance.versions(),
        code=provenance.code(),
        models=models,
        scores=test_set.scores(systems),
        lengths=test_set.by_length(systems),
        examples=test_set.examples(systems),
        curves=read_curves,
        probing=probed,
        notes=test_set.notes,
    )


def load(subject: Subject, args: argparse.Namespace, warn: bool) -> Loaded:
    """Load a model with its sentences; ``warn`` of those with unknown subwords."""
    languages = {"source_lang": subject.source, "target_lang": subject.target}
    model, task = load_model(subject.model, subject.data, **languages)
    text = subject.text("subwords")  # binary data lose rare ones
    sentences = read_sentences(task, subject.subset, text, subject.subwords, warn=warn)
    at = {"device": model_args.device(args), "max_tokens": args.max_tokens}
    return Loaded(subject.name, subject.model, model, task, sentences, subject.subwords, **at)


def check_same_text(subjects: Sequence[Subject], loaded: Sequence[Loaded]) -> None:
    """Refuse models of other test sets: they cannot be compared."""
    texts = [joined(model.sentences.source, model.subwords) for model in loaded]
    for subject, text in zip(subjects, texts, strict=True):
        if text != texts[0]:
            raise UserError(
                f"{subject.name}: its {subject.subset} set in {subject.data} is not that of "
                f"{subjects[0].name} in {subjects[0].data}; models are compared on the same "
                "sentences, and --data names one folder for all"
            )


def translate(
    args: argparse.Namespace, subject: Subject, references: list[str]
) -> tuple[list[str], list[str] | None]:
    """The translations of a model, and the command that makes them, unless its run has some."""
    if subject.hypotheses:
        return read_lines(subject.hypotheses), None
    skip_long = args.too_long == "skip"
    command, output = translated(
        *(subject.data, subject.model, subject.subset),
        RunFolder(args.output.absolute().with_suffix(".translations") / subject.sha256[:16]),
        languages=(subject.source, subject.target),
        search=[*subject.search, *flags(skip_invalid_size_inputs_valid_test=skip_long)],
        on_cpu=model_args.device(args) == "cpu",
        user_dir=args.user_dir,
    )
    how = subject.subwords, subject.tokenizer, subject.target, "empty" if skip_long else "error"
    return read_generated(output, [references], *how)[0], command


def log_files(subjects: Sequence[Subject]) -> Iterator[tuple[str, Path]]:
    for subject in subjects:
        if subject.log:
            yield subject.name, subject.log
        else:
            where = f"there is no train.log beside {subject.model}"
            note(f"{subject.name}: no learning curves: {where}")


def read_probing(
    given: Sequence[tuple[str, Path]], subjects: Sequence[Subject]
) -> Iterator[tuple[str, dict]]:
    """The results of ``--probing`` by the models' names, in their order."""
    paths = dict(given)
    for subject in subjects:
        if path := paths.get(subject.name):
            probed = read_results("--probing", path)
            if probed["model_sha256"] != subject.sha256:
                raise UserError(
                    f"--probing {subject.name}={path} is of {probed['model']}, which is or was "
                    f"another checkpoint than {subject.name}; probe this one"
                )
            yield subject.name, probed


#: Least and most subwords of sentences that are shown unless others are asked for; and how many.
READABLE, SHOWN = (8, 20), 3


def look(
    subject: Subject,
    loaded: Loaded,
    measured: Sequence[int],
    listed: str | None,
    first: ModelMaps | None,
    translating: list[str] | None,
) -> ModelFindings:
    """Run a model once for maps, gates and heads together.

    Gates and heads are of the sentences ``measured`` (from 0), maps of those ``listed`` as for
    ``--maps``, or the same as the ``first`` model's.
    """
    if listed is None and first is None:
        shown = readable(loaded, measured)
    else:
        shown = maps.shown("--maps", listed, loaded, first)
    attentions = loaded.attentions(KINDS)
    gates, heads = Gates(attentions.layers), Heads(attentions.layers)
    add_gates = gates.use(loaded, None)

    def use(number: int, observed: Observed) -> SentenceMaps | None:
        if number in measured:
            add_gates(number, observed)
            heads.add(observed)
        return sentence_maps(loaded, attentions, number, observed) if number in shown else None

    sentences = loaded.look(attentions, {*measured, *shown}, use, needed=False)
    name, about = loaded.name, loaded.description
    return ModelFindings(
        name=name,
        description=about,
        parameters=sum(parameter.numel() for parameter in loaded.model.parameters()),
        path=str(loaded.path),
        sha256=subject.sha256,
        missing=attentions.missing(),
        sentences=len(measured),
        maps=ModelMaps(name, about, [maps_ for maps_ in sentences if maps_ is not None]),
        gates=gates.of_model(name) if gates.layers else None,
        heads=heads.of_model(name, about),
        search=subject.search_text,
        translating=translating,
    )


def readable(loaded: Loaded, among: Sequence[int]) -> list[int]:
    """The first sentences of a length at which all maps of one can be looked at together."""
    lengths = loaded.sentences.lengths
    fitting = [n for n in among if READABLE[0] <= max(lengths[n]) <= READABLE[1]]
    return sorted((fitting or sorted(among, key=lambda n: max(lengths[n])))[:SHOWN])
