"""Scores by the length of the source sentence (MMA, Fig. 2; after Bahdanau et al. 2015).

The test set is divided into groups by the number of words of the source sentence.  Each group is
scored as a separate corpus: BLEU over all of its n-grams, not a mean over sentences.
MMA's groups are (0,10], (10,20], … (50,∞).  The paper does not say what it counts; **[reading]**
words of the tokenised source, before they are split into subwords.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ..figures import style
from ..scores.lengths import BOUNDS, groups_of
from ..scores.metrics import Metric, check_parallel
from .measuring import DONE, Number, TableNumbers, compared, number_of, table_of

#: Inches of a group, and the part of it that its systems' points share.
_GROUP = 0.95
_SHARED = 0.5


def score_by_length(
    metric: Metric,
    systems: Mapping[str, Sequence[list[str]]],
    references: Sequence[list[str]],
    lengths: list[int],
    bounds: Iterable[int] = BOUNDS,
    side: str = "source",
) -> TableNumbers:
    """Score systems, translations as text of each seed by name, on each group and on the whole.

    ``lengths`` are words of each sentence, of the ``side``; those without words are in no group.
    Systems are compared with the first.
    """
    check_parallel({f"the {side}": lengths}, *references)
    groups = {
        str(group): [number for number, words in enumerate(lengths) if words in group]
        for group in groups_of(bounds)
    } | {"all": list(range(len(lengths)))}
    numbers = []
    for name, of_seeds in systems.items():
        counts = [metric.counts(lines, *references) for lines in of_seeds]
        for label, chosen in groups.items():
            scores = {
                seed: metric.score_of(one.of(chosen, label))
                for seed, one in enumerate(counts if chosen else (), 1)
            }
            state = DONE if chosen else "no sentences"
            numbers.append(number_of(name, label, scores, state, metric.name))
    title = f"{metric.label} by the words of the {side}"
    empty = lengths.count(0)
    note = f"in no group, since their {side} has no words: {empty:,} sentences" if empty else ""
    table = compared(table_of(title, dict(zip(groups, groups, strict=True)), numbers))
    return replace(table, label=f"{side} words", notes=note)


def draw(
    groups: Mapping[str, Sequence[Number]],
    systems: Mapping[str, str],
    label: str,
    theme: str = "light",
    side: str = "source",
) -> style.Figure:
    """Draw points with 95 % intervals, a line per system; a group without sentences is a gap.

    ``groups`` have the numbers of each by its label, ``systems`` the names of rows for display.
    """
    with style.theme(theme, texts=[*systems.values(), label]) as colours:
        figure = style.new_figure(max(4.5, 1.2 + _GROUP * len(groups)), 3.6)
        axes = figure.subplots()
        axes.grid(axis="x", visible=False)
        for number, (row, name) in enumerate(systems.items()):
            # Side by side, so that intervals do not hide one another.
            shift = _SHARED * ((number + 0.5) / len(systems) - 0.5)
            found = [
                next((one.ours for one in numbers if one.row == row), None)
                for numbers in groups.values()
            ]
            axes.errorbar(
                [at + shift for at in range(len(groups))],
                [float("nan") if one is None else one.value for one in found],
                yerr=[0.0 if one is None else one.half or 0.0 for one in found],
                label=name,
                capsize=2.5,
                elinewidth=1.0,
                **style.series(number, colours),
            )
        sizes = [max(number.sentences for number in numbers) for numbers in groups.values()]
        headings = [f"{group}\nn = {size:,}" for group, size in zip(groups, sizes, strict=True)]
        axes.set_xticks(range(len(groups)), headings)
        axes.set_xlim(-0.6, len(groups) - 0.4)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(f"words of the {side} sentence (n: sentences)")
        axes.set_ylabel(label)
        style.legend_above(axes)
    return figure


def draw_groups(table: TableNumbers, label: str, side: str, theme: str) -> style.Figure:
    """Draw the groups of :func:`score_by_length`, without the whole."""
    groups = {column.name: table.of(column.name) for column in table.columns[:-1]}
    names = {number.row: number.system for number in table.numbers}
    return draw(groups, names, label, theme, side)
