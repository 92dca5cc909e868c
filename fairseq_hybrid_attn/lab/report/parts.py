"""What a report says: its parts, made of what was found."""

from __future__ import annotations

import shlex
from functools import partial

from ..curves import command as curves
from ..curves import figure as curve_figure
from ..files.tabular import Grid
from ..gates import command as gates
from ..gates import figure as gate_figure
from ..heads import command as heads
from ..heads import figure as head_figure
from ..lengths import command as lengths
from ..lengths import figure as length_figure
from ..probing import figure as probing_figure
from ..scoring.significance import SAMPLES, SEED
from . import probing
from .found import Found, SetScore
from .page import Code, Drawing, Maps, Part, Table, Text


def _table(grid: Grid, caption: str = "") -> Table:
    return Table(grid.headings, grid.rows, caption)


def models_part(found: Found) -> Part:
    """What the models are, and how all was made."""
    part = Part("Models")
    summaries = [model.summary for model in found.models]
    about = {
        "architecture": [one.description for one in summaries],
        "attention": ["\n".join(one.patterns) for one in summaries],
        "parameters": [f"{one.parameters:,}" for one in summaries],
        "checkpoint": [one.path for one in summaries],
        "sha256": [one.sha256 for one in summaries],
    }
    rows = [[what, *values] for what, values in about.items()]
    part.add(Table(["", *(one.name for one in summaries)], rows))
    part.add(Text(f"Test set: {found.text}"))
    part.add(Code("The command that made this report", shlex.join(found.command)))
    for model in found.models:
        if model.training:
            part.add(Code(f"The command that trained {model.name}", shlex.join(model.training)))
    made_with = {**found.versions, "code": found.code["digest"], "commit": found.code["commit"]}
    if found.code["modified"]:
        made_with["commit"] += ", with changes"
    lines = [f"{what} {version}" for what, version in made_with.items() if version]
    part.add(Code("Versions", "\n".join([*lines, f"made {found.made}"])))
    return part


def scores_part(found: Found) -> Part:
    """Scores, and how likely the differences are chance."""
    part = Part("Scores")
    if not found.scores:
        part.add(Text("No translations were given (--hypotheses or --generated)."))
        return part
    names = [model.name for model in found.models]
    headings = ["score", "sentences", names[0]]
    for name in names[1:]:
        headings += [name, "p"]
    rows = [
        [_with_set(one), f"{one.sentences:,}", *lengths.cells_of_systems(names, one.systems)]
        for one in found.scores
    ]
    part.add(Table(headings, rows))
    how = f"± is half the 95 % interval of {SAMPLES:,} test sets resampled by bootstrap"
    if len(names) > 1:
        how += (
            f"; p is the paired bootstrap's, of a difference from {names[0]} as large as this "
            "one if there were none. It knows nothing of other trainings of the same models"
        )
    part.add(Text(f"{how}. Seed {SEED}."))
    for label, signature in dict.fromkeys((one.label, one.signature) for one in found.scores):
        part.add(Text(f"{label}: {signature}"))
    return part


def _with_set(score: SetScore) -> str:
    _, _, test_set = score.name.partition(".")
    return f"{score.label}, {test_set}" if test_set else score.label


def maps_part(found: Found) -> Part:
    """The interactive maps."""
    part = Part("Attention maps")
    if any(one.units["words"] for model in found.models for one in model.maps.sentences):
        part.add(
            Text("The models read the source and are made to say the translation that is given."),
            Maps([model.maps for model in found.models]),
        )
    part.add(*_missing(found))
    return part


def _missing(found: Found) -> list[Text]:
    return [
        Text(f"{model.name} has no {kind} attention: {reason}.")
        for model in found.models
        for kind, reason in model.missing.items()
    ]


