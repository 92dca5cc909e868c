"""The numbers that the README and the documentation quote are those of the published results.

A number is looked up in the tables that its paragraph or list item names, and in those of its page
(``TABLES``).  Decimals may be rounded further than in the results; a sign counts, if there is one.
Decimals that are no results are in ``NOT_RESULTS``.  Whole numbers, of two digits or more, are
looked up where tables are named, and on pages that are all about results.

Numbers of docs/performance.md are in the benchmarks' result files that its section names or prints,
or else in any.
"""

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

from published import cell_folder, published_tables

from benchmarks.tables import markdown
from fairseq_hybrid_attn.lab.config.paper_tables import load_table
from fairseq_hybrid_attn.lab.files.json_files import read_json
from fairseq_hybrid_attn.lab.tables.printing import as_csv, as_markdown

ROOT = Path(__file__).parents[2]
DECIMAL = re.compile(r"(?<![\w.])[+-]?\d+\.\d+(?![\w.]*\d)")
WHOLE = re.compile(r"(?<![\w.,])(?:\d{1,3}(?:,\d{3})+|\d{2,})(?![\w.,]*\d)")
TABLE = re.compile(r"evidence(?:/|\.(?!md))(\w+)")  # or a file, results/*.evidence.TABLE.json
#: The tables of a page, besides those that an item names.
TABLES = {
    "README.md": {"evidence/positions", "evidence/tiny", "demo/architectures"},
    "docs/demo.md": {"demo/architectures"},
    "docs/papers/alignment.md": {"evidence/alignment"},
    "docs/reproducing.md": {"evidence/positions", "example.evidence.positions.json"},
}
#: Settings, sizes, versions, numbers of papers, examples.
NOT_RESULTS = {
    "README.md": "3.12 16 30 64 2020 4000",
    "docs/alignment.md": "2.0",
    "docs/analysis.md": "0.00001 0.6",
    "docs/attention_module.md": "0.01 0.1",
    "docs/corpora.md": "1.4 1.5 4.5 5.36 9.02 25.1 41.02",
    "docs/demo.md": "75 200",
    "docs/evidence.md": "0.005 9,712",
    "docs/extending.md": "0.001 4.3",
    "docs/install.md": "2.13 2.15 2.6 3.11 3.12",
    "docs/lengths_and_curves.md": "0.6",
    "docs/models.md": "+0.0 0.1 +0.3 0.3 +0.4 0.5 +0.8 +1.57 +6.29 +25.1",
    "docs/papers/alignment.md": "0.25 0.998 4.5 8.5 22.50 25.50",
    "docs/papers/hybrid_gate.md": "0.1 +0.3 +0.4 0.6 +0.8 0.9 0.98 4.5 44.1 88.0 93.3",
    "docs/papers/hysan.md": "0.1 0.3 0.6 0.9 0.98 1.1 1.2 2.6 11.9 27.3 28.4 60.5 66.8 209.1 213.4",
    "docs/papers/mma.md": "0.1 0.3 0.5 0.9 0.98 3.3 4.3 68.7",
    "docs/performance.md": "0.32 0.34 0.40 1.06 1.17 1.19 17 117 511 783 1,167 4,000 4,096",
    "docs/probing.md": "0.001 0.1 0.2",
    "docs/reproducing.md": "16",
    "docs/training.md": "0.1 0.3 0.6 0.9 0.98 1.00",
}


def strange(text: str, results: str) -> set[str]:
    """The numbers of a text that are not in the results, decimals rounded."""
    text = re.sub(r"et\sal\.\s\d{4}", "", text)
    has = {float(one.replace(",", "")) for one in WHOLE.findall(results)}
    unknown = {one for one in WHOLE.findall(text) if float(one.replace(",", "")) not in has}
    found = DECIMAL.findall(results)

    def is_known(number: str) -> bool:
        digits = len(number.partition(".")[2])
        half = 0.5 * 10**-digits + 1e-9  # either way of rounding a 5
        size = float if number[0] in "+-" else lambda one: abs(float(one))
        longer = (one for one in found if len(one.partition(".")[2]) >= digits)
        return any(abs(size(one) - float(number)) <= half * (one != number) for one in longer)

    return unknown | {one for one in DECIMAL.findall(text) if not is_known(one)}


def named(text: str) -> set[str]:
    """The tables and files of results that a text names."""
    files = re.findall(r"\w+\.evidence\.\w+\.json", text)
    return {*files, *(f"evidence/{one}" for one in TABLE.findall(text))}


