"""The figure of learning curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..figures import style
from .curves_measure import CHECKPOINTS, TRAINING, VALIDATION, Curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: How the curves of training look; colours stand for runs.
_TRAINING = {"marker": "", "linewidth": 1.0, "alpha": 0.55}
#: Logged validation beside scored checkpoints is dashed.
_BESIDE_SCORED = {"linestyle": "--", "markerfacecolor": "none"}
#: Points of a curve above which they have no markers.
_MARKED = 30


@dataclass(frozen=True)
class CurvePanel:
    """One of the plots above one another."""

    label: str
    curves: list[Curve]
    measure: str = ""  #: plots of one measure have one scale


def draw(panels: Sequence[CurvePanel], theme: str = "light") -> Figure:
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
