"""The numbers of README, RESULTS.md and docs/ are those of the results, rounded.

A decimal is looked up in the tables and files of results that its paragraph, list item or row
names, or else in those that its page is ``ABOUT``.  Those that are no results are in
``NOT_RESULTS``.  On RESULTS.md, claims are looked up with their intervals and symbols.  Numbers of
docs/performance.md are in the benchmarks' files that its section names or prints, or else in any.
"""

import json
import re
from functools import cache

from fairseq_hybrid_attn.lab.tables.claims import FAILED, HELD, OPEN
from published import RESULTS, ROOT, cell_folder, published_tables

from benchmarks.tables import markdown
from fairseq_hybrid_attn.lab.config.paper_tables import load_table
from fairseq_hybrid_attn.lab.files.json_files import read_json
from fairseq_hybrid_attn.lab.tables.printing import as_csv

DECIMAL = re.compile(r"(?<![\w.])[+-]?\d+\.\d+(?![\w.]*\d)")
NUMBER = re.compile(r"(?<![\w.,])[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?![\w.,]*\d)")
NAMED = re.compile(r"measurements/([\w.]+\.json)|((?:evidence|demo)[/.]\w+)")
MAIN_HEADING = "| | short | lost | recipe | lost | Europarl | lost |"
SYMBOLS = {HELD: "✓", OPEN: "~", FAILED: "✗"}
CELL = re.compile(r"(-?\d+\.\d) ± (\d+\.\d) ([✓~✗])")
PAGES = {str(path.relative_to(ROOT)): path for path in (ROOT / "docs").rglob("*.md")}
PAGES |= {name: ROOT / name for name in ("README.md", "RESULTS.md")}
MAIN = {"evidence.positions", "evidence.tiny", "evidence.europarl", "demo.architectures", "main"}
#: What a page is about, where it names nothing else.
ABOUT = {
    "README.md": MAIN,
    "RESULTS.md": MAIN,
    "docs/questions.md": MAIN,
}
#: Settings, sizes, versions, numbers of papers, examples.
NOT_RESULTS = {
    "README.md": "3.12 1811.00253",
    "docs/alignment.md": "2.0",
    "docs/analysis.md": "0.00001 0.6",
    "docs/corpora.md": "1.4 1.5 4.5 5.36 9.02 25.1 41.02",
    "docs/extending.md": "0.001 4.3",
    "docs/install.md": "2.11 2.13 2.15 2.6 3.11 3.12",
    "docs/models.md": "+0.0 0.1 +0.3 0.3 +0.4 0.5 +0.8 +1.57 +6.29 +25.1",
    "docs/papers/alignment.md": "0.1 0.3 0.5 0.9 0.25 0.998 4.5 8.5 22.50 25.50",
    "docs/papers/hybrid_gate.md": "0.1 +0.3 +0.4 0.6 +0.8 0.9 0.98 4.5 44.1 88.0 93.3",
    "docs/papers/hysan.md": "0.1 0.3 0.6 0.9 0.98 1.1 1.2 2.6 11.9 27.3 28.4 60.5 66.8 209.1 213.4",
    "docs/papers/mma.md": "0.1 0.3 0.5 0.9 0.98 2.0 3.3 4.3 68.7",
    "docs/probing.md": "0.001 0.1 0.2",
    "docs/python.md": "0.01 0.1",
    "docs/questions.md": "3.11 1811.00253",
    "docs/training.md": "22.05 0.1 0.3 0.6 0.9 0.98 1.00",
}


def strange(text: str, results: str) -> set[str]:
    """The decimals of a text that are not in the results, rounded; a sign counts if it is there."""
    found = [float(one.replace(",", "")) for one in NUMBER.findall(results)]

    def is_known(number: str) -> bool:
        half = 0.5 * 10 ** -len(number.partition(".")[2]) + 1e-9  # either way of rounding a 5
        has = found if number[0] in "+-" else map(abs, found)
        return any(abs(one - float(number)) <= half for one in has)

    return {one for one in DECIMAL.findall(text) if not is_known(one)}


@cache
def published() -> dict[str, str]:
    """What the results say, by table and by file of measurements."""
    results = {path.name: path.read_text() for path in (RESULTS / "measurements").iterdir()}
    for plan, numbers in published_tables():
        name = numbers.table.replace("/", ".")
        page = (RESULTS / f"pages/{name}.md").read_text()
        page = page.partition("\nNote: ")[0]  # notes are written by hand, and quote others
        runs = [
            str(read_json(path)["settings"])
            for cell in plan.cells
            for path in cell_folder(plan, cell).glob("seed*/result.json")
        ]
        results[name] = "\n".join([page, as_csv(numbers), *runs])
    results["main"] = str(rows(MAIN_HEADING))
    return results


def named(text: str) -> set[str]:
    """The published tables and files that a text names."""
    names = {file or table.replace("/", ".") for file, table in NAMED.findall(text)}
    return names & set(published())


def not_published(page: str) -> set[str]:
    """The decimals of a page that neither the results named beside them nor its list have."""
    unknown = set()
    for item in re.split(r"\n\n|\n(?=- |\| )", PAGES[page].read_text()):
        if page == "RESULTS.md" and item.startswith("| "):
            continue  # rows have tests of their own
        names = named(item) or ABOUT.get(page, set())
        unknown |= strange(item, "\n".join(published()[name] for name in names))
    return unknown - set(NOT_RESULTS.get(page, "").split())


