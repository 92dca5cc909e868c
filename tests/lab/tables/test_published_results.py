"""The published results: their pages are made from them, and scores are those of their counts."""

import math
import re

import pytest
from published import RESULTS, ROOT, published_tables

from fairseq_hybrid_attn.lab.files.json_files import read_json
from fairseq_hybrid_attn.lab.runs.run_counts import read_counts
from fairseq_hybrid_attn.lab.tables.publish_command import listed, pages, runs_page


@pytest.mark.slow
def test_the_pages_are_made_from_the_results():
    lines = [line for line, _ in listed(RESULTS, ROOT / "configs")]
    tables = [(line, *table) for line, table in zip(lines, published_tables(), strict=True)]
    found = {path.name: path.read_text() for path in (RESULTS / "pages").iterdir()}
    assert found == {**pages(tables), "runs.md": runs_page(RESULTS)}


def test_scores_are_those_of_the_counts_to_the_last_digit():
    """Those of another system, but for its rounding of exp and log."""
    compared = 0
    for path in (RESULTS / "runs").rglob("result.json"):
        counts = read_counts(path.with_name("counts.json.gz"))
        result = read_json(path)
        rounding = 1e-15 if result["hardware"]["gpus"] else 0
        for name, score in result["scores"].items():
            if of_score := counts.of(name):
                same = math.isclose(of_score.value, score["value"], rel_tol=rounding)
                assert same, (path, name)
                compared += 1
    assert compared > 1500


def test_a_run_with_counts_has_its_translations_beside_it():
    counts = list((RESULTS / "runs").rglob("counts.json.gz"))
    lacking = [path for path in counts if not path.with_name("hypotheses.txt.gz").exists()]
    assert [path.parts[-4] for path in lacking] == ["giza"]  # which does not translate
    assert len(counts) > 190


def test_no_path_of_a_machine_is_kept():
    files = list(RESULTS.rglob("*.json"))
    assert len(files) > 200
    assert not [file for file in files if re.search(r'"/\w', file.read_text())]
