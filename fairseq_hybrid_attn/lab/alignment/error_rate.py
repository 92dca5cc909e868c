"""Alignment error rate, precision and recall (Och & Ney 2003, "A Systematic Comparison of Various
Statistical Alignment Models", section 6).

With the links A of an alignment and, of a gold alignment, the sure links S and the possible links P
(which contain S):

    precision = |A n P| / |A|,  recall = |A n S| / |S|,  AER = 1 - (|A n S| + |A n P|) / (|A| + |S|)

The rates of a corpus come from its counts, summed over the sentences; they are not means of the
sentences' rates.  A rate with denominator 0 is undefined: precision without links, recall without
sure ones, AER without either.  A sentence without AER does not change the corpus's AER, whatever
its possible links; a note names the first such sentences.

All rates are in per cent, as papers print them.  Their formulas are in ``scores/counts.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..corpora.link_files import GoldSentence, Links
from ..files.checksums import digest
from ..scores.counts import FORMULAS, Score, SentenceCounts, scores_as_dict
from . import Choice

#: The rates, by the kinds of their counts.
RATES = ("aer", "precision", "recall")


def count(alignments: Iterable[Links], gold: Sequence[GoldSentence]) -> SentenceCounts:
    """The sizes of the sets for each sentence of a corpus: |A|, |S|, |P|, |A n S|, |A n P|."""
    rows = [
        (len(a), len(g.sure), len(g.possible), len(a & g.sure), len(a & g.possible))
        for a, g in zip(alignments, gold, strict=True)
    ]
    text = digest([[len(sentence.sure), len(sentence.possible)] for sentence in gold])
    return SentenceCounts("aer", np.array(rows, int).reshape(-1, 5), text)


def values(counts: SentenceCounts) -> dict[str, float | None]:
    """The rates by name; None where undefined."""
    found = {name: replace(counts, kind=name).value for name in RATES}
    return {name: None if np.isnan(value) else value for name, value in found.items()}


def rates(counts: SentenceCounts, **how: object) -> dict[str, Score]:
    """The defined rates by name; ``how`` the links were made is for the signature."""
    _, sure, possible, _, _ = counts.rows.sum(axis=0)
    parts = {**how, "sentences": len(counts.rows), "sure": sure, "possible": possible}
    signature = "|".join(f"{key}:{value}" for key, value in parts.items())
    return {
        name: Score(value, signature, replace(counts, kind=name))
        for name, value in values(counts).items()
        if value is not None
    }


def undefined(counts: SentenceCounts) -> list[int]:
    """The sentences (from 1) without AER: no links, and no sure ones in the gold."""
    return [int(number) + 1 for number in np.flatnonzero(np.isnan(FORMULAS["aer"](counts.rows)))]


def head_score(head: Choice) -> str:
    """The name of a head's error rate, as tables ask for it."""
    return f"aer.head{head}" if isinstance(head, int) else f"aer.{head}"


def rates_as_dict(
    name: str,
    selected: SentenceCounts,
    of_heads: Mapping[tuple[Choice, Choice], SentenceCounts],
    layer: Choice,
    /,
    **how: object,
) -> dict:
    """The rates of a selected layer and head, called ``name``, and of all (if any), for JSON.

    ``aer`` is of the selected head, ``aer.headN`` and ``aer.average`` of the others of its layer;
    ``heads`` has the rates of all layers.
    """
    layers = list(dict.fromkeys(layer for layer, _ in of_heads))
    if of_heads and isinstance(layer, int) and layer < 0:
        layer = layers[:-1][layer]  # the last of them is the average
    scores = rates(selected, **how)
    for (of_layer, head), counts in of_heads.items():
        of_head = rates(counts, **{**how, "head": head}) if of_layer == layer else {}
        scores |= {head_score(head): of_head["aer"]} if "aer" in of_head else {}
    return {
        "heads": [
            {"layer": of_layer, "head": head, **values(counts)}
            for (of_layer, head), counts in of_heads.items()
        ],
        "systems": {name: [scores_as_dict(scores)]},
    }
