"""What a paper claims, as sums of a table's numbers, and whether ours agree.

A claim is a sum that is said to be above zero, such as the loss of one system less another's::

    claims:
      - says: HySAN loses less without positions than the Transformer
        above-zero: base/bleu - base/nopos - e1/bleu + e1/nopos
"""

from __future__ import annotations

import re

from ..errors import UserError
from ..scoring.combining import Combined, combined
from .comparison import Verdict
from .evidence import Translations, evidence
from .planning import Plan
from .tables import Cell, Claim, Table

_TERM = re.compile(r"\s*([+-]?)\s*(\w+)/(\w+)")

HELD, FAILED, OPEN = "held", "did not hold", "not decided at this size"


def terms_of(table: Table, claim: Claim) -> list[tuple[int, Cell]]:
    """Sign and cell of each number of a claim.

    Raises:
        UserError: if it cannot be read, or names no cell of the table.
    """
    terms, text = [], claim.above_zero
    while text.strip():
        found = _TERM.match(text)
        if not found or (terms and not found[1]):
            raise UserError(
                f"{table.name}: claims: {claim.above_zero!r}: use ROW/COLUMN, with + or - between"
            )
        row, column = table.row(found[2]), table.column(found[3])
        terms.append((-1 if found[1] == "-" else 1, Cell(table, row, column)))
        text = text[found.end() :]
    if not terms:
        raise UserError(f"{table.name}: claims: {claim.says!r} names no numbers")
    return terms


def judge(plan: Plan) -> list[Verdict]:
    """All claims of a plan's table.

    A claim has held if the whole 95 % interval of our sum is above zero, and the sum of each
    seed; it did not hold if the whole interval is below.

    Raises:
        UserError: if a claim cannot be read.
    """
    return [_judge(plan, claim) for claim in plan.table.claims]


def _judge(plan: Plan, claim: Claim) -> Verdict:
    terms = terms_of(plan.table, claim)
    reported = [cell.paper for _, cell in terms]
    paper = None
    if None not in reported:
        paper = sum(sign * number for (sign, _), number in zip(terms, reported, strict=True))
    by_seed = {seed: found for seed in plan.seeds if (found := _of_seed(plan, terms, seed))}
    if not by_seed:
        return Verdict(claim.says, paper, None, (), "not run")
    ours = _sum([term for found in by_seed.values() for term in found], 1 / len(by_seed))
    seeds = tuple(
        sum(sign * one.measure().value for sign, one in found) for found in by_seed.values()
    )
    verdict = OPEN
    if ours.low > 0 and min(seeds) > 0:
        verdict = HELD
    elif ours.high < 0:
        verdict = FAILED
    return Verdict(claim.says, paper, ours, seeds, verdict)


def _of_seed(plan: Plan, terms: list[tuple[int, Cell]], seed: int):
    """Sign and translations of each term; None if a run lacks."""
    found = [(sign, evidence(plan.workspace.run(cell, seed), cell.score)) for sign, cell in terms]
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
