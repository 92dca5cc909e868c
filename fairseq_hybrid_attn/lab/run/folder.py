"""The folder of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..corpora.prepared import PreparedFolder


@dataclass(frozen=True)
class RunFolder:
    path: Path

    checkpoints = property(lambda self: self.path / "checkpoints")
    tensorboard = property(lambda self: self.path / "tensorboard")
    trained = property(lambda self: self.path / "trained.json")
    model = property(lambda self: self.path / "model.pt")
    translation = property(lambda self: self.path / "translation")
    hypotheses = property(lambda self: self.path / "hypotheses.txt")
    score = property(lambda self: self.path / "score.json")
    alignment_score = property(lambda self: self.path / "alignment.json")
    alignment = property(lambda self: self.path / "gold.align")
    gates = property(lambda self: self.path / "gates.json")
    aligned_text = property(lambda self: self.path / "text")
    curve = property(lambda self: self.path / "curve.json")
    begun = property(lambda self: self.path / "begun.json")
    result = property(lambda self: self.path / "result.json")
    counts = property(lambda self: self.path / "counts.json.gz")
    lock = property(lambda self: self.path / ".lock")
    #: What prepares text for its model: a copy, so that it translates wherever it is.
    for_model = property(lambda self: PreparedFolder(self.path).copied)
    #: What a run makes of a trained model, the last first.
    following = property(
        lambda self: [
            *(self.result, self.counts, self.curve, self.path / "curve", self.gates),
            *(self.alignment_score, self.alignment, self.score, self.hypotheses),
            self.translation,
        ]
    )

    def generated(self, subset: str = "test") -> Path:
        return self.translation / f"generate-{subset}.txt"

    def point(self, updates: int) -> RunFolder:
        """Where a checkpoint of the curve is evaluated."""
        return RunFolder(self.path / "curve" / str(updates))

    def log(self, step: str) -> Path:
        return self.path / "logs" / f"{step}.log"
