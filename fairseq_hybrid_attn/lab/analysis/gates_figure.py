"""Gates by layer, by part of speech and by window size (hybrid gate, Fig. 2 to 4)."""

from __future__ import annotations

from ..figures import style
from .gates_measure import ModelGates
from .tags import UNIVERSAL

#: Width that the lines of a layer share.
_SHARED = 0.3


def draw(models: list[ModelGates], theme: str = "light") -> style.Figure:
    """Draw gates by layer; by part of speech, if any; by window, if models differ in it."""
    drawings = [_by_layer]
    if any(model.tag_rows for model in models):
        drawings.append(_by_tag)
    if len({model.window for model in models if model.window}) > 1:
        drawings.append(_by_window)
    texts = [model.name for model in models] + [row["tag"] for m in models for row in m.tag_rows]
    with style.theme(theme, texts=texts) as colours:
        figure = style.new_figure(5.2, 3.4 * len(drawings))
        grid = figure.subplots(len(drawings), squeeze=False)
        for axes, drawing in zip(grid[:, 0], drawings, strict=True):
            drawing(axes, models, colours)
    return figure


def _named(models: list[ModelGates], model: ModelGates, place: tuple) -> str:
    """The label of a line: enough to distinguish it from the others."""
    what = f"{place[0]}, {place[1]}"
    return f"{model.name}: {what}" if len(models) > 1 else what


def _by_layer(axes, models: list[ModelGates], colours: style.Theme) -> None:
    lines = []
    for model in models:
        rows = [row for row in model.rows if row["head"] is None]
        for place in dict.fromkeys((row["kind"], row["branch"]) for row in rows):
            own = [row for row in rows if (row["kind"], row["branch"]) == place]
            lines.append((_named(models, model, place), own))
    for number, (label, own) in enumerate(lines):
        # Side by side, so that deviations do not hide each other.
        shift = _SHARED * ((number + 0.5) / len(lines) - 0.5)
        axes.errorbar(
            [row["layer"] + shift for row in own],
            [row["mean"] for row in own],
            yerr=[row["deviation"] for row in own],
            capsize=2.5,
            elinewidth=0.8,
            label=label,
            **style.series(number, colours),
        )
    axes.set_xticks(sorted({row["layer"] for _, own in lines for row in own}))
    axes.set_xlabel("layer (1 = lowest)")
    axes.set_ylabel("mean gate ± deviation")
    style.legend_above(axes)


def _by_tag(axes, models: list[ModelGates], colours: style.Theme) -> None:
    """Draw the lowest layer with gates."""
    bars = []
    for model in models:
        layer = min((row["layer"] for row in model.tag_rows), default=None)
        rows = [row for row in model.tag_rows if row["layer"] == layer]
        for place in dict.fromkeys((row["kind"], row["branch"]) for row in rows):
            means = {row["tag"]: row["mean"] for row in rows if row["branch"] == place[1]}
            bars.append((f"{_named(models, model, place)}, layer {layer}", means))
    found = {tag for _, means in bars for tag in means}
    tags = [*(tag for tag in UNIVERSAL if tag in found), *sorted(found.difference(UNIVERSAL))]
    width = 0.8 / len(bars)
    for number, (label, means) in enumerate(bars):
        places = [n + width * (number - (len(bars) - 1) / 2) for n in range(len(tags))]
        look = {"color": style.series(number, colours)["color"]}
        axes.bar(places, [means.get(tag, float("nan")) for tag in tags], width, label=label, **look)
    axes.set_xticks(range(len(tags)), tags, rotation=45)
    axes.grid(axis="x", visible=False)
    values = [mean for _, means in bars for mean in means.values()]
    room = 0.15 * (max(values) - min(values)) or 0.05
    axes.set_ylim(max(0.0, min(values) - room), min(1.0, max(values) + room))
    axes.set_ylabel("mean gate")
    style.legend_above(axes)


def _by_window(axes, models: list[ModelGates], colours: style.Theme) -> None:
    windowed = sorted((m for m in models if m.window), key=lambda model: model.window or 0)
    windows = [model.window for model in windowed]
    axes.set_xticks(windows)
    axes.set_xlabel("window, tokens (2m + 1)")
    axes.set_ylabel("mean share of the local branch")
    axes.plot(windows, [model.share for model in windowed], **style.series(0, colours))
