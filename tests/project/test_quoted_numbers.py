"""The numbers that the README and the documentation quote are those of the published results.

A number is looked up in the tables that its paragraph or list item names, and in those of its page
(``TABLES``).  Decimals may be rounded further than in the results; a sign counts, if there is one.
Decimals that are no results are in ``NOT_RESULTS``.  Whole numbers, of two digits or more, are
looked up where tables are named, and on pages that are all about results.

A value, its interval and the paper's number are of one line of the results, where they are quoted
as ``VALUE (LOW to HIGH; paper: NUMBER)``.

Numbers of docs/performance.md are in the benchmarks' result files that its section names or prints,
or else in any.
"""

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

from benchmarks.tables import markdown
from fairseq_hybrid_attn.lab.config.paper_tables import load_table
from fairseq_hybrid_attn.lab.tables.kept_tables import read_tables
from fairseq_hybrid_attn.lab.tables.numbers import Measured, Section
from fairseq_hybrid_attn.lab.tables.printing import as_csv, as_markdown

ROOT = Path(__file__).parents[2]
DECIMAL = re.compile(r"(?<![\w.])[+-]?\d+\.\d+(?![\w.]*\d)")
WHOLE = re.compile(r"(?<![\w.,])(?:\d{1,3}(?:,\d{3})+|\d{2,})(?![\w.,]*\d)")
TABLE = re.compile(r"evidence(?:/|\.(?!md))(\w+)")  # or a file, results/*.evidence.TABLE.json
#: A few words may stand between a value and its interval, and between this and the paper's number.
QUOTED = re.compile(
    r"(?P<value>[+-]?\d+\.\d+)[^.();]*[(;,] ?(?P<low>[+-]?\d+\.\d+) to "
    r"(?P<high>[+-]?\d+\.\d+)(?:[^();]*; paper: (?P<paper>[+-]?\d+\.\d+))?"
)

STUDY, RANKED = "docs/evidence.md", "evidence/hysan_table1"
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
    "docs/analysis.md": "0.00001 0.6 27.7 27.9",
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
    "docs/performance.md": "1.2 2.11 2.13 3.11 3.9 8.0 9.0 32 33 50 60 63 90 99 250 255 256 1,030",
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
    results = defaultdict(str)
    for one in read_tables(ROOT / "results", ROOT / "configs"):
        name = one.numbers.table
        more = (ROOT / "results").glob(f"*.{name.replace('/', '.')}.json")
        runs = [
            str([run["settings"], run["updates"], *map(run["corpus"].get, ("counts", "tests"))])
            + str([score for name, score in run["scores"].items() if name.startswith("aer")])
            for run in one.results.values()
        ]
        for file in more:
            content = json.loads(file.read_text(), parse_float=str)  # 0.10, not 0.1
            results[file.name] = "\n".join(lines_of(content))
        numbers = replace(one.numbers, notes="")  # they are written by hand, and quote others
        results[name] += "\n".join([as_markdown(numbers), as_csv(numbers), *runs])
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


def lines_of(content: object) -> list[str]:
    """JSON with a line for each object that has none inside."""
    parts = content.values() if isinstance(content, dict) else content
    if not isinstance(content, dict | list) or "{" not in json.dumps(list(parts)):
        return [json.dumps(content)]
    return [line for part in parts for line in lines_of(part)]


@cache
def numbers_by_line(results: str) -> list[list[float]]:
    return [[float(one) for one in DECIMAL.findall(line)] for line in results.splitlines()]


def apart(item: str, results: str) -> list[str]:
    """Values outside of their interval, or that no one line has with it and the paper's number.

    All signs may be the other way round ("below"), and the paper's by itself.
    """

    def has(line: list[float], number: float) -> bool:
        return any(abs(number - one) <= 0.00501 for one in line)

    def together(value: str, low: str, high: str, paper: str | None) -> bool:
        ours, papers = [float(one) for one in (value, low, high)], [float(paper)] if paper else []
        return ours[1] <= ours[0] <= ours[2] and any(
            all(has(line, sign * one) for one in ours)
            and all(has(line, one) or has(line, -one) for one in papers)
            for line in numbers_by_line(results)
            for sign in (1, -1)
        )

    return [one[0] for one in QUOTED.finditer(item) if not together(*one.groups())]


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


def test_a_value_and_its_interval_and_the_papers_number_are_of_one_line():
    checked = 0
    for name, path in PAGES.items():
        for item in items(path.read_text()):
            if tables := tables_of(name, item):
                results = "\n".join(published()[one] for one in tables)
                assert not apart(item, results), name
                checked += len(QUOTED.findall(item))
    assert checked > 55  # or the pattern has lost them


@cache
def sections() -> dict[tuple[str, str], Section]:
    """The columns of the published tables, by both names."""
    tables = [one.numbers for one in read_tables(ROOT / "results", ROOT / "configs")]
    return {(one.table, section.name): section for one in tables for section in one.sections}


def ours(table: str, column: str) -> dict[str, Measured]:
    """A column's numbers by the names that the pages give to its rows."""
    words = {"hysan_e1": "e1", "transformer_mma": "MMA", "hybrid_gate": "hybrid gate"}
    measured = sections()[table, column].measured
    return {words.get(line.row, line.row.capitalize()): line.ours for line in measured}


def ends(numbers: Iterable[float]) -> str:
    found = sorted(numbers)
    return f"{found[0]:.2f} to {found[-1]:.2f}"


