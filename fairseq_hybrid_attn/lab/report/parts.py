"""The page of a report: its parts, and what each says of the findings.

A part is made of paragraphs, and of what the macros of ``items.html.j2`` make.  Templates escape
all texts.  Each figure is in the page twice, as images for a light and a dark background: the names
within two SVGs of matplotlib would clash in one document.
"""

from __future__ import annotations

import base64
import shlex
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from markupsafe import Markup
from tqdm import tqdm

from ..analysis import gates, heads, maps_page
from ..figures import style
from ..files.tabular import Grid
from ..probing import results as probing
from ..tables import curves
from ..tables.by_length import draw_groups
from ..tables.printing import by_column, cells, notes
from .findings import Findings, ModelFindings
from .patterns import small_maps
from .translations import SentenceScores, extremes

#: Sentences of a page, besides those worth reading; more are left to the file of translations.
_ALL = 3_000


def glance_part(findings: Findings) -> Iterator[str]:
    """Say how good the models are, compared with what, and what their attention does."""
    several = len(findings.models) > 1
    if findings.comparison:
        yield from compared(findings.comparison)
    for model in findings.models:
        about = model.description.removeprefix(f"{model.name}; ")
        scores = [] if findings.comparison else _score_cards(findings, model)
        cards = [*scores, *_attention_cards(model)]
        yield item("cards", f"{model.name}: {about}" if several else about, cards)
    (first, *_) = findings.models[0].maps.sentences
    caption = "A sentence, and the attention when its reference is forced on the decoder"
    yield item("sentences", caption, [findings.examples[first.number]])
    for number, model in enumerate(findings.models):
        if kinds := small_maps(number, model.maps, first.number):
            yield item("patterns", model.name if several else "", kinds)
    if any(model.maps.sentences[0].units["words"] for model in findings.models):
        yield (
            "Each small map is a head, or a branch (the mean of its heads): rows attend to "
            "columns, and grey is forbidden by the pattern. The more a cell stands out, the larger "
            "its weight; maps of one kind share a scale. A click shows one large, with its words."
        )


def compared(comparison: dict) -> Iterator[str]:
    """The table of `compare`, over all of its seeds; the page's translations are of one seed."""
    for grid in comparison["grids"]:
        shown = Grid(grid["headings"], grid["rows"], grid["left"])
        yield item("table", shown, grid["title"] or "All seeds")
    yield from filter(None, comparison["notes"])


def _score_cards(findings: Findings, model: ModelFindings) -> Iterator[tuple[str, str, str]]:
    titles = {column.name: column.title for column in findings.scores.columns}
    ours = [number for number in findings.scores.numbers if number.row == model.name]
    for number in ours:
        if "." not in number.score:  # which is of one of several sets
            detail = f"{number.sentences:,} sentences; {model.search}"
            yield (titles[number.column], cells(number)[0], detail)
    first = findings.models[0].name
    if model.name != first:
        _, gain, p = cells(ours[0])
        compared_by = f"{titles[ours[0].column]}, p = {p}".replace("= <", "< ")
        yield (f"against {first}", gain, compared_by)


def _attention_cards(model: ModelFindings) -> Iterator[tuple[str, str, str]]:
    """What the heads of each kind do, means over all."""
    rows, layers = model.heads.heads, model.heads.layers
    for kind in dict.fromkeys(row["kind"] for row in rows):
        entropy, distance = (
            _mean(row[name] for row in rows if row["kind"] == kind)
            for name in ("relative_entropy", "distance")
        )
        differ = _mean(row["divergence_of_heads"] for row in layers if row["kind"] == kind)
        details = ["of its maximum"]
        if distance is not None:
            details.append(f"mean distance {distance:.2f} subwords")
        if differ is not None:
            details.append(f"heads differ by {differ:.2f} bits")
        value = "undefined" if entropy is None else f"{100 * entropy:.0f} %"
        yield (f"{kind} attention, entropy", value, "; ".join(details))
    if model.gates and model.gates.share is not None:
        yield ("gates", f"{model.gates.share:.3f}", "share of the local branch")


