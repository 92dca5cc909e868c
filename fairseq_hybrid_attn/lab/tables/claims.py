"""What a paper claims, as sums of a table's numbers, and whether ours agree.

A claim is a sum that is said to be above zero, such as the loss of one system minus another's::

    claims:
      - says: HySAN loses less without positions than the Transformer
        above-zero: base/bleu - base/nopos - e1/bleu + e1/nopos
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from itertools import combinations
from statistics import fmean

import numpy as np

from ...errors import UserError
from ..config.paper_tables import Cell, Claim, Table
from ..runs.run_scores import AER
from ..runs.status import State
from ..scores.lengths_measure import Group
from ..scores.metrics import METRICS
from ..scores.significance import SAMPLES, SEED, ends
from .numbers import STALE, Verdict
from .run_results import RunResults

#: Sign, row and column; a hyphen belongs to the column's name unless another ROW/COLUMN follows.
_TERM = re.compile(r"\s*([+-]?)\s*(\w+)/(\w+(?:-\w+(?![\w/]))*)")

HELD, FAILED, OPEN = "held", "did not hold", "not decided"
NOT_RUN = "not run"
GONE = "cannot be judged, since translations, alignments or test set are not here"
OTHER_TEXTS = "cannot be judged, since its numbers are of different texts or signatures"

HOW_JUDGED = f"""\
- Ours: a difference of BLEU (or AER), positive where the claim is right. Intervals are 95 %, not
  corrected for the number of claims.
- Over sentences: {SAMPLES:,} draws of the test set (bootstrap), the same for all systems; where
  lengths are compared, of the sentences of each. Of seeds published separately, it is the mean of
  their intervals, usually wider than an interval of the mean.
- Over seeds: Student's t, for three or more. With fewer, no interval covers how much trainings
  differ.
- Held: every seed is above zero, and so is each interval. Did not hold: all of these are below
  zero."""

HOW_MOVED = """\
- "Width of seed 2": only seed 2 can be resampled here, and its interval is moved to the mean of all
  seeds; it is usually wider than one over all. It must be above (or below) zero around that seed's
  own value, too."""


def how_judged(verdicts: Iterable[Verdict]) -> list[str]:
    """What claims and their intervals mean, as paragraphs."""
    return [HOW_MOVED] * any(one.width_of for one in verdicts) + [HOW_JUDGED]


def terms_of(table: Table, claim: Claim) -> list[tuple[int, Cell]]:
    """Sign and cell of each number of a claim, all of which can be resampled together.

    Groups of sentences by length are resampled each by itself, as they do not overlap.
    """
    terms, text = [], claim.above_zero
    while text.strip():
        found = _TERM.match(text)
        if not found or (terms and not found[1]):
            raise UserError(
                f"{table.name}: claims: {claim.above_zero!r}: use ROW/COLUMN, with + or - between"
            )
        cell = Cell(table, table.row(found[2]), table.column(found[3]))
        if cell.column.curve or cell.score.partition(".")[0] not in {*METRICS, AER}:
            raise UserError(
                f"{table.name}: claims: {found[2]}/{found[3]} is not BLEU or AER after training"
            )
        terms.append((-1 if found[1] == "-" else 1, cell))
        text = text[found.end() :]
    if not terms:
        raise UserError(f"{table.name}: claims: {claim.says!r} names no numbers")
    if len({(cell.score, cell.column.cut) for _, cell in terms}) > 1:
        raise UserError(f"{table.name}: claims: {claim.above_zero!r} adds up different scores")
    groups = {cell.column.group for _, cell in terms}
    if any(None in pair or pair[0].overlaps(pair[1]) for pair in combinations(groups, 2)):
        raise UserError(
            f"{table.name}: claims: {claim.above_zero!r} adds up scores of sentences that overlap"
        )
    return terms


def judge(results: RunResults) -> list[Verdict]:
    """The verdicts on all claims of a plan's table, as :data:`HOW_JUDGED` says."""
    table = results.plan.table
    return [_judge(results, claim, terms_of(table, claim)) for claim in table.claims]


def _judge(results: RunResults, claim: Claim, terms: list[tuple[int, Cell]]) -> Verdict:
    reported = [cell.paper for _, cell in terms]
    paper = claim.paper
    if paper is None and None not in reported:
        paper = sum(sign * number for (sign, _), number in zip(terms, reported, strict=True))
    seeds = results.plan.seeds
    unknown = Verdict(claim.says, paper, {}, None, (), seeds, False, NOT_RUN)
    try:
        runs = [run for _, cell in terms for run in results.runs(cell)]
        asked = {run.name for run in (results.plan.runs if results.of_plan else runs)}
        if not asked.issuperset(run.name for run in runs):
            return unknown
        found = {seed: one for seed in seeds if (one := _of_seed(results, terms, seed))}
        if not found:
            all_done = all(results.result(run) is not None for run in runs)
            return replace(unknown, verdict=GONE if all_done else NOT_RUN)
        lacking = tuple(seed for seed in seeds if seed not in found)
        if not _are_of_one_text(found.values()):
            return replace(unknown, lacking=lacking, verdict=OTHER_TEXTS)
        by_seed = {str(seed): one.value for seed, one in found.items()}
        resampled = {str(seed): one.drawn for seed, one in found.items() if one.drawn is not None}
        bounds = None
        if resampled:
            bounds = ends(np.mean(list(resampled.values()), axis=0))
            moved = fmean(by_seed.values()) - fmean(by_seed[seed] for seed in resampled)
            bounds = bounds[0] + moved, bounds[1] + moved
    except UserError as error:  # this text does not have what the claim is about
        return replace(unknown, verdict=f"cannot be judged: {error}")
    stale = any(results.status(run).state is State.STALE for run in runs if run.seed in found)
    judged = Verdict(claim.says, paper, by_seed, bounds, tuple(resampled), lacking, stale, OPEN)
    return replace(judged, verdict=decided(judged))


