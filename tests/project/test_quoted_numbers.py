"""The numbers that the README and the documentation quote are those of the published results.

A paragraph's numbers are those of the tables that it names, or else of evidence/positions; a sign
counts, if there is one.  Numbers are decimals and whole numbers of two digits or more; decimals
may be rounded further than in the results.  A number that no result has is listed at the end of
the page, in a comment: ``<!-- not from results: 6.5 0.17 -->``.  Those of docs/performance.md are
in the benchmarks' result files that its section names or prints, or else in any.
"""

import gzip
import json
import re
from collections import defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path

from benchmarks.tables import markdown
from fairseq_hybrid_attn.lab.configuration.paper_tables import load_table
from fairseq_hybrid_attn.lab.tables.kept_tables import read_tables
from fairseq_hybrid_attn.lab.tables.printing import as_csv, as_markdown

ROOT = Path(__file__).parents[2]
DECIMAL = re.compile(r"(?<![\w.])[+-]?\d+\.\d+(?![\w.]*\d)")
WHOLE = re.compile(r"(?<![\w.,])(?:\d{1,3}(?:,\d{3})+|\d{2,})(?![\w.,]*\d)")
LISTED = re.compile(r"<!-- not from results:([^>]*)-->")
TABLE = re.compile(r"evidence(?:/|\.(?!md))(\w+)")  # or a file, results/*.evidence.TABLE.json


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
    """The tables that a text names."""
    return {f"evidence/{one}" for one in TABLE.findall(text)}


@cache
def published() -> dict[str, str]:
    """What the results say, by table: its numbers, and the settings and counts of its runs."""
    results = defaultdict(str)
    for one in read_tables(ROOT / "results", ROOT / "configs"):
        name = one.numbers.table
        more = (ROOT / "results").glob(f"*.{name.replace('/', '.')}.json")
        runs = [
            str([run["settings"], run["updates"], *map(run["corpus"].get, ("counts", "tests"))])
            for run in one.results.values()
        ]
        texts = [file.read_text() for file in more]
        numbers = replace(one.numbers, notes="")  # they are written by hand, and quote others
        results[name] += "\n".join([as_markdown(numbers), as_csv(numbers), *texts, *runs])
    return results


def not_published(page: str) -> set[str]:
    """The numbers of a page that its tables do not have and it does not list; those it lists in
    vain."""
    listed = set(" ".join(LISTED.findall(page)).split())
    unknown = set()
    for paragraph in re.split(r"\n\n|\n(?=- )", LISTED.sub("", page)):
        tables = named(paragraph) or {"evidence/positions"}
        unknown |= strange(paragraph, "\n".join(published()[name] for name in tables))
    return unknown ^ listed


def test_numbers_of_the_study_are_those_of_the_tables_it_names():
    assert not not_published((ROOT / "docs/evidence.md").read_text())


def test_decimals_in_the_notes_of_tables_are_published():
    unknown = set()
    for name in published():
        table = load_table(name, ROOT / "configs")
        notes = "\n".join([table.notes, *table.not_used])
        results = (published().get(one, "") for one in {name} | named(notes))
        unknown |= strange(notes, "\n".join(results))
    precisions = {"71.0", "47.5", "34.3", "24.5"}  # of Wu et al. 2021
    assert set(DECIMAL.findall(" ".join(unknown))) == precisions


def test_a_printed_example_is_of_published_results():
    page = (ROOT / "docs/reproducing.md").read_text()
    shown = page.partition("\n## What it prints\n")[2]
    listed = " ".join(LISTED.findall(shown)).split()
    assert strange(LISTED.sub("", shown), published()["evidence/positions"]) == set(listed)


def test_numbers_of_the_study_of_alignment_are_published():
    page = (ROOT / "docs/papers/alignment.md").read_text()
    study = page.partition("\n## A small study\n")[2].partition("\n## ")[0]
    assert len(DECIMAL.findall(study)) > 10
    runs = (ROOT / "results/runs").rglob("evidence/alignment/**/*.json")  # with each head's AER
    results = [published()["evidence/alignment"], *(path.read_text() for path in runs)]
    assert not strange(study, "\n".join(results))
    [signature] = re.findall(r"`(nrefs:.+?)`", study)
    assert f"bleu: {signature}\n" in results[0]


