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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import UserError
from ..figures import style
from ..files.json_files import parse_json
from ..files.tabular import Grid
from ..files.typed import read
from ..run.folder import RunFolder
from ..run.results import CurvePoint, StoredScore
from ..run.training_log import TrainingLog, read_log
from ..scores import lower_is_better

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
#: Drawn by default, if there are any.
PANELS = ("bleu", "loss")

#: How the curves of training look; colours stand for runs.
_TRAINING = {"marker": "", "linewidth": 1.0, "alpha": 0.55}
#: Logged validation beside scored checkpoints is dashed.
_BESIDE_SCORED = {"linestyle": "--", "markerfacecolor": "none"}
#: Points of a curve above which they have no markers.
_MARKED = 30


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
        sign = 1 if lower_is_better(self.what) else -1
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
    read_points = read(tuple[CurvePoint, ...], points, f"{where}: its curve is invalid")
    by_name: dict[str, dict[int, StoredScore]] = {}
    for point in sorted(read_points, key=lambda point: point.updates):
        for what, score in point.scores.items():
            by_name.setdefault(what, {})[point.updates] = score
    return [
        Curve(
            run=run,
            what=what,
            source=CHECKPOINTS,
            subset=str(content.get("curve_set", "")),
            updates=tuple(scores),
            values=tuple(float(score.value) for score in scores.values()),
            signature=next(iter(scores.values())).signature,
        )
        for what, scores in by_name.items()
    ]


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


def read_curves(runs: Iterable[tuple[str, Path]]) -> list[Curve]:
    """The curves of runs, of their names and paths; a folder of `reproduce` may have two files."""
    curves: list[Curve] = []
    for name, path in runs:
        files = [path]
        if path.is_dir():
            folder = RunFolder(path)
            files = [file for file in (folder.log("train"), folder.curve) if file.exists()]
            if not files:
                raise UserError(
                    f"{path} is not a run's folder: it has no logs/train.log and no curve.json"
                )
        for file in files:
            try:
                content = parse_json(file)
            except ValueError:  # a log, whatever its name, of which a character may be cut off
                curves += curves_of_log(name, read_log(file))
            else:
                curves += curves_of_scores(name, content, str(file))
    check_distinct(curves)
    return curves


@dataclass(frozen=True)
class CurvePanel:
    """One of the plots above one another."""

    label: str
    curves: list[Curve]
    measure: str = ""  #: plots of one measure have one scale


def panels(asked: Sequence[str] | None, curves: Sequence[Curve]) -> list[CurvePanel]:
    """What to draw: the panels asked for, or the default ones."""
    shown = [curve for curve in curves if _is_shown(curve, curves)]
    known = list(dict.fromkeys(curve.what for curve in shown))
    for what in asked or ():
        if what not in known:
            raise UserError(f"--panels {what}: no run has it; there are {', '.join(known)}")
    names = asked or [what for what in PANELS if what in known] or known[:1]
    return [
        CurvePanel(LABELS.get(what, what), [c for c in shown if c.what == what]) for what in names
    ]


def _is_shown(curve: Curve, curves: Sequence[Curve]) -> bool:
    """Whether a curve is drawn: of a run's validation sets, only one is."""
    if curve.source != VALIDATION:
        return True
    subsets = [c.subset for c in curves if c.run == curve.run and c.source == VALIDATION]
    return curve.subset == ("valid" if "valid" in subsets else subsets[0])


def grid(curves: Sequence[Curve]) -> Grid:
    rows = []
    for curve in curves:
        named = curve.subset and curve.source != TRAINING
        best = curve.best
        rows.append(
            [
                curve.run,
                curve.label,
                f"{curve.source} ({curve.subset})" if named else curve.source,
                f"{len(curve.updates):,}",
                f"{curve.updates[0]:,}-{curve.updates[-1]:,}",
                f"{best[1]:.3f} at {best[0]:,}" if best else "",
            ]
        )
    return Grid(["run", "", "of", "points", "updates", "best"], rows, left=3)


def notes(curves: Sequence[Curve]) -> list[str]:
    lines = []
    for curve in curves:
        where = f"{curve.run}: {curve.label} ({curve.source})"
        if curve.diverged is not None:
            lines.append(f"{where}: diverged; no finite number from update {curve.diverged:,} on")
    for signature in dict.fromkeys(c.signature for c in curves if c.signature):
        lines.append(f"checkpoints: {signature}")
    return lines


def draw(panels: Sequence[CurvePanel], theme: str = "light") -> style.Figure:
    """Draw panels, each with at least one curve, above one another; one colour per run."""
    runs = list(dict.fromkeys(curve.run for panel in panels for curve in panel.curves))
    labels = [_label(run, panels) for run in runs]
    with style.theme(theme, texts=[*labels, *(panel.label for panel in panels)]) as colours:
        figure = style.new_figure(6.4, 0.9 + 2.3 * len(panels))
        rows = figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
        looks = {run: style.series(number, colours) for number, run in enumerate(runs)}
        scales: dict = {}
        for axes, panel in zip(rows, panels, strict=True):
            if panel.measure in scales:
                axes.sharey(scales[panel.measure])
            elif panel.measure:
                scales[panel.measure] = axes
            kinds = list(dict.fromkeys(curve.source for curve in panel.curves))
            how = {kind: _look(kind, kinds) for kind in kinds}
            for curve in panel.curves:
                _draw(axes, curve, {**looks[curve.run], **how[curve.source]})
            axes.set_ylabel(panel.label)
            if len(kinds) > 1:
                # The kinds of lines, in the colour of no run.
                ink = {"color": colours.ink, "marker": "o"}
                named = {kind: {**ink, **how[kind]} for kind in kinds}
                axes.legend(handles=_handles(axes, named), loc="best", fontsize="small")
        rows[-1].set_xlabel("updates")
        rows[-1].xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        rows[-1].set_xlim(left=0)
        named = dict(zip(labels, looks.values(), strict=True))
        style.legend_above(rows[0], _handles(rows[0], named))
    return figure


def _label(run: str, panels: Sequence[CurvePanel]) -> str:
    ends = [c.diverged for panel in panels for c in panel.curves if c.run == run and c.diverged]
    return f"{run} (diverged at update {min(ends):,})" if ends else run


def _look(kind: str, kinds: Sequence[str]) -> dict:
    if kind == TRAINING:
        return _TRAINING
    return _BESIDE_SCORED if kind == VALIDATION and CHECKPOINTS in kinds else {}


def _draw(axes, curve: Curve, look: dict) -> None:
    marker = {} if len(curve.updates) <= _MARKED else {"marker": ""}
    axes.plot(curve.updates, curve.values, **{**look, **marker})
    finite = [(at, v) for at, v in zip(curve.updates, curve.values, strict=True) if v == v]
    if curve.diverged is not None and finite:
        axes.plot(*finite[-1], marker="x", markersize=9, markeredgewidth=2, color=look["color"])


def _handles(axes, looks: dict[str, dict]) -> list:
    return [axes.plot([], [], label=name, **look)[0] for name, look in looks.items()]
