"""The contents of a report, and what is found about each model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby

from ..look import maps_command as maps
from ..look.attentions import KINDS, Layer, Observed
from ..look.gates_measure import Gates, ModelGates
from ..look.heads_measure import Heads, ModelHeads
from ..look.loaded import Loaded
from ..look.maps_measure import ModelMaps, SentenceMaps, sentence_maps
from ..scores.counts import SAMPLES, SEED
from ..scores.lengths_measure import ScoresByLength, SystemScore
from .curves_measure import Curve
from .subjects import Subject


@dataclass(frozen=True)
class ModelFindings:
    """What was found about a model."""

    name: str
    description: str  #: architecture, and whether there are positions
    patterns: list[str]  #: a line for each kind of attention and equal layers
    parameters: int  #: shared ones count once
    path: str
    sha256: str
    missing: dict[str, str]  #: kinds of attention that it does not have, and why
    sentences: int  #: how many heads and gates are measured over
    maps: ModelMaps  #: of the sentences shown
    gates: ModelGates | None
    heads: ModelHeads
    training: list[str]  #: the command that trained it, if known
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
class SetScore:
    """A score of all systems on a test set."""

    name: str  #: with the set's, if there are several (``bleu.news``)
    label: str  #: for display
    signature: str
    sentences: int
    systems: dict[str, SystemScore]  #: others are compared with the first


@dataclass(frozen=True)
class SentenceScores:
    """A sentence of the test set, from 1, with its translations and their chrF by system."""

    number: int
    source: str
    reference: str
    translations: dict[str, str]
    scores: dict[str, float]


@dataclass(frozen=True)
class Findings:
    """The contents of a report; what was not given is empty."""

    command: list[str]  #: the report's own
    made: str  #: when
    about: str  #: languages and test set, for display under the title
    versions: dict[str, str]
    code: dict  #: this package's digest and commit
    models: list[ModelFindings]
    tags: str | None  #: where parts of speech come from
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


#: Least and most subwords of sentences that are shown unless others are asked for; and how many.
READABLE, SHOWN = (8, 20), 3


def look(
    subject: Subject,
    loaded: Loaded,
    measured: Sequence[int],
    listed: str | None,
    tags: Sequence[Sequence[str]] | None,
    first: ModelMaps | None,
    translating: list[str] | None,
) -> ModelFindings:
    """Run a model once for maps, gates and heads together.

    Gates and heads are of the sentences ``measured`` (from 0), maps of those ``listed`` as for
    ``--maps``, or the same as the ``first`` model's.  ``tags`` are parts of speech of the source;
    ``translating`` is the command that did so, if any.
    """
    if listed is None and first is None:
        shown = readable(loaded, measured)
    else:
        shown = maps.shown("--maps", listed, loaded, first)
    attentions = loaded.attentions(KINDS)
    gates, heads = Gates(attentions.layers), Heads(attentions.layers)
    add_gates = gates.use(loaded, tags)

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
        patterns=[line for layers in attentions.layers.values() for line in patterns_of(layers)],
        parameters=sum(parameter.numel() for parameter in loaded.model.parameters()),
        path=str(loaded.path),
        sha256=subject.sha256,
        missing=attentions.missing(),
        sentences=len(measured),
        maps=ModelMaps(name, about, [maps_ for maps_ in sentences if maps_ is not None]),
        gates=gates.of_model(name) if gates.layers else None,
        heads=heads.of_model(name, about),
        training=list(subject.training),
        search=subject.search_text,
        translating=translating,
    )


def readable(loaded: Loaded, among: Sequence[int]) -> list[int]:
    """The first sentences of a length at which all maps of one can be looked at together."""
    lengths = loaded.sentences.lengths
    fitting = [n for n in among if READABLE[0] <= max(lengths[n]) <= READABLE[1]]
    return sorted((fitting or sorted(among, key=lambda n: max(lengths[n])))[:SHOWN])


def patterns_of(layers: list[Layer]) -> list[str]:
    """A line for each run of equal layers: the patterns of their branches or heads.

    ``encoder 1-6: global | fw`` are branches; of heads that differ, ``2 × global, 2 × local``.
    """
    lines = []
    for heads, alike in groupby(layers, key=lambda layer: (layer.heads, layer.gate)):
        alike = list(alike)
        first, last = alike[0].number, alike[-1].number
        where = str(first) if first == last else f"{first}-{last}"
        branches = " | ".join(map(_words, heads[0]))
        what = f" ({heads[1].name} gates)" if heads[1] else ""
        lines.append(f"{alike[0].kind} {where}: {branches}{what}")
    return lines


def _words(heads: tuple[str, ...]) -> str:
    """A branch's pattern, or how many heads have which."""
    if len(set(heads)) == 1:
        return heads[0]
    return ", ".join(f"{heads.count(word)} × {word}" for word in dict.fromkeys(heads))
