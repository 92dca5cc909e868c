"""The figure of learning curves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..figures import style
from .measure import CHECKPOINTS, TRAINING, VALIDATION, Curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: How the kinds of curves look; colours are the runs'.
_LOOKS = {
    CHECKPOINTS: {},
    VALIDATION: {},
    TRAINING: {"marker": "", "linewidth": 1.0, "alpha": 0.55},
}
#: A panel with several kinds has the logged validation dashed beside scored checkpoints.
_BESIDE_SCORED = {"linestyle": "--", "markerfacecolor": "none"}
#: Points of a curve above which they have no markers.
_MARKED = 30


@dataclass(frozen=True)
class Panel:
    """One of the plots above one another.

    Args:
        label: of its vertical axis.
        curves: in order.
        names: of the kinds of its curves by their ``source``, for people.
        measure: what is measured; plots of the same have one scale, so that they can be compared.
    """

    label: str
    curves: list[Curve]
    names: dict[str, str] = field(default_factory=dict)
    measure: str = ""


def draw(panels: list[Panel], theme: str = "light") -> Figure:
    """Panels above one another over the same updates; a colour a run.

    Args:
        panels: at least one, each with at least one curve.
        theme: one of ``style.THEMES``.

    Raises:
        UserError: if matplotlib is not installed.
    """
    runs = list(dict.fromkeys(curve.run for panel in panels for curve in panel.curves))
    labels = [_label(run, panels) for run in runs]
    with style.theme(theme, texts=[*labels, *(panel.label for panel in panels)]) as colours:
        figure = style.new_figure(6.4, 0.9 + 2.3 * len(panels))
        rows = figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
        looks = {run: style.series(number, colours) for number, run in enumerate(runs)}
        scales = {}
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
                _key(axes, {panel.names.get(k, k): how[k] for k in kinds}, colours.ink)
        rows[-1].set_xlabel("updates")
        rows[-1].xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        rows[-1].set_xlim(left=0)
        style.legend_above(
            rows[0],
            [
                rows[0].plot([], [], label=label, **looks[run])[0]
                for run, label in zip(runs, labels, strict=True)
            ],
        )
    return figure


def _label(run: str, panels: list[Panel]) -> str:
    ends = [c.diverged for panel in panels for c in panel.curves if c.run == run and c.diverged]
    return f"{run} (diverged at update {min(ends):,})" if ends else run


def _look(kind: str, kinds: list[str]) -> dict:
    beside = kind == VALIDATION and CHECKPOINTS in kinds
    return {**_LOOKS[kind], **(_BESIDE_SCORED if beside else {})}


def _draw(axes, curve: Curve, look: dict) -> None:
    marker = {} if len(curve.updates) <= _MARKED else {"marker": ""}
    axes.plot(curve.updates, curve.values, **{**look, **marker})
    finite = [(at, v) for at, v in zip(curve.updates, curve.values, strict=True) if v == v]
    if curve.diverged is not None and finite:
        axes.plot(*finite[-1], marker="x", markersize=9, markeredgewidth=2, color=look["color"])


def _key(axes, kinds: dict[str, dict], ink: str) -> None:
    """What the kinds of lines are, in no run's colour."""
    handles = [
        axes.plot([], [], label=name, **{"color": ink, "marker": "o", **look})[0]
        for name, look in kinds.items()
    ]
    axes.legend(handles=handles, loc="best", fontsize="small")
