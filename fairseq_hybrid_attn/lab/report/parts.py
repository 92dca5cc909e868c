"""The parts of a report, and what each says of the findings."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
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
from ..probing import results as probing
from ..scoring.significance import SAMPLES, SEED
from .findings import Findings
from .page import Code, Drawing, Item, Maps, PageTable

_NO_TRANSLATIONS = "No translations were given (--hypotheses or --generated)."


def models_part(found: Findings) -> Iterator[Item]:
    """Describe the models, and how the report was made."""
    about = {
        "architecture": [one.description for one in found.models],
        "attention": ["\n".join(one.patterns) for one in found.models],
        "parameters": [f"{one.parameters:,}" for one in found.models],
        "checkpoint": [one.path for one in found.models],
        "sha256": [one.sha256 for one in found.models],
    }
    headings = ["", *(one.name for one in found.models)]
    rows = [[what, *values] for what, values in about.items()]
    yield PageTable(Grid(headings, rows, left=len(headings)))
    yield f"Test set: {found.text}"
    yield Code("The command that made this report", shlex.join(found.command))
    for model in found.models:
        if model.training:
            yield Code(f"The command that trained {model.name}", shlex.join(model.training))
    made_with = {**found.versions, "code": found.code["digest"], "commit": found.code["commit"]}
    if found.code["modified"]:
        made_with["commit"] += ", with changes"
    lines = [f"{what} {version}" for what, version in made_with.items() if version]
    yield Code("Versions", "\n".join([*lines, f"made {found.made}"]))


def scores_part(found: Findings) -> Iterator[Item]:
    """Show scores, and how likely the differences are due to chance."""
    if not found.scores:
        yield _NO_TRANSLATIONS
        return
    names = [model.name for model in found.models]
    rows = []
    for one in found.scores:
        _, _, test_set = one.name.partition(".")
        label = f"{one.label}, {test_set}" if test_set else one.label
        rows.append([label, f"{one.sentences:,}", *lengths.cells_of_systems(names, one.systems)])
    headings = ["score", "sentences", *lengths.headings_of_systems(names)]
    yield PageTable(Grid(headings, rows, left=1))
    how = f"± is half the 95 % interval over {SAMPLES:,} bootstrap samples of the test set"
    if len(names) > 1:
        how += (
            f". p is of the paired bootstrap: how likely a difference from {names[0]} as large as "
            "this one would be by chance. It does not cover other trainings of the same models"
        )
    yield f"{how}. Seed {SEED}."
    for label, signature in dict.fromkeys((one.label, one.signature) for one in found.scores):
        yield f"{label}: {signature}"


def maps_part(found: Findings) -> Iterator[Item]:
    if any(one.units["words"] for model in found.models for one in model.maps.sentences):
        yield "The models read the source and are forced to produce the given translation."
        yield Maps([model.maps for model in found.models])
    yield from _missing(found)


def _missing(found: Findings) -> Iterator[Item]:
    for model in found.models:
        for kind, reason in model.missing.items():
            yield f"{model.name} has no {kind} attention: {reason}."


def gates_part(found: Findings) -> Iterator[Item]:
    gated = [model.gates for model in found.models if model.gates]
    without = [model.name for model in found.models if not model.gates]
    if without:
        yield (
            f"{', '.join(without)}: no gates. transformer_hybrid_gate has them, and "
            "transformer_hysan with --branch-fusion gated-sum."
        )
    if not gated:
        if found.tags:
            yield f"So parts of speech were not used ({found.tags})."
        return
    meanings = {name: text for model in gated for name, text in model.meanings.items()}
    yield (
        "".join(f"{name.capitalize()}: {text}. " for name, text in sorted(meanings.items()))
        + f"Means are over all positions, including the end symbol, of {_sentences(found)}."
    )
    if found.tags:
        yield f"Means by part of speech are over words. Tags: {found.tags}."
    yield Drawing.of("Mean gates and their deviation", lambda theme: gate_figure.draw(gated, theme))
    for model in gated:
        yield PageTable(gates.grid_of_gates(model), model.name)
        if model.share is not None:
            yield f"All layers: {model.share:.3f}, {gates.window_of(model)}."
        if model.tag_rows:
            yield PageTable(gates.grid_of_tags(model), f"{model.name}, by part of speech")


def _sentences(found: Findings) -> str:
    counts = dict.fromkeys(model.sentences for model in found.models)
    return f"{' or '.join(f'{count:,}' for count in counts)} sentences"


def heads_part(found: Findings) -> Iterator[Item]:
    """Show where the heads look, and how much they differ."""
    yield (
        "Distance and its signed mean (negative: to the left) are in subwords. Entropy is in nats, "
        "and relative to the largest that the pattern allows. Self is attention to the position "
        "itself, symbol to the end symbol (decoder self-attention: to the start symbol). Means are "
        f"over all queries of {_sentences(found)}, and over the heads of a layer with the same "
        "pattern; JSON has every head. The difference of heads is the Jensen-Shannon divergence in "
        "bits (0: equal, 1: no key in common), and the position disagreement of Li et al. (2018): "
        "the closer to 0, the larger."
    )
    longest = head_figure.longest(one.heads for one in found.models)  # one scale of colours
    for name, model in ((one.name, one.heads) for one in found.models):
        if not model.heads:
            yield f"{name} has no attention that can be looked at."
            continue
        yield Drawing.of(
            f"{name}: distance, relative entropy, difference",
            partial(head_figure.draw, [model], top=longest),
        )
        yield PageTable(heads.grid_of_heads(model), f"{name}: heads")
        yield PageTable(heads.grid_of_differences(model), f"{name}: difference of heads")
    yield from _missing(found)


def lengths_part(found: Findings) -> Iterator[Item]:
    scores = found.lengths
    if scores is None:
        yield _NO_TRANSLATIONS
        return
    yield Drawing.of(
        f"{scores.label} by words of the source sentence",
        lambda theme: length_figure.draw(
            list(scores.groups), list(scores.systems), scores.label, theme
        ),
    )
    yield PageTable(lengths.grid(scores))
    yield from lengths.notes(scores)


def curves_part(found: Findings) -> Iterator[Item]:
    if not found.curves:
        yield "No logs were given (--log)."
        return
    drawn = curves.panels(None, found.curves)
    shown = [curve for panel in drawn for curve in panel.curves]
    yield Drawing.of("Against updates", lambda theme: curve_figure.draw(drawn, theme))
    yield PageTable(curves.grid(shown))
    yield from curves.notes(shown, None)


def probing_part(found: Findings) -> Iterator[Item]:
    """Show what classifiers can tell about sentences from the encoders' states."""
    if not found.probing:
        yield "No results of probing were given (--probing)."
        return
    yield (
        "Accuracy, in per cent, of classifiers on the frozen encoder's sentence vectors, and its "
        "standard deviation over seeds. Most common class: when always chosen."
    )
    yield Drawing.of("Accuracy by task", lambda theme: probing_figure.draw(found.probing, theme))
    yield PageTable(probing.grid(found.probing))
    yield from probing.notes(found.probing)


#: By their headings, in the order of the page.
PARTS: dict[str, Callable[[Findings], Iterator[Item]]] = {
    "Models": models_part,
    "Scores": scores_part,
    "Attention maps": maps_part,
    "Gates": gates_part,
    "Heads and branches": heads_part,
    "BLEU by source length": lengths_part,
    "Learning curves": curves_part,
    "Probing": probing_part,
}
