"""Measure gates: how much of each branch goes into the output of an attention.

A fusion says what its gates are (:class:`~...attention.fusion.GateKind`).  The hybrid gate (Xu et
al. 2019, Eq. 4, 5) is the share of the local branch: one number for each position or, in the
authors' published code, for each position and head.  HySAN's squeeze gate (Song et al. 2018,
Eq. 14) has a number for each branch, position and dimension of the branch's output; here its mean
over the dimensions is taken.

Means over a layer are over all positions that the model reads, subwords and end symbol.  Means over
parts of speech (hybrid gate, Fig. 4) are over words; a word counts as the mean of its subwords.
Intervals are 95 %, over sentences.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ...attention.fusion import LOCAL_SHARE
from ...errors import UserError
from ...patterns import Band
from ..corpora.words import Words, words_of
from ..figures import style
from ..files.tabular import Grid
from ..files.writing import write_text
from ..models import DECODER, ENCODER
from ..models.attentions import Layer, LayerAttention, SentenceAttention
from ..models.on_text import ModelOnText
from ..scores.counts import Score, scores_as_dict
from .means import RunningMean
from .tags import UNIVERSAL, tags_of

GATE = "gate"
#: Of a gate's values; the interval is half of 95 %, over sentences.
NUMBERS = ("mean", "deviation", "interval")
#: Width that the lines of a layer share.
_SHARED = 0.3


@dataclass(frozen=True)
class ModelGates:
    """The gates of a model, as JSON has them.

    ``rows`` are for each gate and head, ``tag_rows`` also for each part of speech.  ``share`` is
    the mean share of the local branch (Fig. 2), and ``window`` what it sees, 2m + 1, or None.
    ``interval``, ``share_interval``: half the 95 % interval over sentences, None for one.
    ``meanings`` says what each gate's values are.
    """

    name: str
    rows: list[dict]
    tag_rows: list[dict]
    share: float | None
    window: int | None
    share_interval: float | None = None
    meanings: dict[str, str] = field(default_factory=dict)

    @property
    def share_text(self) -> str | None:
        """The mean share with its interval, and the window; None if the gates are no shares."""
        if self.share is None:
            return None
        interval = "" if self.share_interval is None else f" ± {self.share_interval:.3f}"
        window = "no window" if self.window is None else f"window {self.window}"
        return f"{self.share:.3f}{interval}, {window}"

    def scores(self, tagged_by: str | None = None) -> dict[str, Score]:
        """The means over heads by name (see ``run/run_scores.py``); what the tags are from."""
        rows = [row for row in self.rows if row["head"] is None]
        found: dict[str, Score] = {}
        if self.share is not None:
            positions = sum(row["positions"] for row in rows)
            found[GATE] = Score(self.share, f"{LOCAL_SHARE.name}|positions:{positions}")
        for row in (*rows, *self.tag_rows):
            branch = [] if row["gate"] == LOCAL_SHARE.name else [row["branch"]]
            tag = [row["tag"]] if "tag" in row else []
            words = f"words:{row['words']}|tags:{tagged_by}" if tag else None
            name = ".".join([GATE, row["kind"], str(row["layer"]), *branch, *tag])
            counted = words or f"positions:{row['positions']}"
            found[name] = Score(row["mean"], f"{row['gate']}|branch:{row['branch']}|{counted}")
        return found

    @property
    def grid(self) -> Grid:
        columns = {key: key for key in ("kind", "layer", "gate of", "head", *NUMBERS)}
        rows = [{**row, "head": row["head"] or "all"} for row in self.rows]
        return Grid.of(rows, {**columns, "gate of": "branch"})

    @property
    def grid_of_tags(self) -> Grid:
        columns = {key: key for key in ("layer", "gate of", "tag", "words", *NUMBERS)}
        return Grid.of(self.tag_rows, {**columns, "gate of": "branch"})


@dataclass(frozen=True)
class Place:
    """Where a gate is; layers and heads count from 1.

    Without a head, it is the gate of all heads, or their mean.
    """

    kind: str
    layer: int
    gate: str  # its fusion's word for it
    branch: str
    head: int | None = None


def gate_values(layer: Layer, seen: LayerAttention) -> dict[Place, np.ndarray]:
    """The values of a layer's gates in a sentence, each ``[n]``."""
    gates: dict[Place, np.ndarray] = {}
    name = layer.gate.name if layer.gate else ""
    for branch, of_heads in layer.gates(seen).items():
        here = (layer.kind, layer.number, name, layer.branches[branch])
        gates[Place(*here)] = of_heads.mean(0).numpy()
        if len(of_heads) > 1:
            gates |= {Place(*here, head): of.numpy() for head, of in enumerate(of_heads, start=1)}
    return gates