def test_other_pages_quote_the_numbers_of_the_tables_they_name():
    quoting = set()
    for page in (ROOT / "docs").rglob("*.md"):
        if page.name in ("evidence.md", "reproducing.md"):
            continue
        for item in re.split(r"\n\n|\n(?=- )", page.read_text()):
            tables = named(item) & set(published())
            if not tables and re.search(r"evidence\.md[#)]", item):
                tables = {"evidence/positions"}
            if tables and DECIMAL.search(item):
                quoting.add(page.stem)
                assert not strange(item, "\n".join(published()[name] for name in tables)), page
    assert quoting == {"hysan", "mma", "hybrid_gate"}


def test_numbers_of_the_readme_are_those_of_its_tables():
    paragraphs = (ROOT / "README.md").read_text().split("\n\n")
    starts = ("| BLEU", "*Multi30k", "Without positional")
    quoting = [one for one in paragraphs if one.startswith(starts)]
    assert len(quoting) == len(starts)
    tables = [published()[f"evidence/{name}"] for name in ("positions", "tiny")]
    assert not strange("\n".join(quoting), "\n".join(tables))


def test_the_demo_is_as_published():
    readme, page = ((ROOT / one).read_text() for one in ("README.md", "docs/demo.md"))
    shown = readme.partition("\n## Try it\n")[2].partition("\n## ")[0]
    text = shown + page.partition("| variable")[0]
    not_results = {"75", "200"}  # MB of packages; sentences on the page
    assert strange(text, published()["demo/architectures"]) == not_results
    [translations] = (ROOT / "results/runs").rglob("demo/**/*.txt.gz")
    [ours] = re.findall(r"^  ours +(.+)$", shown, re.MULTILINE)
    assert ours in gzip.decompress(translations.read_bytes()).decode().splitlines()


def test_minutes_of_the_main_commands_are_those_measured():
    measured = json.loads((ROOT / "results/minutes.json").read_text())
    said = {
        "reproduce.sh": {
            "README.md": "--device cpu # {} to {} minutes",
            "docs/evidence.md": "{} to {} minutes on two cores",
        },
        "demo.sh": {
            "README.md": "{} to {} minutes on two CPU cores",
            "docs/demo.md": "It took {} to {} minutes on two cores",
            "scripts/demo.sh": "in {} to {} minutes on two cores",
        },
    }
    for script, pages in said.items():
        [runs] = (runs for command, runs in measured.items() if f"scripts/{script}" in command)
        extremes = [round(choose(run["minutes"] for run in runs)) for choose in (min, max)]
        for page, text in pages.items():
            words = " ".join((ROOT / page).read_text().split())  # whatever the lines
            assert text.format(*extremes) in words, page


def test_costs_are_those_of_the_benchmarks_that_a_section_names_or_prints():
    page = (ROOT / "docs/performance.md").read_text()
    documents = {
        file.stem: json.loads(file.read_text()) for file in (ROOT / "benchmarks/results").iterdir()
    }
    tables = {name: markdown(one) for name, one in documents.items() if "machine" in one}
    unknown, named = set(), set()
    for section in re.split(r"\n(?=## )", LISTED.sub("", page)):
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
    assert unknown == set(" ".join(LISTED.findall(page)).split())
    assert named == set(documents)


def test_a_number_that_no_result_has_is_found():
    results = "| 31.27 | 27.04 ± 0.89 (-5.49) | p 0.001; versions: python 3.11.7; 'test': 2461"
    assert strange("It falls by 5.5 BLEU, from 31.27 to 27.0.", results) == set()
    assert strange("It falls by 5.4 BLEU, to 27.04.", results) == {"5.4"}
    assert strange("From +31.27, -5.49, not +5.49", results) == {"+5.49"}
    assert strange("At 3.11 and 27.040", results) == {"3.11", "27.040"}
    assert strange("Of 2,461 sentences (Song et al. 2018), 1,000", results) == {"1,000"}


def test_what_a_page_lists_is_in_no_result():
    assert not_published("99.87 <!-- not from results: 99.87 -->") == set()
    assert not_published("<!-- not from results: 99.87 -->") == {"99.87"}
    assert not_published("31.27 <!-- not from results: 31.27 -->") == {"31.27"}
    assert not_published("31.27, `evidence/trials`") == {"31.27"}
