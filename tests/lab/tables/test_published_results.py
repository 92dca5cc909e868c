"""The published results: RESULTS.md is made from its files, with the numbers of the runs."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from statistics import fmean

import pytest
from rows import EVERY_TABLE

from fairseq_hybrid_attn.lab.lengths.measure import LENGTH_RATIO
from fairseq_hybrid_attn.lab.tables.kept_tables import read_tables
from fairseq_hybrid_attn.lab.tables.results_document import write_up

ROOT = Path(__file__).parents[3]
RESULTS, CONFIGS = ROOT / "results", ROOT / "configs"


def test_the_document_is_made_from_the_files():
    assert (ROOT / "RESULTS.md").read_text() == write_up(RESULTS, "results", CONFIGS)


def test_numbers_are_those_of_the_runs():
    """Those that the runs' files have; the others need translations, which are not kept."""
    compared = 0
    for kept in read_tables(RESULTS, CONFIGS):
        cells = {(c.row.name, c.column.name): c for c in EVERY_TABLE[kept.numbers.table].cells()}
        for section in kept.numbers.sections:
            for line in section.measured:
                cell, ours = cells[line.row, section.name], line.ours
                assert ours.value == pytest.approx(fmean(ours.by_seed))
                if cell.column.group or cell.column.cut or LENGTH_RATIO in cell.column.score:
                    continue
                for seed, value in zip(ours.seeds, ours.by_seed, strict=True):
                    name = f"{kept.numbers.label}/{cell.run_name}/seed{seed}"
                    result = kept.results[name]
                    points = {point["updates"]: point for point in result.get("curve", [])}
                    scores = points.get(line.at, result)["scores"]
                    assert value == scores[ours.score]["value"], name
                    compared += 1
    assert compared > 20


def test_a_table_of_the_earlier_form_is_shown_with_its_numbers(tmp_path):
    """That form has all numbers; this file is a part of one that an earlier version wrote."""
    shutil.copytree(RESULTS / "runs", tmp_path / "runs")
    (tmp_path / "tables").mkdir()
    earlier = Path(__file__).parent / "published_earlier.json"
    shutil.copy(earlier, tmp_path / "tables/evidence.sum.full@text.json")
    document = write_up(tmp_path, "results", CONFIGS)
    content = json.loads(earlier.read_text())
    (kept,) = read_tables(tmp_path, CONFIGS)
    # That version knew no accepted results and no order of rows.
    text = json.dumps(asdict(kept.numbers))
    text = text.replace(', "accepted": ""', "").replace(', "ranks": {}', "")
    assert json.loads(text) == content["comparison"]
    for shown in (
        "9.58 ± 0.67",
        "7.64 ± 0.60 (-1.93) | 0.001",
        "+1.93 |   +1.43 to +2.46 |     +1.93",
        "scripts/reproduce.sh evidence/sum --seeds 1 --data text",
        "## Failed or unfinished\n\n- " + content["unfinished"][0],
        "`: 2 runs, ",
    ):
        assert shown in document, shown


def test_nothing_is_kept_twice():
    """A table's file has no number that a run's file has."""
    values = {
        score["value"]
        for path in (RESULTS / "runs").rglob("*.json")
        for score in json.loads(path.read_text())["scores"].values()
    }
    for path in (RESULTS / "tables").glob("*.json"):
        text = path.read_text()
        assert not [value for value in values if f"{value!r}" in text], path
