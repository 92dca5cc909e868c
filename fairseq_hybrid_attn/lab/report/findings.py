"""The contents of a report, and what is found about each model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

from ...errors import UserError
from ..analysis import maps_measure as maps
from ..analysis.gates import Gates, ModelGates
from ..analysis.heads import Heads, ModelHeads
from ..analysis.maps_measure import ModelMaps, SentenceMaps, sentence_maps
from ..files import provenance
from ..files.json_files import read_written
from ..files.text import read_lines
from ..models import KINDS
from ..models.attentions import SentenceAttention
from ..models.on_text import ModelOnText, Text, note, put_on_text
from ..probing import results
from ..run.fairseq_commands import flags
from ..run.folder import RunFolder
from ..run.translating import translated
from ..scores.generate_output import read_generated
from ..tables.curves import Curve, read_curves
from ..tables.measuring import TableNumbers
from .subjects import Request, Subject
from .translations import SentenceScores, read_test_set


@dataclass(frozen=True)
class ModelFindings:
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
    scores: TableNumbers
    lengths: TableNumbers  #: by the words of the source
    examples: list[SentenceScores]  #: all sentences of the set
    curves: list[Curve]
    probing: dict[str, dict]  #: by the names of the models probed
    notes: list[str]  #: about the scores
    comparison: dict | None = None  #: the table of `compare` whose numbers stand for the scores

    @property
    def title(self) -> str:
        return f"Report: {', '.join(model.name for model in self.models)}"

    def as_dict(self) -> dict:
        return {
            **vars(self),
            "models": [model.as_dict() for model in self.models],
            "scores": self.scores.as_dict(),
            "examples": [asdict(example) for example in self.examples],
            "lengths": self.lengths.as_dict(),
            "curves": [curve.as_dict() for curve in self.curves],
        }


def measure(
    subjects: Mapping[str, Subject],
    asked: Request,
    probing: Mapping[str, dict],
    comparison: dict | None = None,
) -> Findings:
    """Translate the test set with the models, score that, and look into them."""
    curves = [curve for name, subject in subjects.items() for curve in curves_of(name, subject)]
    # Sentences first: what cannot be compared shows before hours of work.
    models = {name: subject.trained for name, subject in subjects.items()}
    text = Text(asked.subset, subwords=asked.subwords)
    loaded = list(put_on_text(models, text, asked.device, asked.max_tokens))
    usable = [model.usable(asked.sentences, skip_long=asked.skip_long) for model in loaded]
    shown = [readable(loaded[0], usable[0])]
    if asked.maps is not None:
        shown = [maps.shown(loaded[0], "--maps", asked.maps, [], asked.skip_long)]
    for model in loaded[1:]:
        shown.append(maps.shown(model, "--maps", asked.maps, shown[0], asked.skip_long))
    test_set = read_test_set(next(iter(subjects.values())), asked.subset, loaded[0])
    made = [
        translate(asked, subject, model.subwords, test_set.references)
        for subject, model in zip(subjects.values(), loaded, strict=True)
    ]
    systems = {name: lines for name, (lines, _) in zip(subjects, made, strict=True)}
    commands = [command for _, command in made]
    each = zip(subjects.values(), loaded, usable, shown, commands, strict=True)
    found = [look_into(*of_model) for of_model in each]
    return Findings(
        command=list(asked.command),
        made=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        about=test_set.about,
        versions=provenance.versions(),
        code=provenance.code(),
        models=found,
        comparison=comparison,
        scores=test_set.scores(systems),
        lengths=test_set.by_length(systems),
        examples=test_set.examples(systems),
        curves=curves,
        probing=dict(probing),
        notes=test_set.notes,
    )


def translate(
    asked: Request, subject: Subject, subwords: str, references: list[str]
) -> tuple[list[str], list[str] | None]:
    """The translations of a model, and the command that makes them, unless its run has some."""
    if subject.hypotheses:
        return read_lines(subject.hypotheses), None
    trained = subject.trained
    command, output = translated(
        *(trained.binary, trained.checkpoint, asked.subset),
        RunFolder(asked.page.absolute().with_suffix(".translations") / subject.sha256[:16]),
        languages=trained.languages,
        search=[*subject.search, *flags(skip_invalid_size_inputs_valid_test=asked.skip_long)],
        on_cpu=asked.device == "cpu",
        user_dir=asked.user_dir,
    )
    missing = "empty" if asked.skip_long else "error"
    how = subwords, subject.tokenizer, trained.languages[1], missing
    return read_generated(output, [references], *how)[0], command


def curves_of(name: str, subject: Subject) -> list[Curve]:
    """What the log that was found has; a note if that is nothing."""
    reason = f"there is no train.log beside {subject.trained.checkpoint}"
    try:
        if subject.log:
            return read_curves([(name, subject.log)])
    except UserError as error:
        reason = str(error)
    note(f"{name}: no learning curves: {reason}")
    return []


def read_probing(
    given: Sequence[tuple[str, Path]], subjects: Mapping[str, Subject]
) -> dict[str, dict]:
    """The results of ``--probing`` by the models' names, in their order."""
    found, paths = {}, dict(given)
    if len(paths) < len(given):
        raise UserError("--probing: give each model one file")

    def use(content: dict) -> list:
        shown = results.grid({"": content}), results.notes({"": content})
        return [*shown, content["model"], content["model_sha256"]]

    for name, subject in subjects.items():
        if path := paths.get(name):
            written = f"--probing {path}", path, "probe --write", use
            found[name] = probed = read_written(*written)
            if probed["model_sha256"] != subject.sha256:
                raise UserError(
                    f"--probing {name}={path} is of {probed['model']}, which is or was another "
                    f"checkpoint than {name}; probe this one"
                )
    return found


#: Least and most subwords of sentences that are shown unless others are asked for; and how many.
READABLE, SHOWN = (8, 20), 3


def look_into(
    subject: Subject,
    loaded: ModelOnText,
    measured: Sequence[int],
    shown: Sequence[int],
    translating: list[str] | None,
) -> ModelFindings:
    """Run a model once for maps, gates and heads together.

    Gates and heads are of the sentences ``measured`` (from 0), maps of those ``shown``.
    """
    attentions = loaded.attentions(KINDS)
    gates, heads = Gates(attentions.layers), Heads(attentions.layers)

    def use(number: int, observed: SentenceAttention) -> SentenceMaps | None:
        if number in measured:
            gates.add(observed)
            heads.add(observed)
        return sentence_maps(loaded, attentions, number, observed) if number in shown else None

    sentences = loaded.observe(attentions, {*measured, *shown}, use, needed=False)
    name, about = loaded.name, loaded.description
    return ModelFindings(
        name=name,
        description=about,
        parameters=sum(parameter.numel() for parameter in loaded.model.parameters()),
        path=str(loaded.trained.checkpoint),
        sha256=subject.sha256,
        missing=attentions.missing(),
        sentences=len(measured),
        maps=ModelMaps(name, about, [maps_ for maps_ in sentences if maps_ is not None]),
        gates=gates.of_model(name) if gates.layers else None,
        heads=heads.of_model(name, about),
        search=subject.search_text,
        translating=translating,
    )


def readable(loaded: ModelOnText, among: Sequence[int]) -> list[int]:
    """The first sentences of a length at which all maps of one can be looked at together."""
    lengths = loaded.sentences.lengths
    fitting = [n for n in among if READABLE[0] <= max(lengths[n]) <= READABLE[1]]
    return sorted((fitting or sorted(among, key=lambda n: max(lengths[n])))[:SHOWN])
