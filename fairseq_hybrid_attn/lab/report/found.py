"""All that a report is made of."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from ..curves.measure import Curve
from ..gates.measure import ModelGates
from ..heads.measure import ModelHeads
from ..lengths.measure import ScoresByLength, SystemScore
from ..maps.measure import ModelMaps
from ..scoring.significance import SAMPLES, SEED
from .summary import Summary


@dataclass(frozen=True)
class Looked:
    """What was seen of a model.

    Attributes:
        summary: what it is.
        training: the command that trained it, if that is known.
        missing: kinds of attention that it does not have, and why.
        sentences: over how many heads and gates are measured.
        maps: of the sentences that are shown.
        gates: None if it has none.
        heads: where they look, and how much they differ.
    """

    summary: Summary
    training: list[str] | None
    missing: dict[str, str]
    sentences: int
    maps: ModelMaps
    gates: ModelGates | None
    heads: ModelHeads

    @property
    def name(self) -> str:
        """For people."""
        return self.summary.name

    def as_dict(self) -> dict:
        """For JSON; maps are left out."""
        return {
            **self.summary.as_dict(),
            "training": self.training,
            "missing": self.missing,
            "sentences": self.sentences,
            "gates": vars(self.gates) if self.gates else None,
            "heads": self.heads.heads,
            "layers": self.heads.layers,
        }


@dataclass(frozen=True)
class SetScore:
    """A score of all systems on a test set.

    Attributes:
        name: of the score, with the set's where there are several (``bleu.news``).
        label: for people.
        signature: sacrebleu's.
        sentences: of the set.
        systems: by name; all but the first are compared with it.
    """

    name: str
    label: str
    signature: str
    sentences: int
    systems: dict[str, SystemScore]


@dataclass(frozen=True)
class Found:
    """All that a report is made of.

    Attributes:
        command: the command line that made it.
        made: when.
        text: which test set, for people.
        versions: of the software.
        code: this package's digest and commit.
        models: at least one.
        tags: where parts of speech come from, if any are asked for.
        scores: empty without translations.
        lengths: None likewise.
        curves: empty without logs.
        probing: by the names of the models that have been probed, what `probe` wrote.
    """

    command: list[str]
    made: str
    text: str
    versions: dict[str, str]
    code: dict
    models: list[Looked]
    tags: str | None = None
    scores: list[SetScore] = field(default_factory=list)
    lengths: ScoresByLength | None = None
    curves: list[Curve] = field(default_factory=list)
    probing: dict[str, dict] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Of the page."""
        return f"Report: {', '.join(model.name for model in self.models)}"

    def as_dict(self) -> dict:
        """For JSON."""
        return {
            "command": self.command,
            "made": self.made,
            "text": self.text,
            "versions": self.versions,
            "code": self.code,
            "models": [model.as_dict() for model in self.models],
            "tags": self.tags,
            "scores": [asdict(score) for score in self.scores],
            "samples": SAMPLES,
            "seed": SEED,
            "lengths": self.lengths.as_dict() if self.lengths else None,
            "curves": [curve.as_dict() for curve in self.curves],
            "probing": self.probing,
        }
