"""What a paper claims, as sums of a table's numbers, and whether ours agree.

A claim is a sum that is said to be above zero, such as the loss of one system minus another's::

    claims:
      - says: HySAN loses less without positions than the Transformer
        above-zero: base/bleu - base/nopos - e1/bleu + e1/nopos
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...errors import UserError
from ..config.paper_tables import AER, Cell, Claim, terms_of
from ..scores.counts import SAMPLES, ends
from .numbers import STALE, Verdict
from .stored_runs import StoredRuns

HELD, FAILED, OPEN = "held", "did not hold", "not decided"
NOT_RUN = "not run"
GONE = "cannot be judged, since its sentences cannot be resampled"
OTHER_TEXTS = "cannot be judged, since its numbers are of different texts or signatures"

HOW_JUDGED = f"""\
- Ours: a difference of BLEU (or AER), positive where the claim is right. Intervals are 95 %, not
  corrected for the number of claims.
- Over sentences: {SAMPLES:,} draws of the test set (bootstrap), the same for all systems; where
  lengths are compared, of the sentences of each.
- Over seeds: Student's t, for three or more. With fewer, no interval covers how much trainings
  differ.
- Held: every seed is above zero, and so is each interval. Did not hold: all of these are below
  zero.
- *: written after the first results of these runs, or of the same systems in another table."""


def judge(stored: StoredRuns) -> list[Verdict]:
    """The verdicts on all claims of a plan's table, as :data:`HOW_JUDGED` says."""
    table = stored.plan.table
    return [_judge(stored, claim, terms_of(table, claim)) for claim in table.claims]


def _judge(stored: StoredRuns, claim: Claim, terms: list[tuple[int, Cell]]) -> Verdict:
    reported = [cell.paper for _, cell in terms]
    paper = claim.paper
    if paper is None and None not in reported:
        paper = sum(sign * number for (sign, _), number in zip(terms, reported, strict=True))
    seeds, late = stored.plan.seeds, claim.after_results
    unknown = Verdict(claim.says, paper, {}, None, seeds, False, NOT_RUN, late)
    try:
        sums = {seed: of_seed for seed in seeds if (of_seed := _sum(stored, terms, seed))}
        if not sums:
            return unknown
        lacking = tuple(seed for seed in seeds if seed not in sums)
        drawn = [of_seed.drawn for of_seed in sums.values()]
        can_be_resampled = all(scores is not None for scores in drawn)
        texts = [
            of_seed.texts if can_be_resampled else of_seed.results for of_seed in sums.values()
        ]
        if len(set.union(*texts)) > 1:
            return replace(unknown, lacking=lacking, verdict=OTHER_TEXTS)
        stale = any(stored.changed(cell) for _, cell in terms)
    except UserError as error:  # this text does not have what the claim is about
        return replace(unknown, verdict=f"cannot be judged: {error}")
    by_seed = {seed: of_seed.value for seed, of_seed in sums.items()}
    bounds = ends(np.mean(drawn, axis=0)) if can_be_resampled else None
    judged = Verdict(claim.says, paper, by_seed, bounds, lacking, stale, OPEN, late)
    return replace(judged, verdict=decided(judged))


def decided(verdict: Verdict) -> str:
    """The verdict that a claim's numbers give."""
    intervals = [pair for pair in (verdict.over_sentences, verdict.over_seeds) if pair]
    values = [*verdict.by_seed.values(), *(end for bounds in intervals for end in bounds)]
    if min(values) <= 0 <= max(values):
        return OPEN
    if not verdict.over_sentences:
        return GONE
    return HELD if min(values) > 0 else FAILED


@dataclass(frozen=True)
class _Sum:
    """The sum for one seed."""

    value: float
    drawn: np.ndarray | None  #: for each draw of sentences; None if a term cannot be resampled
    texts: set[tuple]  #: of the terms' counts
    results: set[tuple]  #: corpora and signatures of the terms' scores


def _sum(stored: StoredRuns, terms: list[tuple[int, Cell]], seed: int) -> _Sum | None:
    """None if it cannot be computed: a run is missing, or does not have what is added up."""
    value, drawn, texts, results = 0.0, [], set(), set()
    for sign, cell in terms:
        run, group = stored.plan.workspace.run(cell, seed), cell.column.group
        result = stored.result(run)
        if result is None:
            return None
        name = stored.score(cell, result["scores"])
        score, corpus = result["scores"].get(name), result["corpus"]["digest"]
        counts = stored.counts(run, name, group)
        if counts is not None and not len(counts.rows):
            raise UserError("there are no such sentences")
        if counts is None and (score is None or group is not None):
            return None
        number = score["value"] if counts is None else counts.value
        value += sign * number
        if counts is not None and counts.drawn is not None:
            drawn.append(sign * counts.drawn)
            texts.add((*stored.counts(run, name).origin, group and corpus))
        if score is not None:  # an error rate's signature names the head, which may differ
            results.add((corpus, None if name.startswith(AER) else (name, score["signature"])))
    return _Sum(value, sum(drawn) if len(drawn) == len(terms) else None, texts, results)


def in_words(verdict: Verdict) -> str:
    """A verdict as an item of a list."""
    told = [f"{verdict.verdict[0].upper()}{verdict.verdict[1:]}"]
    told[0] += " (one seed)" * (len(verdict.by_seed) == 1)
    told[0] += f"{STALE} (a run is not up to date)" * verdict.stale
    numbers, bounds = [], verdict.over_sentences
    if verdict.by_seed:
        ours = f"ours {verdict.ours:+.2f}" + (
            " ({:+.2f} to {:+.2f})".format(*bounds) if bounds else ""
        )
        numbers.append(ours)
        if verdict.over_seeds:
            numbers[0] += ", over seeds {:+.2f} to {:+.2f}".format(*verdict.over_seeds)
        numbers[0] += "".join(f", seed {n}: {value:+.2f}" for n, value in verdict.by_seed.items())
        if verdict.lacking:
            numbers[0] += f", without seed {', '.join(map(str, verdict.lacking))}"
    if verdict.paper is not None:
        where = ""
        if bounds and not bounds[0] <= verdict.paper <= bounds[1]:
            where = f" ({'above' if verdict.paper > bounds[1] else 'below'} our interval)"
        numbers.append(f"paper {verdict.paper:+.2f}{where}")
    claim = verdict.claim + "*" * verdict.after_results
    return f"- {told[0]}: {claim}{': ' * bool(numbers)}{'; '.join(numbers)}."