def test_numbers_of_all_pages_are_published():
    found = {page: not_published(page) for page in PAGES if page != "docs/performance.md"}
    assert not {page: unknown for page, unknown in found.items() if unknown}


@cache
def claims() -> dict[str, set[tuple[str, str, str]]]:
    """Difference, half its interval and symbol of the claims, by table."""
    judged = [
        (numbers.table, one.ours, one.over_seeds or one.over_sentences, one.verdict)
        for _, numbers in published_tables()
        for one in numbers.verdicts
    ]
    europarl = read_json(RESULTS / "measurements/intervals.evidence.europarl.json")["claims"]
    judged += [
        ("evidence/europarl", one["ours"], one["over_sentences"], one["verdict"])
        for one in europarl
    ]
    by_table = {}
    for table, ours, bounds, verdict in judged:
        if bounds:
            shown = f"{ours:.1f}".replace("-0.0", "0.0"), f"{(bounds[1] - bounds[0]) / 2:.1f}"
            by_table.setdefault(table.replace("/", "."), set()).add((*shown, SYMBOLS[verdict]))
    return by_table


def rows(heading: str) -> list[list[str]]:
    """The cells of all tables of RESULTS.md with this heading."""
    text = PAGES["RESULTS.md"].read_text()
    tables = re.findall(rf"^{re.escape(heading)}\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [
        [cell.strip() for cell in row.strip("|").split("|")]
        for table in tables
        for row in table.splitlines()
    ]


def test_claims_are_those_of_their_tables():
    found = rows("| | paper | short | recipe | Europarl | page |")
    found += [[*row[:3], "", "", row[3]] for row in rows("| | paper | ours | page |")]
    papers = {
        f"{one.paper:.2f}"
        for _, numbers in published_tables()
        for one in numbers.verdicts
        if one.paper is not None
    }
    for _, paper, short, recipe, europarl, page in found:
        (table,) = named(page)
        assert not paper or paper in papers
        for cell, name in (
            (short, table),
            (recipe, "evidence.tiny"),
            (europarl, "evidence.europarl"),
        ):
            assert not cell or CELL.fullmatch(cell).groups() in claims()[name], (name, cell)
    assert len(found) > 50


def test_the_main_table_is_what_was_measured():
    measured = {numbers.table: numbers for _, numbers in published_tables()}
    expected = []
    for number, row in enumerate(("transformer", "transformer_mma", "hysan_e1", "hybrid_gate")):
        cells = [rows(MAIN_HEADING)[number][0]]
        for table in ("positions", "tiny", "europarl"):
            sections = {one.name: one for one in measured[f"evidence/{table}"].sections}
            of_row = [
                next(line.ours.value for line in sections[name].lines if line.row == row)
                for name in ("positions", "no_positions")
            ]
            lost = f"{of_row[0] - of_row[1]:.1f}"
            halves = {half for ours, half, _ in claims()[f"evidence.{table}"] if ours == lost}
            shown = rows(MAIN_HEADING)[number][len(cells) + 1]
            assert shown in {lost, *(f"{lost} ± {half}" for half in halves)}
            cells += [f"{of_row[0]:.1f}", shown]
        expected.append(cells)
    assert rows(MAIN_HEADING) == expected


def test_the_index_has_all_tables_with_their_runs_and_hours():
    hours = {}
    for path in (RESULTS / "runs").rglob("result.json"):
        run = read_json(path)
        hours.setdefault(run["table"], []).append(run["training_seconds"] / 3600)
    found = {
        re.search(r"\[(\w+)\]", row[0])[1]: row[2:]
        for row in rows("| table | seeds | runs | hours |")
    }
    assert {f"evidence.{name}" for name in found} == {
        path.stem for path in (RESULTS / "pages").glob("evidence.*.md")
    }
    for table, (count, total) in found.items():
        if table in hours:
            assert [count, total] == [str(len(hours[table])), f"{sum(hours[table]):.1f}"]
        else:
            assert count.startswith("those of ") and not total


def test_decimals_in_the_notes_of_tables_are_published():
    unknown = set()
    for name in sorted({numbers.table for _, numbers in published_tables()}):
        table = load_table(name, ROOT / "configs")
        notes = "\n".join([table.notes, *table.not_used])
        results = (published()[one] for one in {name.replace("/", "."), *named(notes)})
        unknown |= strange(notes, "\n".join(results))
    assert unknown == {"71.0", "47.5", "34.3", "24.5"}  # of Wu et al. 2021


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
    assert not unknown
    assert named == set(documents)


def test_a_number_that_no_result_has_is_found():
    results = "| 31.27 | 27.04 ± 0.89 (-5.49) | p 0.001; versions: python 3.11.7; 'test': 2461"
    assert strange("It falls by 5.5 BLEU, from 31.27 to 27.0.", results) == set()
    assert strange("It falls by 5.4 BLEU, to 27.04.", results) == {"5.4"}
    assert strange("From +31.27, -5.49, not +5.49", results) == {"+5.49"}
    assert strange("At 3.11", results) == {"3.11"}
