"""The error rates of alignments as numbers of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...errors import few
from ..alignment import Choice
from ..alignment.error_rate import RATES, head_score, rates, undefined
from ..alignment.gold_file import SHOWN
from ..corpora.link_files import Gold
from ..scores.counts import Score, SentenceCounts
from .measuring import DONE, Number, TableNumbers, compared, number_of, table_of


def rates_table(gold: Gold, systems: Mapping[str, SentenceCounts]) -> TableNumbers:
    """AER, precision and recall of alignments by name, compared with the first."""
    _, sure, possible, _, _ = next(iter(systems.values())).rows.sum(axis=0)
    about = f"sentences: {len(gold.sentences):,}; gold links: {sure:,} sure, "
    about += f"{possible - sure:,} only possible"
    if gold.left_out:
        about += f"; beyond their sentence, left out: {gold.left_out:,}"
    numbers, notes = [], []
    for name, counts in systems.items():
        found = rates(counts)
        numbers += [_number(name, rate, found.get(rate)) for rate in RATES]
        if lacking := undefined(counts):
            what = "no links, no sure gold links; counted from 1"
            fault = f"no AER in {len(lacking):,} sentences ({what}): {few(lacking, SHOWN)}"
            notes.append(f"{name}: {fault}")
    titles = {rate: "AER" if rate == "aer" else rate for rate in RATES}
    table = compared(table_of(about, titles, numbers))
    return replace(table, notes="\n".join(notes))


def heads_table(counts: Mapping[tuple[Choice, Choice], SentenceCounts]) -> TableNumbers:
    """AER by layer and head: a row for each layer, a column for each head."""
    titles, numbers = {}, []
    for (layer, head), of_head in counts.items():
        name = head_score(head)
        titles[name] = f"head {head}"
        numbers.append(_number(f"layer {layer}", name, rates(of_head).get("aer")))
    return table_of("AER of layers and heads", titles, numbers)


def _number(row: str, name: str, score: Score | None) -> Number:
    return number_of(row, name, {1: score} if score else {}, DONE if score else "undefined")
