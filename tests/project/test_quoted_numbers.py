"""The numbers on pages are those of results: with an interval, rounded once from exact values, so
that two pages agree; other decimals as printed there, rounded."""

import json
import re
from functools import cache

import publish
import pytest
from published import RESULTS, ROOT

from benchmarks.tables import markdown

DECIMAL = re.compile(r"(?<![\w.:/])\d+\.\d+(?![\w.]*\d)")
NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?![\w.]*\d)")
PAIR = re.compile(r"(-?\d+\.\d+) ± (\d+\.\d+)")
SYSTEMS = {
    "Transformer": "transformer",
    "MMA": "transformer_mma",
    "HySAN e1": "hysan_e1",
    "Hybrid gate": "hybrid_gate",
}
#: The columns of the README's table: a table, its column with positions, and that without.
LOSSES = [
    (f"evidence/{table}", f"{sentences}positions", f"{sentences}no_positions")
    for table, sentences in (
        ("positions", ""),
        ("tiny", ""),
        ("japanese", ""),
        ("german", ""),
        ("german", "long_"),
    )
]
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


@cache
def exact() -> list[tuple[float, float]]:
    """The differences, with half their intervals, of claims and of a table's rows to its first."""
    found = [
        publish.judge(claim, table)[0]
        for of_paper in publish.claims().values()
        for claim in of_paper
        for table in (*claim.before, *claim.after)
    ]
    found += [one.difference for one in publish.measured("evidence/hysan_table1").numbers]
    return [(one.value, one.half) for one in found if one and one.half is not None]


def unknown_pairs(text: str, known: list[tuple[float, float]]) -> set[str]:
    """The ``5.5 ± 0.6`` of a text that are no exact value and interval, rounded once."""

    def is_one(value: str, half: str) -> bool:
        digits = len(value.partition(".")[2])
        signs = ((sign * one, other) for one, other in known for sign in (1, -1))
        return (value, half) in {(f"{one:.{digits}f}", f"{two:.{digits}f}") for one, two in signs}

    return {" ± ".join(pair) for pair in PAIR.findall(text) if not is_one(*pair)}


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
    text = (ROOT / page).read_text()
    assert not unknown_pairs(text, exact())
    prose = re.sub(r"`[^`\n]*`|^    .*$|[Pp]ython 3.*", "", text, flags=re.MULTILINE)
    assert not unknown_decimals(PAIR.sub("", prose), results())


def test_the_table_of_the_readme_is_that_of_its_results():
    """Each number rounded once; a mark where it is of one seed; empty where none was run."""
    text = (ROOT / "README.md").read_text()
    for name, row in SYSTEMS.items():
        (line,) = re.findall(rf"^\| {name} \|(.*)\|$", text, re.MULTILINE)
        expected = []
        for table, *columns in LOSSES:
            with_, without = (((row, column),) for column in columns)
            rows = publish.stored(table).plan.table.rows
            has_row = row in {one.name for one in rows}
            loss = publish.total(table, with_, without) if has_row else None
            if loss is None:
                expected.append("")
                continue
            mark = "¹" * (len(loss.by_seed) == 1)
            expected.append(f"{loss.text(1)} of {publish.total(table, with_, ()).value:.1f}{mark}")
        assert [cell.strip() for cell in line.split("|")] == expected


def test_the_tally_is_that_of_the_claims():
    def rows(text):
        found = re.findall(r"^\| (.*?\(.*? \d{4}\)) +\|(.*)\|$", text, re.MULTILINE)
        return {paper: [int(cell) for cell in cells.split("|")] for paper, cells in found}

    counted, shown = (
        rows(path.read_text()) for path in (RESULTS / "claims.md", ROOT / "RESULTS.md")
    )
    assert shown == {paper: numbers[:4] for paper, numbers in counted.items()}
    totals = [sum(column) for column in zip(*counted.values(), strict=True)]
    papers = re.findall(
        r"^## [^\n]* \d{4}\)$(.*?)(?=^## )",
        (RESULTS / "claims.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    late, alone = (
        [len(re.findall(rf"{verdict}≈?{mark}", "".join(papers))) for verdict in "✓✗"]
        for mark in (r"\\\*", r"(?:\\\*)?¹")
    )
    told = re.search(
        r"(\d+) in all, (\d+) held \((\d+) of one seed\), (\d+) did not \((\d+)\).*?"
        r"marks the (\d+), of (\d+) that\s+were.*?: "
        r"(\d+) of the \d+ that held, (\d+) of the",
        (ROOT / "RESULTS.md").read_text(),
        re.DOTALL,
    )
    run = sum(totals[:3])
    verdicts = [totals[0], alone[0], totals[1], alone[1]]
    expected = [sum(totals[:4]), *verdicts, totals[4], run, *late]
    assert list(map(int, told.groups())) == expected


def test_costs_are_those_of_the_benchmarks():
    documents = [json.loads(file.read_text()) for file in (ROOT / "benchmarks/results").iterdir()]
    known = [markdown(one) for one in documents if "machine" in one]
    assert not unknown_decimals(
        tables("docs/performance.md"), "\n".join([*map(json.dumps, documents), *known])
    )


def test_a_number_that_no_result_has_is_found():
    known = [(5.54944, 0.64647), (-0.15268, 0.69664)]
    assert unknown_pairs("5.5 ± 0.6, -5.55 ± 0.65, -0.2 ± 0.7", known) == set()
    assert unknown_pairs("5.5 ± 0.7, 5.6 ± 0.6, -0.1 ± 0.7", known) == {
        "5.5 ± 0.7",
        "5.6 ± 0.6",
        "-0.1 ± 0.7",
    }
    assert unknown_decimals("27.04, 5.5 and 5.4", "| 27.04 | 5.46 |") == {"5.4"}