def gates_part(found: Found) -> Part:
    """Gates of the models that have any."""
    part = Part("Gates")
    gated = [model.gates for model in found.models if model.gates]
    without = [model.name for model in found.models if not model.gates]
    if without:
        part.add(
            Text(
                f"{', '.join(without)}: no gates, which transformer_hybrid_gate has, and "
                "transformer_hysan with --branch-fusion gated-sum."
            )
        )
    if not gated:
        if found.tags:
            part.add(Text(f"So nothing was made of parts of speech ({found.tags})."))
        return part
    over = _sentences(found)
    part.add(
        Text(
            "Share: of the local branch, 0 = global attention alone, 1 = local attention alone. "
            "Squeeze: mean over the numbers of a branch's output. Means are over all positions, "
            f"the end symbol among them, of {over}."
        )
    )
    if found.tags:
        part.add(Text(f"By part of speech, they are over words. Tags: {found.tags}."))
    part.add(
        Drawing.of("Mean gates and their deviation", lambda theme: gate_figure.draw(gated, theme))
    )
    for model in gated:
        part.add(_table(gates.grid_of_gates(model), model.name))
        if model.share is not None:
            part.add(Text(f"All layers: {model.share:.3f}, window {model.window}."))
        if model.tag_rows:
            part.add(_table(gates.grid_of_tags(model), f"{model.name}, by part of speech"))
    return part


def _sentences(found: Found) -> str:
    counts = dict.fromkeys(model.sentences for model in found.models)
    return f"{' or '.join(f'{count:,}' for count in counts)} sentences"


def heads_part(found: Found) -> Part:
    """Where the heads look, and how much they differ."""
    part = Part("Heads and branches")
    part.add(
        Text(
            "Distance and its signed mean (negative: to the left) are in subwords; entropy is in "
            "nats, and relative to the largest that the pattern allows; self is attention to the "
            "position itself, symbol to the end symbol (decoder self-attention: to the start "
            f"symbol). Means over all queries of {_sentences(found)}, and over the heads of a "
            "layer with the same pattern; JSON has every head. How much heads differ is the "
            "Jensen-Shannon divergence in bits (0 alike, 1 no key in common), and the position "
            "disagreement of Li et al. (2018): the closer to 0, the more."
        )
    )
    longest = head_figure.longest(
        model.heads for model in found.models
    )  # so that colours mean the same in all figures
    for model in found.models:
        if not model.heads.heads:
            part.add(Text(f"{model.name} has no attention that can be looked at."))
            continue
        part.add(
            Drawing.of(
                f"{model.name}: distance, relative entropy, difference",
                partial(head_figure.draw, [model.heads], top=longest),
            ),
            _table(heads.grid_of_heads(model.heads), f"{model.name}: heads"),
            _table(heads.grid_of_differences(model.heads), f"{model.name}: difference of heads"),
        )
    part.add(*_missing(found))
    return part


def lengths_part(found: Found) -> Part:
    """Scores by the length of the source."""
    part = Part("BLEU by source length")
    scores = found.lengths
    if scores is None:
        part.add(Text("No translations were given (--hypotheses or --generated)."))
        return part
    part.add(
        Drawing.of(
            f"{scores.label} by words of the source sentence",
            lambda theme: length_figure.draw(
                list(scores.groups), list(scores.systems), scores.label, theme
            ),
        ),
        Table(*lengths.cells(scores)),
        *map(Text, lengths.notes(scores)),
    )
    return part


def curves_part(found: Found) -> Part:
    """Learning curves."""
    part = Part("Learning curves")
    if not found.curves:
        part.add(Text("No logs were given (--log)."))
        return part
    drawn = curves.panels(None, found.curves)
    shown = [curve for panel in drawn for curve in panel.curves]
    part.add(
        Drawing.of("Against updates", lambda theme: curve_figure.draw(drawn, theme)),
        Table(*curves.cells(shown)),
        *map(Text, curves.notes(shown, None)),
    )
    return part


def probing_part(found: Found) -> Part:
    """What classifiers can tell of sentences from the encoders' states."""
    part = Part("Probing")
    if not found.probing:
        part.add(Text("No results of probing were given (--probing)."))
        return part
    part.add(
        Text(
            "Accuracy, in per cent, of classifiers on the frozen encoder's vectors of sentences, "
            "and its standard deviation over seeds. Commonest class: of always saying that."
        ),
        Drawing.of("Accuracy by task", lambda theme: probing_figure.draw(found.probing, theme)),
        Table(*probing.cells(found.probing)),
        *map(Text, probing.notes(found.probing)),
    )
    return part


#: In the order of the page.
PARTS = (
    *(models_part, scores_part, maps_part, gates_part, heads_part, lengths_part, curves_part),
    probing_part,
)