def decided(one: Verdict) -> str:
    """The verdict that a claim's numbers give.

    An interval that was moved to the mean of more seeds also counts where it was measured.
    """
    measured = None
    if one.over_sentences:
        moved = one.ours - fmean(one.by_seed[seed] for seed in one.resampled)
        measured = tuple(end - moved for end in one.over_sentences)
    intervals = [pair for pair in (one.over_sentences, measured, one.over_seeds) if pair]
    values = [*one.by_seed.values(), *(end for bounds in intervals for end in bounds)]
    found = HELD if min(values) > 0 else FAILED if max(values) < 0 else OPEN
    return found if found == OPEN or one.over_sentences else GONE


@dataclass(frozen=True)
class _OfSeed:
    """The sum for one seed."""

    value: float
    #: What its numbers are of: the digests of corpora and the signatures of scores.
    made_with: set[tuple[str, str]]
    corpora: set[str]  #: their digests
    #: The group of sentences of each term, with its score and text; the sum on each draw, None if
    #: the texts of a run are gone.
    texts: list = field(default_factory=list)
    drawn: np.ndarray | None = None


def _of_seed(results: RunResults, terms: list[tuple[int, Cell]], seed: int) -> _OfSeed | None:
    """None if it cannot be computed: a run is missing, or does not have what is added up."""
    runs = [(sign, cell, results.plan.workspace.run(cell, seed)) for sign, cell in terms]
    kept = [results.result(run) for _, _, run in runs]
    if None in kept:
        return None
    scores = [one["scores"] for one in kept]
    names = [results.score(cell, has) for (_, cell, _), has in zip(runs, scores, strict=True)]
    stored = [has.get(name) for has, name in zip(scores, names, strict=True)]
    made_with = {
        (one["corpus"]["digest"], score["signature"])
        for one, score in zip(kept, stored, strict=True)
        if score
    }
    corpora = {one["corpus"]["digest"] for one in kept}
    try:
        found = [
            (sign, results.sentences(run, name, cell.column))
            for name, (sign, cell, run) in zip(names, runs, strict=True)
        ]
    except UserError:  # they are not of the test set
        return None
    if all(one is not None for _, one in found):
        drawn = [one.over_draws() for _, one in found]
        if any(one is None for one in drawn):
            raise UserError("there are fewer than two sentences, or draws of them without any link")
        groups = [cell.column.group for _, cell in terms]
        if len(set(groups)) > 1:
            drawn = [_apart(*pair) for pair in zip(drawn, groups, strict=True)]
        signs = [sign for sign, _ in found]
        value = sum(sign * one.value for sign, one in found)
        texts = [
            (group, (name, one.text))
            for group, name, (_, one) in zip(groups, names, found, strict=True)
        ]
        return _OfSeed(value, made_with, corpora, texts, np.dot(signs, drawn))
    if None in stored or any(cell.column.group or cell.column.cut for _, cell, _ in runs):
        return None
    value = 0.0
    for (sign, _, run), name, score in zip(runs, names, stored, strict=True):
        results.check_score(run, name, score["value"])
        value += sign * score["value"]
    return _OfSeed(value, made_with, corpora)


def _apart(drawn: np.ndarray, group: Group) -> np.ndarray:
    """The draws in an order of the group's own; groups of one size have the same draws."""
    return np.random.default_rng([SEED, group.above]).permutation(drawn)


def _are_of_one_text(found: Collection[_OfSeed]) -> bool:
    if any(one.drawn is None for one in found):
        return len(set.union(*(one.made_with for one in found))) == 1
    texts = [pair for one in found for pair in one.texts]
    of_group, corpora = dict(texts), set.union(*(one.corpora for one in found))
    if len(of_group) > 1 and len(corpora) > 1:  # then groups may be of unlike texts
        return False
    return all(text == of_group[group] for group, text in texts)


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
            told[0] += " ({:+.2f} to {:+.2f}{})".format(*bounds, one.width_of)
        if one.over_seeds:
            told.append("over seeds {:+.2f} to {:+.2f}".format(*one.over_seeds))
        told += [f"seed {seed}: {value:+.2f}" for seed, value in one.by_seed.items()]
        if one.lacking:
            told.append(f"without seed {', '.join(map(str, one.lacking))}")
        told = [", ".join(told)]
    if one.paper is not None:
        where = ""
        if bounds and not bounds[0] <= one.paper <= bounds[1]:
            where = f" ({'above' if one.paper > bounds[1] else 'below'} our interval)"
        told.append(f"paper {one.paper:+.2f}{where}")
    numbers = f": {'; '.join(told)}" if told else ""
    return f"- {verdict}{seeds}{stale}: {one.claim}{numbers}."