def _mean(numbers) -> float | None:
    known = [number for number in numbers if number is not None]
    return sum(known) / len(known) if known else None


def models_part(findings: Findings) -> Iterator[str]:
    about = {
        "architecture": [model.description for model in findings.models],
        "parameters": [f"{model.parameters:,}" for model in findings.models],
        "checkpoint": [model.path for model in findings.models],
        "sha256": [model.sha256 for model in findings.models],
    }
    headings = ["", *(model.name for model in findings.models)]
    rows = [[what, *values] for what, values in about.items()]
    yield item("table", Grid(headings, rows, left=len(headings)))
    yield item("code", "The command that made this report", shlex.join(findings.command))
    for model in findings.models:
        if model.translating:
            translating = shlex.join(model.translating)
            yield item("code", f"The command that translates with {model.name}", translating)
    made_with = {**findings.versions, "commit": findings.code["commit"]}
    if findings.code["modified"]:
        made_with["commit"] += ", with changes"
    lines = [f"{what} {version}" for what, version in made_with.items() if version]
    yield item("code", "Versions", "\n".join([*lines, f"made {findings.made}"]))


def scores_part(findings: Findings) -> Iterator[str]:
    """Show scores, and how likely the differences are due to chance."""
    if findings.comparison:  # which is at the top
        return
    yield item("table", by_column(findings.scores))
    yield from [*findings.notes, *notes(findings.scores)]


def translations_part(findings: Findings) -> Iterator[str]:
    """Show sentences: where models differ, the best and the worst, and all of them."""
    examples, names = findings.examples, [model.name for model in findings.models]
    yield "Sentences are ranked by chrF (sacrebleu's, from 0 to 100), here before each translation."
    first = names[0]
    lists: dict[str, list[SentenceScores]] = {}
    for other in names[1:]:

        def gain(example: SentenceScores, other: str = other) -> float:
            return example.scores[other] - example.scores[first]

        worse, better = extremes(examples, gain)
        lists[f"{other} is better than {first}"] = [one for one in better if gain(one) > 0]
        lists[f"{other} is worse than {first}"] = [one for one in worse if gain(one) < 0]
    worst, best = extremes(examples, lambda example: example.scores[first])
    lists |= {f"Best of {first}": best, f"Worst of {first}": worst}
    for caption, some in lists.items():
        if some:
            yield item("sentences", caption, some)
    headings = ["", *(f"chrF of {name}" for name in names), "source", "reference", *names]
    rows = [
        [
            example.number,
            *(round(example.scores[name], 1) for name in names),
            *(example.source, example.reference),
            *(example.translations[name] for name in names),
        ]
        for example in examples[:_ALL]
    ]
    caption = "All sentences" if len(examples) <= _ALL else f"The first {_ALL:,} sentences"
    yield item("table", Grid(headings, rows, digits=1), caption)


def maps_part(findings: Findings) -> Iterator[str]:
    if any(maps.units["words"] for model in findings.models for maps in model.maps.sentences):
        yield "The models read the source and are forced to produce the given translation."
        yield Markup(maps_page.section([model.maps for model in findings.models]))
    yield from _missing(findings)


def _missing(findings: Findings) -> Iterator[str]:
    for model in findings.models:
        for kind, reason in model.missing.items():
            yield f"{model.name} has no {kind} attention: {reason}."


def gates_part(findings: Findings) -> Iterator[str]:
    gated = [model.gates for model in findings.models if model.gates]
    if not gated:
        return
    meanings = {name: text for model in gated for name, text in model.meanings.items()}
    yield (
        "".join(f"{name.capitalize()}: {text}. " for name, text in sorted(meanings.items()))
        + f"Means are over all positions, including the end symbol, of {_sentences(findings)}. "
        "Interval (±): half of 95 %, over sentences."
    )
    yield figure("Mean gates and their deviation", lambda theme: gates.draw(gated, theme))
    for model in gated:
        yield item("table", model.grid, model.name)
        if model.share_text:
            yield f"All layers: {model.share_text}."


