"""The published results: RESULTS.md is made from its files, with the numbers of the runs."""

import json
import re
from pathlib import Path
from statistics import fmean

import pytest
from fairseq_hybrid_attn.lab.tables.kept_tables import read_tables
from fairseq_hybrid_attn.lab.tables.results_document import write_up
from rows import EVERY_TABLE

from fairseq_hybrid_attn.lab.scores.lengths_measure import LENGTH_RATIO
from fairseq_hybrid_attn.lab.tables import headline
from fairseq_hybrid_attn.lab.tables.claims import decided, terms_of

ROOT = Path(__file__).parents[3]
RESULTS, CONFIGS = ROOT / "results", ROOT / "configs"


def test_the_document_is_made_from_the_files():
    assert (ROOT / "RESULTS.md").read_text() == write_up(
        read_tables(RESULTS, CONFIGS), "results", CONFIGS
    )


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


def test_verdicts_are_those_of_the_numbers():
    verdicts = [one for kept in read_tables(RESULTS, CONFIGS) for one in kept.numbers.verdicts]
    judged = [one for one in verdicts if one.by_seed]
    assert len(judged) > 20 and all(one.verdict == decided(one) for one in judged)


def test_the_figure_says_what_its_intervals_are_over():
    kept = headline.headline_table(read_tables(RESULTS, CONFIGS))
    (legend,) = headline.draw(kept).legends
    assert "95 % interval over seeds" in [text.get_text() for text in legend.get_texts()]


def test_intervals_are_of_all_seeds_whose_translations_are_kept():
    for kept in read_tables(RESULTS, CONFIGS):
        table, folder = kept.plan.table, RESULTS / "runs" / kept.numbers.label
        for claim, verdict in zip(table.claims, kept.numbers.verdicts, strict=True):
            cells = [cell for _, cell in terms_of(table, claim)]
            for seed in verdict.by_seed:
                texts = [folder / f"{cell.run_name}/seed{seed}.txt.gz" for cell in cells]
                assert not all(map(Path.exists, texts)) or seed in verdict.resampled, claim.says


def test_no_path_of_a_machine_is_kept():
    files = list(RESULTS.rglob("*.json"))
    assert len(files) > 100
    assert not [file for file in files if re.search(r'"/\w', file.read_text())]


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
