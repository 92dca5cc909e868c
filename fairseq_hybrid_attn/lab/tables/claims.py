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
from ..runs.planning import Plan, State, status
from ..scoring.combining import Combined, combined
from ..scoring.metrics import METRICS
from .comparison import Verdict
from .evidence import Translations, evidence

#: Sign, row and column; a hyphen is of the column's name unless another ROW/COLUMN follows.
_TERM = re.compile(r"\s*([+-]?)\s*(\w+)/(\w+(?:-\w+(?![\w/]))*)")

HELD, FAILED, OPEN = "held", "did not hold", "not decided at this size"
NOT_RUN, GONE = "not run", "cannot be judged, since translations or test set are not here"
TOO_FEW = "cannot be judged, since there are fewer than two sentences"
OTHER_TEXTS = "cannot be judged, since its numbers are of different texts"


def terms_of(table: Table, claim: Claim) -> list[tuple[int, Cell]]:
    """Sign and cell of each number of a claim.

    Raises:
        UserError: if it cannot be read, or names no cell of the table, or one that has no
            translations of its own to resample.
    """
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
                f"{table.name}: claims: {found[2]}/{found[3]} is no score of a whole translation"
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


def judge(plan: Plan) -> list[Verdict]:
    """All claims of a plan's table.

    A claim has held if the whole 95 % interval of our sum is above zero, and the sum of each
    seed; it did not hold if both are below.

    Raises:
        UserError: if a claim cannot be read.
    """
    return [_judge(plan, claim, terms_of(plan.table, claim)) for claim in plan.table.claims]


def _judge(plan: Plan, claim: Claim, terms: list[tuple[int, Cell]]) -> Verdict:
    reported = [cell.paper for _, cell in terms]
    paper = None
    if None not in reported:
        paper = sum(sign * number for (sign, _), number in zip(terms, reported, strict=True))
    try:
        found = {seed: _of_seed(plan, terms, seed) for seed in plan.seeds}
    except UserError as error:  # what they are about is not in this text
        verdict = f"cannot be judged: {error}"
        return Verdict(claim.says, paper, None, {}, plan.seeds, False, verdict)
    lacking = tuple(seed for seed, terms_found in found.items() if terms_found is None)
    found = {seed: terms_found for seed, terms_found in found.items() if terms_found}
    if not found:
        runs = [plan.workspace.run(cell, seed) for _, cell in terms for seed in plan.seeds]
        all_run = all(run.folder.result.exists() for run in runs)
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
    stale = any(status(run).state is State.STALE for run in runs)
    return Verdict(claim.says, paper, ours, by_seed, lacking, stale, verdict)


def _of_seed(plan: Plan, terms: list[tuple[int, Cell]], seed: int):
    """Sign and translations of each term; None if a run lacks."""
    found = [
        (sign, evidence(plan.workspace.run(cell, seed), cell.score, cell.column))
        for sign, cell in terms
    ]
    return found if all(isinstance(one, Translations) for _, one in found) else None


def _sum(terms: list[tuple[int, Translations]], factor: float) -> Combined:
    first = terms[0][1]
    return combined(
        first.score,
        [(sign * factor, one.translations) for sign, one in terms],
        first.references,
        first.target,
        first.lowercase,
    )
