"""The contents of a report."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ..look.gates_measure import ModelGates
from ..look.heads_measure import ModelHeads
from ..look.maps_measure import ModelMaps
from ..scores.counts import SAMPLES, SEED
from ..scores.lengths_measure import ScoresByLength, SystemScore
from .curves_measure import Curve


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
    translating: list[str] | None = None  #: the command that translates as was done here

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
