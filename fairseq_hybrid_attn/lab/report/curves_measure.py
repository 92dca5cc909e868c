"""Learning curves: loss and scores against updates (HySAN, Fig. 4; Ma & Zhao 2020, Fig. 2).

Numbers come from fairseq's own log, or from scoring the checkpoints of a training:

============  ================================================================================
training      from the log: means over the updates since the previous record
validation    from the log: of a validation set; BLEU with fairseq-train's ``--eval-bleu``
checkpoints   a checkpoint's translations, scored as ``fairseq-hybrid score`` does
============  ================================================================================

fairseq's losses are in bits per token (base 2). ``loss`` is that of the criterion, with label
smoothing if it has any; ``nll_loss`` is without.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ...errors import UserError
from ..runs.training_log import TrainingLog

TRAINING, VALIDATION, CHECKPOINTS = "training", "validation", "checkpoints"

#: What is taken from a log, if it has it.
LOGGED = ("loss", "nll_loss", "bleu")
#: Names for display.
LABELS = {
    "bleu": "BLEU",
    "tokenised_bleu": "tokenised BLEU",
    "aer": "AER",
    "loss": "loss",
    "nll_loss": "loss without smoothing",
    "valid_loss": "validation loss",
}
LOWER_IS_BETTER = ("loss", "nll_loss", "valid_loss", "aer")


@dataclass(frozen=True)
class Curve:
    """A number of a run against increasing updates."""

    run: str
    what: str  #: ``loss``, ``nll_loss``, ``bleu``, ``aer``, …
    source: str  #: :data:`TRAINING`, :data:`VALIDATION` or :data:`CHECKPOINTS`
    subset: str  #: the set it was measured on; empty if unknown
    updates: tuple[int, ...]
    values: tuple[float, ...]  #: parallel to the updates; NaN where there was no finite number
    diverged: int | None = None  #: the update from which there are no finite numbers, if any
    signature: str = ""  #: of a score

    @property
    def label(self) -> str:
        return LABELS.get(self.what, self.what)

    @property
    def best(self) -> tuple[int, float] | None:
        """The update with the best value, and that value; the first of equal ones."""
        sign = 1 if self.what.partition(".")[0] in LOWER_IS_BETTER else -1
        finite = [(at, v) for at, v in zip(self.updates, self.values, strict=True) if v == v]
        return min(finite, key=lambda point: sign * point[1]) if finite else None

    def as_dict(self) -> dict:
        """Plain data for JSON; a value that is not finite is null."""
        values = [value if math.isfinite(value) else None for value in self.values]
        return {**vars(self), "values": values}


def curves_of_log(run: str, log: TrainingLog) -> list[Curve]:
    parts = [(TRAINING, "train", log.training)]
    parts += [(VALIDATION, subset, records) for subset, records in log.validation.items()]
    curves = []
    for source, subset, records in parts:
        for what in LOGGED:
            points = {at: values[what] for at, values in records.items() if what in values}
            if points:
                finite = (v if math.isfinite(v) else math.nan for v in points.values())
                of_what = tuple(points), tuple(finite), _diverged(points)
                curves.append(Curve(run, what, source, subset, *of_what))
    return curves


def _diverged(points: dict[int, float]) -> int | None:
    """Where finite numbers end for good; if they come back, as after an overflow, it is a gap."""
    since = None
    for at, value in points.items():
        since = None if math.isfinite(value) else at if since is None else since
    return since


def curves_of_scores(run: str, content: object, where: str) -> list[Curve]:
    """The curves of `score-checkpoints` or of a result of `reproduce`, a file ``where``."""
    points = content.get("curve") if isinstance(content, dict) else None
    if not points:
        raise UserError(
            f"{where} has no curve: name curve.json of score-checkpoints, or the result.json of a "
            "run whose settings have checkpoints: {curve: …}"
        )
    assert isinstance(content, dict)
    by_name: dict[str, dict[int, dict]] = {}
    try:
        for point in sorted(points, key=lambda point: point["updates"]):
            for what, score in point["scores"].items():
                by_name.setdefault(what, {})[int(point["updates"])] = score
        return [
            Curve(
                run=run,
                what=what,
                source=CHECKPOINTS,
                subset=str(content.get("curve_set", "")),
                updates=tuple(scores),
                values=tuple(float(score["value"]) for score in scores.values()),
                signature=next(iter(scores.values()))["signature"],
            )
            for what, scores in by_name.items()
        ]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{where}: its curve is invalid ({error!r})") from None


def check_distinct(curves: Iterable[Curve]) -> None:
    """Check that no run has two curves of one thing."""
    seen = set()
    for curve in curves:
        key = (curve.run, curve.what, curve.source, curve.subset)
        if key in seen:
            raise UserError(
                f"{curve.run}: {curve.what} ({curve.source}) twice; give each run its own name"
            )
        seen.add(key)
