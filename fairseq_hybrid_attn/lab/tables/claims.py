"""What a paper claims, as sums of a table's numbers, and whether ours agree.

A claim is a sum that is said to be above zero, such as the loss of one system minus another's::

    claims:
      - says: HySAN loses less without positions than the Transformer
        above-zero: base/bleu - base/nopos - e1/bleu + e1/nopos
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace

from ...errors import UserError
from ..configuration.paper_tables import Cell, Claim, Table
from ..planning.status import State
from ..scoring.metrics import METRICS
from ..scoring.significance import SAMPLES, combined
from .numbers import STALE, Verdict
from .run_results import RunResults, ScoredTranslations

#: Sign, row and column; a hyphen belongs to the column's name unless another ROW/COLUMN follows.
_TERM = re.compile(r"\s*([+-]?)\s*(\w+)/(\w+(?:-\w+(?![\w/]))*)")

HELD, FAILED, OPEN = "held", "did not hold", "not decided at this size"
NOT_RUN, GONE = "not run", "cannot be judged, since translations or test set are not here"
TOO_FEW = "cannot be judged, since there are fewer than two sentences"
OTHER_TEXTS = "cannot be judged, since its numbers are of different texts"

HOW_JUDGED = (
    "Differences of BLEU with 95 % intervals. Over sentences: "
    f"{SAMPLES:,} draws of the test set (bootstrap), the same for all systems. For seeds that were "
    "published apart, it is the mean of their intervals; where it names a seed, it is of that "
    "seed alone, since others have no translations here. Over seeds: Student's t, for three or "
    "more. Held: every interval given is above zero, and so is every seed; with two seeds, this "
    "does not cover how much trainings differ. Did not hold: all are below zero. No interval "
    "covers that many claims are tested."
)


def terms_of(table: Table, claim: Claim) -> list[tuple[int, Cell]]:
    """Sign and cell of each number of a claim, all of which can be resampled together."""
    terms, text = [], claim.above_zero
    while text.strip():
        found = _TERM.match(text)
        if not found or (terms and not found[1]):
            raise UserError(
                f"{table.name}: claims: {claim.above_zero!r}: use ROW/COLUMN, with + or - between"
            )
        cell = Cell(table, table.row(found[2]), table.column(found[3]))
        if cell.column.curve or cell.score.partition(".")[0] not in METRICS:
            raise UserError(
                f"{table.name}: claims: {found[2]}/{found[3]} is not a score of a whole translation"
            )
        terms.append((-1 if found[1] == "-" else 1, cell))
        text = text[found.end() :]
    if not terms:
        raise UserError(f"{table.name}: claims: {claim.says!r} names no numbers")
    if len({(cell.score, cell.column.group, cell.column.cut) for _, cell in terms}) > 1:
        raise UserError(
            f"{table.name}: claims: {claim.above_zero!r} adds up different scores, or scores of "
            "different sentences"
        )
    return terms


def judge(results: RunResults) -> list[Verdict]:
    """The verdicts on all claims of a plan's table, as :data:`HOW_JUDGED` says."""
    table = results.plan.table
    return [_judge(results, claim, terms_of(table, claim)) for claim in table.claims]


def _judge(results: RunResults, claim: Claim, terms: list[tuple[int, Cell]]) -> Verdict:
    reported = [cell.paper for _, cell in terms]
    paper = None
    if None not in reported:
        paper = sum(sign * number for (sign, _), number in zip(terms, reported, strict=True))
    seeds = results.plan.seeds
    try:
        runs = [run for _, cell in terms for run in results.runs(cell)]
        found = {seed: _of_seed(results, terms, seed) for seed in seeds}
    except UserError as error:  # this text does not have what the claim is about
        return Verdict(claim.says, paper, {}, None, (), seeds, False, f"cannot be judged: {error}")
    lacking = tuple(seed for seed in seeds if found[seed] is None)
    found = {seed: one for seed, one in found.items() if one is not None}
    why_not = None
    if not found:
        why_not = GONE if all(results.result(run) is not None for run in runs) else NOT_RUN
    elif not _are_of_one_text(found.values()):
        why_not = OTHER_TEXTS
    elif any(len(part.references) < 2 for one in found.values() for _, part in one.sentences):
        why_not = TOO_FEW
    if why_not:
        return Verdict(claim.says, paper, {}, None, (), lacking, False, why_not)
    by_seed = {str(seed): one.value for seed, one in found.items()}
    stale = any(results.status(run).state is State.STALE for run in runs if run.seed in found)
    resampled = {str(seed): one.sentences for seed, one in found.items() if one.sentences}
    bounds = _over_sentences(list(resampled.values())) if resampled else None
    judged = Verdict(claim.says, paper, by_seed, bounds, tuple(resampled), lacking, stale, OPEN)
    return replace(judged, verdict=decided(judged))