def _sentences(findings: Findings) -> str:
    counts = dict.fromkeys(model.sentences for model in findings.models)
    return f"{' or '.join(f'{count:,}' for count in counts)} sentences"


def heads_part(findings: Findings) -> Iterator[str]:
    yield (
        "Distance and its signed mean (negative: to the left) are in subwords. Entropy is in nats, "
        "and relative to the largest that the pattern allows. Self is attention to the position "
        "itself, symbol to the end symbol (decoder self-attention: to the start symbol). Means are "
        f"over all queries of {_sentences(findings)}, and over the heads of a layer with the same "
        "pattern; JSON has every head. The difference of heads is the Jensen-Shannon divergence in "
        "bits (0: equal, 1: no key in common), beside that of even attention under the same "
        "patterns."
    )
    models = [model.heads for model in findings.models]
    if seen := [model for model in models if model.heads]:
        caption = "Distance, relative entropy, difference"
        yield figure(caption, lambda theme: heads.draw(seen, theme))
    for model in models:
        if not model.heads:
            yield f"{model.name} has no attention that can be looked at."
            continue
        yield item("table", model.grid, f"{model.name}: heads")
        yield item("table", model.grid_of_differences, f"{model.name}: difference of heads")
    yield from _missing(findings)


def lengths_part(findings: Findings) -> Iterator[str]:
    scores = findings.lengths
    yield figure(
        scores.title,
        lambda theme: draw_groups(scores, "BLEU", "source", theme),
    )
    yield item("table", by_column(scores))
    yield from filter(None, [*notes(scores), scores.notes])


def curves_part(findings: Findings) -> Iterator[str]:
    if not findings.curves:
        return
    drawn = curves.panels(None, findings.curves)
    shown = [curve for panel in drawn for curve in panel.curves]
    yield figure("Against updates", lambda theme: curves.draw(drawn, theme))
    yield item("table", curves.grid(shown))
    yield from curves.notes(shown)


def probing_part(findings: Findings) -> Iterator[str]:
    """Show what classifiers can tell about sentences from the encoders' states."""
    if not findings.probing:
        return
    yield (
        "Accuracy, in per cent, of classifiers on the frozen encoder's sentence vectors, and its "
        "standard deviation over seeds. Most common class: when always chosen."
    )
    yield figure("Accuracy by task", lambda theme: probing.draw(findings.probing, theme))
    yield item("table", probing.grid(findings.probing))
    yield from probing.notes(findings.probing)


#: By their headings, in the order of the page; a part without content is left out.
PARTS: dict[str, Callable[[Findings], Iterator[str]]] = {
    "At a glance": glance_part,
    "Scores": scores_part,
    "Translations": translations_part,
    "BLEU by source length": lengths_part,
    "Attention maps": maps_part,
    "Gates": gates_part,
    "Heads and branches": heads_part,
    "Learning curves": curves_part,
    "Probing": probing_part,
    "Models": models_part,
}


def page(findings: Findings) -> str:
    """The page of the parts that have content."""
    made = {
        heading: list(items_of(findings))
        for heading, items_of in tqdm(PARTS.items(), unit=" parts", file=sys.stderr)
    }
    look, code = (
        files(__package__).joinpath(name).read_text(encoding="utf-8")
        for name in ("page.css", "page.js")
    )
    return _template("page.html.j2").render(
        title=findings.title,
        about=findings.about,
        parts={heading: items for heading, items in made.items() if items},
        style=maps_page.style() + look,
        code=code,
    )


@cache
def _template(name: str) -> Any:
    return maps_page.templates(__package__).get_template(name)


def item(macro: str, *values: object) -> str:
    """The HTML that a macro of ``items.html.j2`` makes of values."""
    return getattr(_template("items.html.j2").module, macro)(*values)


def figure(caption: str, draw: Callable[[str], style.Figure]) -> str:
    """A figure, drawn in a theme, with a caption below it."""
    images = {theme: style.render(draw(theme), "svg") for theme in style.THEMES}
    encoded = {theme: base64.b64encode(svg).decode() for theme, svg in images.items()}
    return item("figure", caption, encoded)
