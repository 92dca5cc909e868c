"""The decimals in the tables of pages are those of results, rounded; an interval goes with its
number, and a symbol with both."""

import json
import re

import pytest
from published import RESULTS, ROOT

from benchmarks.tables import markdown

DECIMAL = re.compile(r"(?<![\w.:/])\d+\.\d+(?![\w.]*\d)")
NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?![\w.]*\d)")
PAIR = re.compile(r"(-?\d+\.\d+) ± (\d+\.\d+)(?: ([✓✗~]))?")
PAGES = ["README.md", "RESULTS.md"]
#: What the pages quote: published pages, measurements, and the settings of their runs.
FOLDERS = ("results/pages", "results/measurements", "configs/evidence", "configs/settings")


def is_rounded(quoted: str, number: str) -> bool:
    """Either way of rounding a 5."""
    half = 0.5 * 10 ** -len(quoted.partition(".")[2]) + 1e-9
    return abs(float(quoted) - float(number.replace(",", ""))) <= half


def results() -> str:
    files = [path for folder in FOLDERS for path in (ROOT / folder).iterdir()]
    return "\n".join(path.read_text() for path in (RESULTS / "claims.md", *files))


def unknown_pairs(text: str, known: str) -> set[str]:
    """The ``5.5 ± 0.7 ✓`` of a text that are in no result; the symbol counts if it is there."""
    pairs = PAIR.findall(known)
    return {
        f"{value} ± {half} {symbol}".strip()
        for value, half, symbol in PAIR.findall(text)
        if not any(
            is_rounded(value, one[0]) and is_rounded(half, one[1]) and symbol in ("", one[2])
            for one in pairs
        )
    }


def unknown_decimals(text: str, known: str) -> set[str]:
    numbers = set(NUMBER.findall(known))
    return {
        one for one in DECIMAL.findall(text) if not any(is_rounded(one, two) for two in numbers)
    }


def tables(page: str) -> str:
    lines = (ROOT / page).read_text().splitlines()
    return "\n".join(line for line in lines if line.startswith("|"))


@pytest.mark.parametrize("page", PAGES)
def test_numbers_are_published(page):
    known = results()
    assert not unknown_pairs(tables(page), known)
    assert not unknown_decimals(tables(page), known)


def test_costs_are_those_of_the_benchmarks():
    documents = [json.loads(file.read_text()) for file in (ROOT / "benchmarks/results").iterdir()]
    known = [markdown(one) for one in documents if "machine" in one]
    assert not unknown_decimals(
        tables("docs/performance.md"), "\n".join([*map(json.dumps, documents), *known])
    )


def test_a_number_that_no_result_has_is_found():
    known = "| 27.04 ± 0.89 | -5.46 ± 0.65 ✗ |"
    assert unknown_pairs("27.0 ± 0.9, -5.5 ± 0.6 ✗, -5.5 ± 0.7", known) == set()
    assert unknown_pairs("-5.5 ± 0.7 ✓", known) == {"-5.5 ± 0.7 ✓"}
    assert unknown_pairs("27.0 ± 0.7", known) == {"27.0 ± 0.7"}
    assert unknown_decimals("27.04, 5.5 and 5.4", known) == {"5.4"}
