"""The numbers that the README and docs/evidence.md quote are those of the published results.

They are in RESULTS.md, in results/*.json, or in the CSV of a published table, which has each
seed's number.  A decimal number may be rounded further than there.  A number that no result file
has is listed at the end of the page, in a comment: ``<!-- not from results: 6.5 0.17 -->``.  The
tables of docs/performance.md are those that the benchmarks' result files give.
"""

import json
import re
from pathlib import Path

import pytest

from benchmarks.tables import markdown
from fairseq_hybrid_attn.lab.tables.kept_tables import read_tables
from fairseq_hybrid_attn.lab.tables.printing import as_csv

ROOT = Path(__file__).parents[2]
NUMBER = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.]*\d)")
LISTED = re.compile(r"<!-- not from results:([^>]*)-->")


def strange(text: str, results: str) -> set[str]:
    """The decimal numbers of a text that are not in the results, rounded, nor listed by it."""
    found = NUMBER.findall(results)
    listed = set(" ".join(LISTED.findall(text)).split())
    quoted = set(NUMBER.findall(LISTED.sub("", text)))

    def is_known(number: str) -> bool:
        digits = len(number.partition(".")[2])
        half = 0.5 * 10**-digits + 1e-9  # either way of rounding a 5
        longer = (one for one in found if len(one.partition(".")[2]) >= digits)
        return any(abs(float(one) - float(number)) <= half * (one != number) for one in longer)

    known = {number for number in quoted if is_known(number)}
    return (quoted - known - listed) | (listed - quoted) | (listed & known)


def quoting() -> dict[str, str]:
    """The texts that quote results: of the README, the paragraphs that name RESULTS.md."""
    paragraphs = (ROOT / "README.md").read_text().split("\n\n")
    readme = "\n\n".join(one for one in paragraphs if "RESULTS.md" in one)
    return {"README.md": readme, "docs/evidence.md": (ROOT / "docs/evidence.md").read_text()}


@pytest.mark.parametrize("page", ["README.md", "docs/evidence.md"])
def test_numbers_are_those_of_the_results(page):
    tables = read_tables(ROOT / "results", ROOT / "configs")
    files = [ROOT / "RESULTS.md", *(ROOT / "results").glob("*.json")]
    results = [*(file.read_text() for file in files), *(as_csv(one.numbers) for one in tables)]
    assert not strange(quoting()[page], "\n".join(results))


def test_tables_of_costs_are_those_of_the_benchmarks():
    page = " ".join((ROOT / "docs/performance.md").read_text().split())
    documents = {
        file.stem: json.loads(file.read_text()) for file in (ROOT / "benchmarks/results").iterdir()
    }
    for line in documents.pop("bleu-cpu-bf16")["results"].values():
        assert line.split("BLEU4 = ")[1].split(",")[0] in page
    for document in documents.values():
        heading, *rest = markdown(document).split("\n\n")
        rows = [line for part in rest for line in part.splitlines() if line.startswith("| ")]
        assert rows
        for text in [heading, *rows]:
            assert " ".join(text.split()) in page


def test_a_number_that_no_result_has_is_found():
    results = "| 31.27 | 27.04 ± 0.89 (-5.49) | p 0.001; versions: python 3.11.7"
    assert strange("It falls by 5.5 BLEU, from 31.27 to 27.0.", results) == set()
    assert strange("It falls by 5.4 BLEU, to 27.04.", results) == {"5.4"}
    assert strange("At 3.11 and 27.040", results) == {"3.11", "27.040"}
    assert strange("6.5 words <!-- not from results: 6.5 -->", results) == set()
    # What is listed in vain.
    assert strange("<!-- not from results: 6.5 -->", results) == {"6.5"}
    assert strange("31.27 <!-- not from results: 31.27 -->", results) == {"31.27"}