def tables_of(page: str, item: str) -> set[str]:
    """The tables that an item of a page is about."""
    names = named(item) & set(published())
    study = page == "docs/evidence.md" or re.search(r"evidence\.md[#)]", item)
    return names | TABLES.get(page, set()) or ({"evidence/positions"} if study else set())


@cache
def published() -> dict[str, str]:
    """What the results say, by table: its numbers, and the settings and counts of its runs."""
    results = {}
    for plan, numbers in published_tables():
        name, runs = numbers.table, []
        for path in (cell_folder(plan, cell) for cell in plan.cells):
            for run in map(read_json, sorted(path.glob("seed*/result.json"))):
                corpus = [run["corpus"].get(key) for key in ("counts", "tests")]
                rates = [of for score, of in run["scores"].items() if score.startswith("aer")]
                runs.append(str([run["settings"], run["updates"], corpus, rates]))
        more = (ROOT / "results/measurements").glob(f"*.{name.replace('/', '.')}.json")
        measured = {file.name: file.read_text() for file in more}
        numbers = replace(numbers, notes="")  # they are written by hand, and quote others
        runs += [text for file, text in measured.items() if file.startswith("intervals.")]
        results[name] = "\n".join([as_markdown(numbers), as_csv(numbers), *runs])
        results |= measured
    return results


def items(text: str) -> list[str]:
    """Paragraphs and list items, each in one line."""
    return [" ".join(one.split()) for one in re.split(r"\n\n|\n(?=- )", text)]


def not_published(page: str, text: str) -> set[str]:
    """The numbers of a page that its tables do not have."""
    unknown = set()
    for item in items(text):
        tables = tables_of(page, item)
        found = strange(item, "\n".join(published()[name] for name in tables))
        whole = TABLE.search(item) or page in ("README.md", "docs/demo.md", "docs/evidence.md")
        unknown |= {one for one in found if whole or "." in one}
    return unknown


PAGES = {str(path.relative_to(ROOT)): path for path in (ROOT / "docs").rglob("*.md")}
PAGES["README.md"] = ROOT / "README.md"


def test_numbers_of_all_pages_are_published():
    found = {
        name: not_published(name, path.read_text())
        for name, path in PAGES.items()
        if name != "docs/performance.md"
    }
    listed = {name: set(NOT_RESULTS.get(name, "").split()) for name in found}
    assert found == listed


def test_decimals_in_the_notes_of_tables_are_published():
    unknown = set()
    for name in sorted({numbers.table for _, numbers in published_tables()}):
        table = load_table(name, ROOT / "configs")
        notes = "\n".join([table.notes, *table.not_used])
        results = (published().get(one, "") for one in {name} | named(notes))
        unknown |= strange(notes, "\n".join(results))
    precisions = {"71.0", "47.5", "34.3", "24.5"}  # of Wu et al. 2021
    assert set(DECIMAL.findall(" ".join(unknown))) == precisions


def test_costs_are_those_of_the_benchmarks_that_a_section_names_or_prints():
    page = (ROOT / "docs/performance.md").read_text()
    documents = {
        file.stem: json.loads(file.read_text()) for file in (ROOT / "benchmarks/results").iterdir()
    }
    tables = {name: markdown(one) for name, one in documents.items() if "machine" in one}
    unknown, named = set(), set()
    for section in re.split(r"\n(?=## )", page):
        text = " ".join(section.split())
        here = set(re.findall(r"results/([\w-]+)\.json", section))
        for name, table in tables.items():
            heading, *rest = table.split("\n\n")
            if " ".join(heading.split()) in text:
                here.add(name)
                rows = [line for part in rest for line in part.splitlines() if line[:2] == "| "]
                assert all(" ".join(row.split()) in text for row in rows)
        results = [json.dumps(documents[name]) + tables.get(name, "") for name in here or documents]
        unknown |= strange(section, "\n".join(results))
        named |= here
    assert unknown == set(NOT_RESULTS["docs/performance.md"].split())
    assert named == set(documents)


def test_a_number_that_no_result_has_is_found():
    results = "| 31.27 | 27.04 ± 0.89 (-5.49) | p 0.001; versions: python 3.11.7; 'test': 2461"
    assert strange("It falls by 5.5 BLEU, from 31.27 to 27.0.", results) == set()
    assert strange("It falls by 5.4 BLEU, to 27.04.", results) == {"5.4"}
    assert strange("From +31.27, -5.49, not +5.49", results) == {"+5.49"}
    assert strange("At 3.11 and 27.040", results) == {"3.11", "27.040"}
    assert strange("Of 2,461 sentences (Song et al. 2018), 1,000", results) == {"1,000"}
