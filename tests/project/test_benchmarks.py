"""The benchmarks run, and their results are complete, whatever the numbers."""

import json
import math
from pathlib import Path

import pytest
from cli import run_forked

from benchmarks.systems import SYSTEMS
from fairseq_hybrid_attn.devices import has_bfloat16
from fairseq_hybrid_attn.lab.files.provenance import code

ROOT = Path(__file__).parents[2]
TINY = """--rounds 3 --shortest 0.01 --lengths 6 9 --sentences 2 --length 6
    --width 16 --ffn 32 --heads 4 --vocabulary 30 --cases""".split()
CASES = ["mma", "hysan-e1"]


def run(*arguments):
    return run_forked("benchmarks", arguments, ROOT)


@pytest.mark.slow
def test_all_benchmarks_at_a_tiny_size(tmp_path):
    file = tmp_path / "new" / "results.json"
    done = run("--json", file, *TINY, *CASES)
    assert done.returncode == 0, done.stderr[-3000:]
    document = json.loads(file.read_text())

    assert document["settings"]["rounds"] == 3 and document["code"] == code()

    measured = set()
    for result in document["results"]:
        ratio, measure = result["ratio"], result["measure"]
        assert 0 < ratio["min"] <= ratio["median"] <= ratio["max"] < math.inf
        assert measure != "generation" or result["sentences_a_second"] > 0
        if result["candidate"] == "chosen":
            measured.add((result["benchmark"], result["case"], measure, result["queries"]))
    for case in CASES:
        assert ("step", case, "training step", 6) in measured
        assert ("step", case, "peak memory", 6) in measured
        for length in (6, 9):
            assert ("generation", case, "generation", length) in measured

    assert run("table", "--json", file).stdout == done.stdout


@pytest.mark.slow
def test_other_toolkits_are_timed_where_they_are_installed(tmp_path):
    file, dtype = tmp_path / "others.json", "bf16" if has_bfloat16() else "fp32"
    options = [*TINY[: TINY.index("--cases")], "--rounds", 1, "--dtype", dtype, "--json", file]
    done = run("others", *options)
    assert done.returncode == 0, done.stderr[-3000:]
    results = json.loads(file.read_text())["results"]

    parameters = {result["case"]: result["parameters"] for result in results}
    ours = [f"ours, {SYSTEMS[name][0]}" for name in ("global-heads", "mma", *CASES[1:])]
    assert {"fairseq", "torch.nn.Transformer", *ours} <= set(parameters)
    assert {result["candidate"] for result in results} == {"fp32", dtype}
    assert all(result["ratio"]["median"] > 0 for result in results)
    assert parameters[ours[0]] == parameters["fairseq"]
    assert "| torch.nn.Transformer " in done.stdout