def test_main_scores_are_in_their_places():
    readme, study = (" ".join(PAGES[one].read_text().split()) for one in ("README.md", STUDY))
    for table, seeds in (("evidence/positions", "three seeds"), ("evidence/tiny", "two seeds")):
        has, without = (ours(table, column) for column in ("positions", "no_positions"))
        order = ("Transformer", "MMA", "e1", "hybrid gate")
        cells = " | ".join(f"{has[x].value:.2f} → {without[x].value:.2f}" for x in order)
        assert re.search(rf"\| [^|]*{seeds}[^|]* \| {re.escape(cells)} \|", readme), table
        for row in has if table == "evidence/positions" else ():
            assert f"| {row} | {has[row].value:.2f} | {without[row].value:.2f} |" in study
        for column in (has, without) if table == "evidence/tiny" else ():
            cells = [f"{one.value:.2f} ± {one.interval:.2f}" for one in column.values()]
            assert f" | {' | '.join(cells)} |" in study
        both = (*has.values(), *without.values())
        assert f"± {ends(one.resampled for one in both)} over sentences" in readme
        if table == "evidence/positions":
            assert f"± {ends(one.interval for one in both)} over seeds" in readme
            assert f"have {ends(one.resampled for one in both)} to each side" in study
    first = ours("evidence/positions", "no_positions")
    file = json.loads((ROOT / "results/processors.evidence.positions.json").read_text())
    found = [file["published"][f"{row}/no_positions/seed1"] for row in ("transformer", "hysan_e1")]
    told = "{:.2f} ± {:.2f} (Transformer) and {:.2f} ± {:.2f} (e1; over sentences)"
    assert told.format(*(x for one in found for x in (one["value"], one["interval"]))) in readme
    seeds = [first[name].by_seed[0] for name in ("Transformer", "e1")]
    assert [f"{one:.2f}" for one in seeds] == [f"{one['value']:.2f}" for one in found]


def test_ranges_of_intervals_are_those_of_their_table():
    page = " ".join(PAGES["docs/papers/alignment.md"].read_text().split())
    aer, average, bleu = (
        [line.ours.interval for line in sections()["evidence/alignment", column].measured]
        for column in ("aer", "average", "bleu")
    )
    told = f"Error rates have {ends(aer + average)} to each side, BLEU has {ends(bleu)} (RESULTS"
    assert told in page


def test_rank_correlations_are_those_of_their_rows():
    study, page = (" ".join(PAGES[x].read_text().split()) for x in (STUDY, "docs/papers/hysan.md"))
    has, without = (sections()[RANKED, column].ranks for column in ("positions", "no_positions"))
    every, more, legible = has
    value = {
        (among, n): f"{x[among].value:.2f}" for among in has for n, x in enumerate((has, without))
    }
    whole = {
        (among, n): f"({x[among].low:.2f} to {x[among].high:.2f}"
        for among in has
        for n, x in enumerate((has, without))
    }
    order = [(every, 0, " with positions"), (every, 1, " without")]
    order += [(legible, 0, ""), (legible, 1, "")]
    told = [f"{value[x, n]}{which} {whole[x, n]})" for x, n, which in order]
    assert "is {}, {}; {} and {} if".format(*told) in study
    assert f"is {value[every, 0]} {whole[every, 0]} over sentences)" in page
    assert f"without positions {value[every, 1]} {whole[every, 1]})" in page
    for x in (legible, more):
        told = f"{value[x, 0]} with positions {whole[x, 0]}), {value[x, 1]} without {whole[x, 1]})"
        assert f"it is {told}" in page


def test_numbers_of_seeds_are_those_of_the_tables():
    words = {"one": 1, "two": 2, "three": 3}
    seeds = defaultdict(set)
    for (table, _), section in sections().items():
        seeds[table] |= {len(line.ours.seeds) for line in section.measured}
    said = [
        (name, table, words[number])
        for name, path in PAGES.items()
        for item in items(path.read_text())
        for table, number in re.findall(r"`(evidence/\w+)`[,:] (one|two|three) seeds?\b", item)
    ]
    assert len(said) > 10
    assert not [one for one in said if seeds[one[1]] != {one[2]}]


def test_decimals_in_the_notes_of_tables_are_published():
    unknown = set()
    for name in sorted({table for table, _ in sections()}):
        table = load_table(name, ROOT / "configs")
        notes = "\n".join([table.notes, *table.not_used])
        results = (published().get(one, "") for one in {name} | named(notes))
        unknown |= strange(notes, "\n".join(results))
    precisions = {"71.0", "47.5", "34.3", "24.5"}  # of Wu et al. 2021
    assert set(DECIMAL.findall(" ".join(unknown))) == precisions


def test_the_study_of_alignment_has_the_signature_of_its_scores():
    page = PAGES["docs/papers/alignment.md"].read_text()
    [signature] = re.findall(r"`(nrefs:.+?)`", page.partition("\n## A small study\n")[2])
    assert f"bleu: {signature}\n" in published()["evidence/alignment"]


def test_the_readmes_translation_is_the_published_one():
    shown = PAGES["README.md"].read_text().partition("\n## Try it\n")[2].partition("\n## ")[0]
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


def test_numbers_of_other_lines_are_found():
    results = "| a | +3.11 | +2.48 to +3.73 | +0.95 |\n| b | -0.41 | -0.83 to -0.05 | +0.18 |\n"
    results += "\n".join(lines_of([{"what": {"run": "c", "value": 1.59, "over": [1.32, 1.91]}}]))
    said = "above (3.11; 2.48 to 3.73; paper: 0.95), 0.41 below it (0.05 to 0.83)"
    assert not apart(f"{said}, 1.59 (1.32 to 1.91)", results)
    assert apart("is 3.11 above (2.48 to 3.73; paper: 0.18)", results)
    assert apart("is 0.41 above (2.48 to 3.73)", results) and apart("3.11, 2.48 to 3.83", results)
    assert apart("3.11 (3.73 to 2.48)", results) and apart("-0.41 (0.05 to 0.83)", results)
