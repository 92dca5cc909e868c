"""What a paper claims, as sums of a table's numbers, and whether ours agree.

A claim is a sum that is said to be above zero, such as the loss of one system less another's::

    claims:
      - says: HySAN loses less without positions than the Transformer
        above-zero: base/bleu - base/nopos - e1/bleu + e1/nopos
"""

from __future__ import annotations

import re

from ...errors import UserError
from ..configuration.tables import Cell, Claim, Table
from ..runs.planning import State
from ..scoring.combining import Combined, combined
from ..scoring.metrics import METRICS
from ..scoring.significance import SAMPLES
from .grids import STALE, signed
from .numbers import Verdict
from .run_results import RunResults
from .scored_sentences import ScoredTranslations

#: Sign, row and column; a hyphen is of the column's name unless another ROW/COLUMN follows.
_TERM = re.compile(r"\s*([+-]?)\s*(\w+)/(\w+(?:-\w+(?![\w/]))*)")

HELD, FAILED, OPEN = "held", "did not hold", "not decided at this size"
NOT_RUN, GONE = "not run", "cannot be judged, since translations or test set are not here"
TOO_FEW = "cannot be judged, since there are fewer than two sentences"
OTHER_TEXTS = "cannot be judged, since its numbers are of different texts"

HOW_JUDGED = (
    "Differences of BLEU, with the 95 % interval in brackets, by resampling the test set "
    f"{SAMPLES:,} times (the same sentences for all systems). Held: the whole interval is above "
    "zero, and so is every seed. Did not hold: both are below zero. The interval does not cover "
    "how much trainings with other seeds would differ, nor that many claims are tested."
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
    """The verdicts on all claims of a plan's table.

    A claim has held if the whole 95 % interval of our sum is above zero, and the sum of each
    seed; it did not hold if both are below.
    """
    table = results.plan.table
    return [_judge(results, claim, terms_of(table, claim)) for claim in table.claims]


def _judge(results: RunResults, claim: Claim, terms: list[tuple[int, Cell]]) -> Verdict:
    reported = [cell.paper for _, cell in terms]
    paper = None
    if None not in reported:
        paper = sum(sign * number for (sign, _), number in zip(terms, reported, strict=True))
    plan = results.plan
    try:
        found = {seed: _of_seed(results, terms, seed) for seed in plan.seeds}
    except UserError as error:  # what it is about is not in this text
        verdict = f"cannot be judged: {error}"
        return Verdict(claim.says, paper, None, {}, plan.seeds, False, verdict)
    lacking = tuple(seed for seed, terms_found in found.items() if terms_found is None)
    found = {seed: terms_found for seed, terms_found in found.items() if terms_found}
    if not found:
        runs = [run for _, cell in terms for run in results.runs(cell)]
        all_run = all(results.result(run) is not None for run in runs)
        verdict = GONE if all_run else NOT_RUN
        return Verdict(claim.says, paper, None, {}, lacking, False, verdict)
    together = [term for one in found.values() for term in one]
    if len({(tuple(one.references), one.target, one.lowercase) for _, one in together}) > 1:
        return Verdict(claim.says, paper, None, {}, lacking, False, OTHER_TEXTS)
    if len(together[0][1].references) < 2:
        return Verdict(claim.says, paper, None, {}, lacking, False, TOO_FEW)
    ours = _sum(together, 1 / len(found))
    by_seed = {
        str(seed): sum(sign * one.measure().value for sign, one in terms_found)
        for seed, terms_found in found.items()
    }
    verdict = OPEN
    if ours.low > 0 and min(by_seed.values()) > 0:
        verdict = HELD
    elif ours.high < 0 and max(by_seed.values()) < 0:
        verdict = FAILED
    runs = [plan.workspace.run(cell, seed) for _, cell in terms for seed in found]
    stale = any(results.status(run).state is State.STALE for run in runs)
    return Verdict(claim.says, paper, ours, by_seed, lacking, stale, verdict)


def _of_seed(
    results: RunResults, terms: list[tuple[int, Cell]], seed: int
) -> list[tuple[int, ScoredTranslations]] | None:
    """Sign and translations of each term; None if those of a run are missing."""
    place = results.plan.workspace
    found = [
        (sign, results.sentences(place.run(cell, seed), cell.score, cell.column))
        for sign, cell in terms
    ]
    return found if all(isinstance(one, ScoredTranslations) for _, one in found) else None


def _sum(terms: list[tuple[int, ScoredTranslations]], factor: float) -> Combined:
    first = terms[0][1]
    return combined(
        first.score,
        [(sign * factor, one.translations) for sign, one in terms],
        first.references,
        first.target,
        first.lowercase,
    )


def verdict_rows(verdicts: tuple[Verdict, ...]) -> list[dict[str, str]]:
    """The verdicts as rows of a grid."""
    return [
        {
            "claim": one.claim,
            "paper": signed(one.paper),
            "ours (95 %)": _with_interval(one.ours) if one.ours else "",
            "by seed": _by_seed(one),
            "": one.verdict + (STALE if one.stale else ""),
        }
        for one in verdicts
    ]


def verdict_sentence(one: Verdict) -> str:
    """A verdict as an item of a list in Markdown."""
    stale = f"{STALE} (a run is not up to date)" if one.stale else ""
    seeds = " (one seed)" if len(one.by_seed) == 1 else ""
    sentence = f"- **{one.verdict[0].upper()}{one.verdict[1:]}**{seeds}{stale}: {one.claim}"
    told = [
        *([f"ours {_with_interval(one.ours)}, {_by_seed(one)}"] if one.ours else []),
        *([f"paper {signed(one.paper)}{_outside(one)}"] if one.paper is not None else []),
    ]
    return f"{sentence}: {'; '.join(told)}." if told else f"{sentence}."


def _by_seed(one: Verdict) -> str:
    """The sum of each seed, and the seeds that have none."""
    told = [f"seed {seed}: {value:+.2f}" for seed, value in one.by_seed.items()]
    if one.lacking and told:
        told.append(f"not all runs with seed {', '.join(map(str, one.lacking))}")
    return ", ".join(told)


def _outside(one: Verdict) -> str:
    """Where the paper's sum is, if it is not within our interval."""
    if one.ours is None or one.ours.low <= one.paper <= one.ours.high:
        return ""
    return f" ({'above' if one.paper > one.ours.high else 'below'} our interval)"


def _with_interval(ours: Combined) -> str:
    return f"{ours.value:+.2f} ({ours.low:+.2f} to {ours.high:+.2f})"
