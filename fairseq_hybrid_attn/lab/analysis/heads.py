"""Measure where heads and branches look, how peaked they are, and how much they differ.

For every head of every branch, means over all queries of a text:

* distance: sum_j w_ij |j - i|, in tokens; and signed, sum_j w_ij (j - i).  Cross-attention has
  none, since its queries and keys are different sentences.
* entropy: -sum_j w_ij ln w_ij, in nats; and relative to the logarithm of the number of keys that
  the pattern allows, over queries with two or more such keys.
* self: w_ii; symbol: to the end symbol or, in the decoder's self-attention, the start symbol.

For every layer, how much its heads differ, over the same queries:

* divergence: the Jensen-Shannon divergence of two heads' distributions, in bits; Clark et al. 2019,
  "What Does BERT Look At?", section 6.  Beside it, that of attention which is even over the keys
  that each pattern allows: how much heads differ by their patterns alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..figures import style
from ..files.tabular import Grid
from ..models import CROSS, DECODER
from ..models.attentions import Layer, SentenceAttention
from ..models.on_text import ModelOnText
from .means import RunningMean

#: The numbers of a head.
MEASURES = ("distance", "signed_distance", "entropy", "relative_entropy", "self", "symbol")
#: What is drawn of each head, and its title.
_MEASURES = {"distance": "mean distance, tokens", "relative_entropy": "entropy / largest possible"}

_CELL, _MOST_CELLS = 0.38, 16  # inches of a column; columns for which a panel grows


@dataclass(frozen=True)
class ModelHeads:
    """The heads of a model, as JSON has them; layers and heads count from 1."""

    name: str
    description: str
    heads: list[dict]
    layers: list[dict]

    @property
    def grid(self) -> Grid:
        """The heads of each layer, those with the same pattern together."""
        columns = {key: key for key in ("kind", "layer", "branch", "pattern", "heads", "distance")}
        columns |= {"signed": "signed_distance", "entropy": "entropy"}
        columns |= {"relative": "relative_entropy", "self": "self", "symbol": "symbol"}
        return Grid.of(by_pattern(self.heads), columns)

    @property
    def grid_of_differences(self) -> Grid:
        columns = {
            "kind": "kind",
            "layer": "layer",
            "heads differ": "divergence_of_heads",
            "heads by patterns": "divergence_of_heads_by_patterns",
            "branches differ": "divergence_of_branches",
            "branches by patterns": "divergence_of_branches_by_patterns",
        }
        return Grid.of(self.layers, columns)


def measures(kind: str, weights: np.ndarray, allowed: np.ndarray) -> dict[str, np.ndarray]:
    """Where heads look in a sentence: by ``MEASURES``, a number for each query, ``[…, n]``.

    ``weights`` and ``allowed`` are ``[…, n, m]``.  A number is NaN where it is undefined.
    """
    weights = weights.astype(np.float64)
    n, m = weights.shape[-2:]
    keys = allowed.sum(-1)
    entropy = entropies(weights)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(keys > 1, entropy / np.log(keys), np.nan)
    numbers = {
        "entropy": entropy,
        "relative_entropy": relative,
        "symbol": weights[..., 0 if kind == DECODER else -1],
    }
    if kind != CROSS:
        offsets = np.arange(m) - np.arange(n)[:, None]
        numbers["distance"] = (weights * abs(offsets)).sum(-1)
        numbers["signed_distance"] = (weights * offsets).sum(-1)
        numbers["self"] = np.diagonal(weights, axis1=-2, axis2=-1)
    # A query without an allowed key looks nowhere.
    return {name: np.where(keys > 0, values, np.nan) for name, values in numbers.items()}


def entropies(weights: np.ndarray) -> np.ndarray:
    """Entropies of distributions along the last axis, in nats."""
    logarithms = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    return -(weights * logarithms).sum(-1)


def divergences(weights: np.ndarray) -> np.ndarray:
    """Jensen-Shannon divergence of each pair of heads in bits, summed over the queries.

    ``weights [u, n, m]`` give ``[u, u]``.
    """
    own = entropies(weights)  # [u, n]
    pairs = np.zeros((len(weights), len(weights)))
    for head in range(len(weights) - 1):
        others = slice(head + 1, None)
        between = entropies((weights[head] + weights[others]) / 2)
        sums = (between - (own[head] + own[others]) / 2).sum(-1) / np.log(2)
        pairs[head, others] = pairs[others, head] = sums
    return pairs


class HeadsOfLayer:
    """Where the heads of a layer look and how much they differ, over many sentences.

    ``divergences [l * h, l * h]`` of each pair of heads are summed over the queries, as are those
    of even attention, ``even``.
    """

    def __init__(self, layer: Layer):
        self.layer = layer
        self.shape = len(layer.heads), len(layer.heads[0])
        self.units = [
            {"branch": branch, "head": head, "pattern": word}
            for branch, words in zip(layer.branches, layer.heads, strict=True)
            for head, word in enumerate(words, start=1)
        ]
        self.means: list[dict[str, RunningMean]] = [defaultdict(RunningMean) for _ in self.units]
        self.queries = 0
        self.divergences = np.zeros((len(self.units), len(self.units)))
        #: The mean over pairs of heads of a branch, and over pairs of branches.
        self.apart = {what: RunningMean() for what in ("heads", "branches")}
        self.even = np.zeros_like(self.divergences)

    def add(self, weights: np.ndarray, allowed: np.ndarray) -> None:
        """Add a sentence, ``[l, h, n, m]`` each."""
        for name, values in measures(self.layer.kind, weights, allowed).items():
            of_units = values.reshape(len(self.units), -1)
            for means, numbers in zip(self.means, of_units, strict=True):
                means[name].add(numbers[~np.isnan(numbers)])
        weights = weights.astype(np.float64)
        self.queries += weights.shape[-2]
        here = divergences(weights.reshape(-1, *weights.shape[-2:]))
        self.divergences += here
        for mean, total in zip(self.apart.values(), self._apart(here), strict=True):
            if total is not None:
                mean.add_sum(total, weights.shape[-2])
        if (allowed != allowed[:1, :1]).any():
            even = allowed / np.maximum(allowed.sum(-1, keepdims=True), 1)
            self.even += divergences(even.reshape(-1, *even.shape[-2:]))

    def rows(self) -> list[dict]:
        """A record for each head: what it is, and its ``MEASURES``; None where undefined.

        ``NAME_interval`` is half the 95 % interval over sentences.
        """
        return [
            {
                "kind": self.layer.kind,
                "layer": self.layer.number,
                **unit,
                "queries": means["entropy"].count,
                **{name: means[name].mean for name in MEASURES},
                **{f"{name}_interval": means[name].interval for name in MEASURES},
            }
            for unit, means in zip(self.units, self.means, strict=True)
        ]

    def difference(self) -> dict:
        """How much its heads differ, means over the queries; None where no two can be compared.

        ``units`` are the rows and columns of ``divergences``.
        """
        even_heads, even_branches = self._apart(self.even / self.queries)
        return {
            "kind": self.layer.kind,
            "layer": self.layer.number,
            "units": self.units,
            "queries": self.queries,
            "divergence_of_heads": self.apart["heads"].mean,
            "divergence_of_heads_interval": self.apart["heads"].interval,
            "divergence_of_heads_by_patterns": even_heads,
            "divergence_of_branches": self.apart["branches"].mean,
            "divergence_of_branches_interval": self.apart["branches"].interval,
            "divergence_of_branches_by_patterns": even_branches,
            "divergences": (self.divergences / self.queries).tolist(),
        }

    def _apart(self, divergences: np.ndarray) -> tuple[float | None, float | None]:
        """The mean over the pairs of heads of a branch, and over the pairs of branches."""
        l, h = self.shape  # noqa: E741
        pairs = divergences.reshape(l, h, l, h)
        within = [pairs[b, i, b, j] for b in range(l) for i in range(h) for j in range(i)]
        across = [pairs[a, i, b, i] for a in range(l) for b in range(a) for i in range(h)]
        heads, branches = (float(np.mean(of)) if of else None for of in (within, across))
        return heads, branches


class Heads:
    """Where the heads of a model look, over many sentences."""

    def __init__(self, described: dict[str, list[Layer]]):
        self.layers = {kind: list(map(HeadsOfLayer, layers)) for kind, layers in described.items()}

    def add(self, observed: SentenceAttention) -> None:
        for kind, layers in observed.items():
            for heads, seen in zip(self.layers[kind], layers, strict=True):
                allowed = heads.layer.allowed(*seen.weights.shape[-2:])
                heads.add(seen.weights.numpy(), allowed.numpy())

    def of_model(self, name: str, description: str) -> ModelHeads:
        """All numbers of the model, for JSON, tables and figures."""
        # A decoder may have no cross-attention to return.
        seen = [heads for layers in self.layers.values() for heads in layers if heads.queries]
        rows = [row for heads in seen for row in heads.rows()]
        return ModelHeads(name, description, rows, [heads.difference() for heads in seen])


def by_pattern(rows: list[dict]) -> list[dict]:
    """Means of the rows of heads that share kind, layer, branch and pattern."""
    groups: dict[tuple, list[dict]] = defaultdict(list)
    for row in rows:
        groups[row["kind"], row["layer"], row["branch"], row["pattern"]].append(row)
    return [
        {
            **dict(zip(("kind", "layer", "branch", "pattern"), key, strict=True)),
            "heads": len(group),
            **{name: _mean([row[name] for row in group]) for name in MEASURES},
        }
        for key, group in groups.items()
    ]


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def measure_heads(model: ModelOnText, kinds: Sequence[str], numbers: Sequence[int]) -> ModelHeads:
    """The heads of a model over these sentences (from 0)."""
    attentions = model.attentions(kinds)
    heads = Heads(attentions.layers)
    model.observe(attentions, numbers, lambda _, observed: heads.add(observed))
    return heads.of_model(model.name, model.description)


def draw(models: Sequence[ModelHeads], theme: str = "light") -> style.Figure:
    """Draw distance and entropy of each head, and how much the heads of each layer differ.

    There is a row for each model and kind of attention.  Distances of all have one scale.
    """
    distances = [row["distance"] for model in models for row in model.heads]
    longest = max((distance for distance in distances if distance is not None), default=0.0) or 1.0
    shown = [
        (model, kind, [row for row in model.heads if row["kind"] == kind])
        for model in models
        for kind in dict.fromkeys(row["kind"] for row in model.heads)
    ]
    columns = max(len(_columns(rows)) for _, _, rows in shown)
    heights = [1.3 + 0.3 * max(row["layer"] for row in rows) for _, _, rows in shown]
    with style.theme(theme, texts=[model.name for model in models]) as colours:
        width = 2 * max(2.6, 0.9 + _CELL * min(columns, _MOST_CELLS)) + 2.8
        figure = style.new_figure(width, sum(heights))
        grid = figure.subplots(len(shown), 3, squeeze=False, height_ratios=heights)
        for (model, kind, rows), axes in zip(shown, grid, strict=True):
            *heatmaps, lines = axes
            for heatmap, (measure, title) in zip(heatmaps, _MEASURES.items(), strict=True):
                ends = longest if measure == "distance" else 1.0
                _heatmap(heatmap, rows, measure, style.scale(theme, colours.background), ends)
                heatmap.set_title(f"{model.name}: {kind}\n{title}", fontsize=8)
            _lines(lines, [row for row in model.layers if row["kind"] == kind], colours)
    return figure


def _columns(rows: list[dict]) -> list[tuple[str, int, str]]:
    return list(dict.fromkeys((row["branch"], row["head"], row["pattern"]) for row in rows))


def _heatmap(axes, rows: list[dict], measure: str, colours: style.Colormap, top: float) -> None:
    columns = _columns(rows)
    layers = sorted({row["layer"] for row in rows})
    values = np.full((len(layers), len(columns)), np.nan)
    for row in rows:
        column = columns.index((row["branch"], row["head"], row["pattern"]))
        if row[measure] is not None:
            values[layers.index(row["layer"]), column] = row[measure]
    if np.isnan(values).all():
        axes.axis("off")
        axes.text(0.5, 0.5, "queries and keys are\ndifferent sentences", ha="center", va="center")
        return
    image = axes.imshow(values, cmap=colours, vmin=0, vmax=top, aspect="auto")
    axes.grid(False)
    axes.tick_params(length=0, labelsize=7)
    axes.set_yticks(range(len(layers)), [f"layer {number}" for number in layers])
    axes.set_xticks(
        range(len(columns)), [f"{word} {head}" for _, head, word in columns], rotation=90
    )
    bar = axes.figure.colorbar(image, ax=axes, fraction=0.03, pad=0.01)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=7)


def _lines(axes, differences: list[dict], colours: style.Theme) -> None:
    layers = [row["layer"] for row in differences]
    for number, what in enumerate(("heads", "branches")):
        values = [row[f"divergence_of_{what}"] for row in differences]
        if any(value is not None for value in values):
            numbers = [float("nan") if value is None else value for value in values]
            label = "heads of a branch" if what == "heads" else "branches"
            axes.plot(layers, numbers, label=label, **style.series(number, colours))
    axes.set_ylim(0, 1)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("layer")
    axes.set_ylabel("difference, bits")
    if len(axes.lines) > 1:
        axes.legend(fontsize=7)
    axes.set_title("Jensen-Shannon divergence", fontsize=8)
