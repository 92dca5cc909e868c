"""The published results: RESULTS.md is made of its files, and its numbers are those of the runs."""

import json
from pathlib import Path
from statistics import fmean

import pytest
from rows import EVERY_TABLE

from fairseq_hybrid_attn.lab.lengths.measure import LENGTH_RATIO
from fairseq_hybrid_attn.lab.tables.document import write_up

ROOT = Path(__file__).parents[3]


def test_the_document_is_made_of_the_files():
    assert (ROOT / "RESULTS.md").read_text() == write_up(ROOT / "results", "results")


def test_numbers_are_those_of_the_runs():
    """All that the runs' files have; the rest is computed from translations, which are not kept."""
    compared = 0
    for path in (ROOT / "results/tables").glob("*.json"):
        kept = json.loads(path.read_text())["comparison"]
        cells = {(c.row.name, c.column.name): c for c in EVERY_TABLE[kept["table"]].cells()}
        for section in kept["sections"]:
            for line in section["lines"]:
                cell, ours = cells[line["row"], section["name"]], line["ours"]
                column = cell.column
                if ours is None or column.group or column.cut or LENGTH_RATIO in column.score:
                    continue
                folder = ROOT / "results/runs" / kept["label"] / cell.run_name
                for seed, value in zip(ours["seeds"], ours["by_seed"], strict=True):
                    result = json.loads((folder / f"seed{seed}.json").read_text())
                    points = {point["updates"]: point for point in result.get("curve", [])}
                    scores = (points[line["at"]] if column.curve else result)["scores"]
                    assert value == scores[ours["score"]]["value"]
                assert ours["value"] == pytest.approx(fmean(ours["by_seed"]))
                compared += 1
    assert compared > 100
