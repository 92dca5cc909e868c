"""All that a report is made of."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from ..curves.measure import Curve
from ..gates.measure import ModelGates
from ..heads.measure import ModelHeads
from ..lengths.measure import ScoresByLength, SystemScore
from ..maps.measure import ModelMaps
from ..scoring.significance import SAMPLES, SEED


@dataclass(frozen=True)
class ModelFindings:
    """What was found in a model.

    Attributes:
        name: for display.
        description: architecture, and whether there are positions.
        patterns: a line for each kind of attention and equal layers.
        parameters: their number; shared ones count once.
        path: of the checkpoint.
        sha256: of that file.
        missing: kinds of attention that it does not have, and why.
        sentences: how many heads and gates are measured over.
        maps: of the sentences shown.
        gates: None if it has none.
        heads: where they look, and how much they differ.
        training: the command that trained it, if known.
    """

    name: str
    description: str
    patterns: list[str]
    parameters: int
    path: str
    sha256: str
    missing: dict[str, str]
    sentences: int
    maps: ModelMaps
    gates: ModelGates | None
    heads: ModelHeads
    training: list[str] | None = None

    def as_dict(self) -> dict:
        """Return plain data for JSON, without maps."""
        return {
            **{key: value for key, value in vars(self).items() if key != "maps"},
            "gates": vars(self.gates) if self.gates else None,
            "heads": self.heads.heads,
            "layers": self.heads.layers,
        }


@dataclass(frozen=True)
class SetScore:
    """A score of all systems on a test set.

    Attributes:
        name: of the score; with the set's if there are several (``bleu.news``).
        label: for display.
        signature: sacrebleu's.
        sentences: of the set.
        systems: by name; others are compared with the first.
    """

    name: str
    label: str
    signature: str
    sentences: int
    systems: dict[str, SystemScore]


@dataclass(frozen=True)
class Findings:
    """All that a report is made of.

    Attributes:
        command: the command line of the report.
        made: when.
        text: the name of the test set.
        versions: of the software.
        code: this package's digest and commit.
        models: at least one.
        tags: where parts of speech come from, if there are any.
        scores: empty without translations.
        lengths: None without translations.
        curves: empty without logs.
        probing: results of `probe`, by the names of the models probed.
    """

    command: list[str]
    made: str
    text: str
    versions: dict[str, str]
    code: dict
    models: list[ModelFindings]
    tags: str | None = None
    scores: list[SetScore] = field(default_factory=list)
    lengths: ScoresByLength | None = None
    curves: list[Curve] = field(default_factory=list)
    probing: dict[str, dict] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Return the title of the page."""
        return f"Report: {', '.join(model.name for model in self.models)}"

    def as_dict(self) -> dict:
        """Return plain data for JSON."""
        return {
            **vars(self),
            "models": [model.as_dict() for model in self.models],
            "scores": [asdict(score) for score in self.scores],
            "samples": SAMPLES,
            "seed": SEED,
            "lengths": self.lengths.as_dict() if self.lengths else None,
            "curves": [curve.as_dict() for curve in self.curves],
        }
