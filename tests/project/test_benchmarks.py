"""The benchmarks run, and their results are complete, whatever the numbers."""

import json
import math
from pathlib import Path

import pytest
from cli import run_forked

from fairseq_hybrid_attn.attention.paths import PATHS
from fairseq_hybrid_attn.lab.engine.provenance import code_digest

ROOT = Path(__file__).parents[2]
TINY = """--rounds 3 --shortest 0.01 --lengths 6 9 --tokens 18 --sentences 2 --length 6
    --width 16 --ffn 32 --heads 4 --vocabulary 30 --cases""".split()
CASES = {
    "operator": ["hysan4", "decoder-step"],
    "step": ["mma", "hysan-e1"],
    "generation": ["mma", "hysan-e1"],
}


def run(*arguments):
    return run_forked("benchmarks", arguments, ROOT)


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """All benchmarks at a tiny size: what was printed, and the file of results."""
    file = tmp_path_factory.mktemp("benchmarks") / "new" / "results.json"
    cases = dict.fromkeys(sum(CASES.values(), []))
    done = run("--json", file, *TINY, *cases)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout, json.loads(file.read_text()), file


def test_the_file_says_what_it_was_measured_with(everything):
    _, document, _ = everything
    assert document["format"] == 1
    assert document["settings"]["rounds"] == 3 and document["settings"]["clock"] == "cpu"
    assert document["versions"]["torch"] and document["machine"]["cores"]
    assert document["code"]["digest"] == code_digest()
    assert len(document["load_average"]) == 2 and document["seconds"] > 0


def test_every_case_was_measured_at_every_length(everything):
    _, document, _ = everything
    measured = {
        (r["benchmark"], r["case"], r["measure"], r.get("keys", r["queries"]))
        for r in document["results"]
        if r["candidate"] == "chosen"
    }
    for case in CASES["operator"]:
        for length in (6, 9):
            assert ("operator", case, "forward", length) in measured
            for measure in ("forward + backward", "peak memory"):
                step = case == "decoder-step"  # forward only
                assert (("operator", case, measure, length) in measured) != step
    for case in CASES["step"]:
        assert ("step", case, "training step", 6) in measured
        for length in (6, 9):
            assert ("generation", case, "generation", length) in measured


def test_every_result_has_its_ratio_and_path(everything):
    _, document, _ = everything
    for result in document["results"]:
        ratio = result["ratio"]
        assert 0 < ratio["min"] <= ratio["median"] <= ratio["max"] < math.inf
        assert set(result["paths"]) <= set(PATHS)
        if result["candidate"] == "chosen":
            assert result["paths"]
        if result["measure"] == "generation":
            assert result["sentences_a_second"] > 0


def test_vanilla_against_vanilla_is_about_one(everything):
    _, document, _ = everything
    nulls = [
        result["ratio"]["median"]
        for result in document["results"]
        if result["candidate"] == "null" and result["measure"] != "peak memory"
    ]
    assert len(nulls) >= 10
    assert 0.5 < sorted(nulls)[len(nulls) // 2] < 2


def test_tables_are_printed_and_can_be_printed_again(everything):
    printed, document, file = everything
    for title in ("forward", "forward + backward", "peak memory"):
        assert f"Operator, {title}:" in printed
    assert "Training step:" in printed and "Generation:" in printed
    assert "*vanilla again*" in printed and "*stock again*" in printed
    assert run("table", "--json", file).stdout == printed


def test_wrong_names_are_refused():
    done = run("operators")
    assert done.returncode == 1
    assert "operators: use operator, step, generation" in done.stderr