def decided(one: Verdict) -> str:
    """The verdict that a claim's numbers give."""
    intervals = [bounds for bounds in (one.over_sentences, one.over_seeds) if bounds]
    if not intervals:
        return GONE
    values = [*one.by_seed.values(), *(end for bounds in intervals for end in bounds)]
    if min(values) > 0:
        return HELD
    return FAILED if max(values) < 0 else OPEN


@dataclass(frozen=True)
class _OfSeed:
    """The sum for one seed."""

    corpora: set[str]  #: the digests of its runs' corpora
    #: Sign and translations of each term; empty if those of a run are gone.
    sentences: list[tuple[int, ScoredTranslations]]
    stored: float = 0.0  #: without translations, what the results say

    @property
    def value(self) -> float:
        return sum(sign * one.measure().value for sign, one in self.sentences) or self.stored


def _of_seed(results: RunResults, terms: list[tuple[int, Cell]], seed: int) -> _OfSeed | None:
    """None if it cannot be computed: a run is missing, or does not have what is added up."""
    runs = [(sign, cell, results.plan.workspace.run(cell, seed)) for sign, cell in terms]
    kept = [results.result(run) for _, _, run in runs]
    if None in kept:
        return None
    corpora = {result["corpus"]["digest"] for result in kept}
    try:
        found = [
            (sign, results.sentences(run, cell.score, cell.column)) for sign, cell, run in runs
        ]
    except UserError:  # they are not of the test set
        return None
    if all(isinstance(one, ScoredTranslations) for _, one in found):
        return _OfSeed(corpora, found)
    stored = 0.0
    for (sign, cell, run), result in zip(runs, kept, strict=True):
        score = result["scores"].get(cell.score)
        if not score or cell.column.group or cell.column.cut:
            return None
        results.check_score(run, cell.score, score["value"])
        stored += sign * score["value"]
    return _OfSeed(corpora, [], stored)


def _are_of_one_text(found: Collection[_OfSeed]) -> bool:
    if not all(one.sentences for one in found):
        return len(set.union(*(one.corpora for one in found))) == 1
    parts = [part for one in found for _, part in one.sentences]
    return len({(tuple(part.references), part.target, part.lowercase) for part in parts}) == 1


def _over_sentences(found: list[list[tuple[int, ScoredTranslations]]]) -> tuple[float, float]:
    together = [term for one in found for term in one]
    first = together[0][1]
    summands = [(sign / len(found), one.translations) for sign, one in together]
    ours = combined(first.score, summands, first.references, first.target, first.lowercase)
    return ours.low, ours.high


def in_words(one: Verdict) -> str:
    """A verdict as an item of a list."""
    verdict = f"{one.verdict[0].upper()}{one.verdict[1:]}"
    seeds = " (one seed)" if len(one.by_seed) == 1 else ""
    stale = f"{STALE} (a run is not up to date)" if one.stale else ""
    told = []
    bounds = one.over_sentences
    if one.by_seed:
        told.append(f"ours {one.ours:+.2f}")
        if bounds:
            alone = f"seed {' '.join(one.resampled)}: " if one.is_of_fewer_seeds else ""
            told[0] += " ({}{:+.2f} to {:+.2f})".format(alone, *bounds)
        if one.over_seeds:
            told.append("over seeds {:+.2f} to {:+.2f}".format(*one.over_seeds))
        told += [f"seed {seed}: {value:+.2f}" for seed, value in one.by_seed.items()]
        if one.lacking:
            told.append(f"not all runs with seed {', '.join(map(str, one.lacking))}")
        told = [", ".join(told)]
    if one.paper is not None:
        where = ""
        if bounds and not bounds[0] <= one.paper <= bounds[1]:
            where = f" ({'above' if one.paper > bounds[1] else 'below'} our interval)"
        told.append(f"paper {one.paper:+.2f}{where}")
    numbers = f": {'; '.join(told)}" if told else ""
    return f"- {verdict}{seeds}{stale}: {one.claim}{numbers}."