class Gates:
    """The gates of a model over many sentences: means over positions, and by tags of words."""

    def __init__(self, layers: dict[str, list[Layer]]):
        self.layers = [layer for of_kind in layers.values() for layer in of_kind if layer.gate]
        kinds = {layer.gate for layer in self.layers if layer.gate}
        self.meanings = {kind.name: kind.meaning for kind in kinds}
        self.shares = {kind.name for kind in kinds if kind.branch is not None}
        self.all_shares = RunningMean()
        self.places: dict[Place, RunningMean] = defaultdict(RunningMean)
        self.tags: dict[Place, dict[str, RunningMean]] = defaultdict(
            lambda: defaultdict(RunningMean)
        )

    def add(
        self,
        observed: SentenceAttention,
        words: Words | None = None,
        tags: Sequence[str] | None = None,
    ) -> None:
        """Add a sentence; ``tags`` are those of the source's ``words``, None without tags."""
        values: dict[Place, np.ndarray] = {}
        for layer in self.layers:
            values |= gate_values(layer, observed[layer.kind][layer.number - 1])
        for place, numbers in values.items():
            self.places[place].add(numbers)
            if tags is None or place.kind != ENCODER or place.head is not None:
                continue
            of_tags = defaultdict(list)
            for word, tag in zip(words or [], tags, strict=True):
                of_tags[tag].append(numbers[word].mean())
            for tag, of_words in of_tags.items():
                self.tags[place][tag].add(np.array(of_words))
        shares = [v for p, v in values.items() if p.gate in self.shares and p.head is None]
        if shares:  # of a local branch, of all heads
            self.all_shares.add(np.concatenate(shares))

    def window(self) -> int | None:
        """Tokens that the local branch of a hybrid gate sees, 2m + 1; None without such."""
        for layer in self.layers:
            branch = layer.gate.branch if layer.gate else None
            match None if branch is None else layer.patterns[branch][0]:
                case Band(behind=int(behind), ahead=int(ahead)):
                    return behind + ahead + 1
        return None

    def of_model(self, name: str) -> ModelGates:
        rows = [_row(place, mean, positions=mean.count) for place, mean in self.places.items()]
        tag_rows = [
            _row(place, mean, tag=tag, words=mean.count)
            for place, means in self.tags.items()
            for tag, mean in sorted(means.items())
        ]
        shares = self.all_shares
        return ModelGates(
            name, rows, tag_rows, shares.mean, self.window(), shares.interval, self.meanings
        )


def _row(place: Place, mean: RunningMean, **about) -> dict:
    numbers = {"mean": mean.mean, "deviation": mean.deviation, "interval": mean.interval}
    return {**vars(place), **about, **numbers}


def measure(
    models: Iterable[ModelOnText],
    listed: str = "all",
    *,
    skip_long: bool = False,
    tags: Path | None = None,
    tagger: str | None = None,
    write_tags: Path | None = None,
) -> list[ModelGates]:
    """The gates of models over the sentences that are ``listed``.

    The tags of all sentences are those of a file, or by the ``tagger`` of a language, if any.
    """
    found: list[ModelGates] = []
    of_words: list[list[str]] | None = None  # the same for all models
    for model in models:
        if not found:
            of_words = tags_of(model.sentences.source, model.subwords, tags, tagger)
            if write_tags:
                write_text(write_tags, "".join(f"{' '.join(line)}\n" for line in of_words or ()))
        found.append(of_model(model, model.usable(listed, skip_long=skip_long), of_words))
    return found


def as_dict(models: Sequence[ModelGates], tagged_by: str | None) -> dict:
    """All of it for JSON; ``tagged_by``: what the tags are from."""
    systems = {model.name: [scores_as_dict(model.scores(tagged_by))] for model in models}
    return {"tags": tagged_by, "models": list(map(vars, models)), "systems": systems}


def of_model(
    model: ModelOnText, numbers: Sequence[int], tags: Sequence[Sequence[str]] | None = None
) -> ModelGates:
    """The gates of a model over these sentences (from 0); ``tags`` are of all sentences."""
    attentions = model.attentions([ENCODER, DECODER])
    gates = Gates(attentions.layers)
    if not gates.layers:
        raise UserError(
            f"{model.trained.path} ({model.description}) has no gates; transformer_hybrid_gate has "
            "them, transformer_hysan with --branch-fusion gated-sum, and a fusion of your own if "
            "it has a gate_kind"
        )

    def use(number: int, observed: SentenceAttention) -> None:
        words = words_of(model.sentences.source[number], model.subwords)
        gates.add(observed, words, tags[number] if tags else None)

    model.observe(attentions, numbers, use)
    return gates.of_model(model.name)


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


def _named(models: list[ModelGates], model: ModelGates, kind: str, branch: str) -> str:
    """The label of a line: enough to distinguish it from the others."""
    what = f"{kind}, {branch}"
    return f"{model.name}: {what}" if len(models) > 1 else what


def _by_layer(axes, models: list[ModelGates], colours: style.Theme) -> None:
    lines = []
    for model in models:
        rows = [row for row in model.rows if row["head"] is None]
        for kind, branch in dict.fromkeys((row["kind"], row["branch"]) for row in rows):
            of_branch = [row for row in rows if (row["kind"], row["branch"]) == (kind, branch)]
            lines.append((_named(models, model, kind, branch), of_branch))
    for number, (label, of_branch) in enumerate(lines):
        # Side by side, so that deviations do not hide each other.
        shift = _SHARED * ((number + 0.5) / len(lines) - 0.5)
        axes.errorbar(
            [row["layer"] + shift for row in of_branch],
            [row["mean"] for row in of_branch],
            yerr=[row["deviation"] for row in of_branch],
            capsize=2.5,
            elinewidth=0.8,
            label=label,
            **style.series(number, colours),
        )
    axes.set_xticks(sorted({row["layer"] for _, of_branch in lines for row in of_branch}))
    axes.set_xlabel("layer (1 = lowest)")
    axes.set_ylabel("mean gate ± deviation")
    style.legend_above(axes)


def _by_tag(axes, models: list[ModelGates], colours: style.Theme) -> None:
    """Draw the lowest layer with gates."""
    bars = []
    for model in models:
        layer = min((row["layer"] for row in model.tag_rows), default=None)
        rows = [row for row in model.tag_rows if row["layer"] == layer]
        for kind, branch in dict.fromkeys((row["kind"], row["branch"]) for row in rows):
            means = {row["tag"]: row["mean"] for row in rows if row["branch"] == branch}
            bars.append((f"{_named(models, model, kind, branch)}, layer {layer}", means))
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
