"""A training step launches no more kernels on a GPU than stock fairseq's, counted without one."""

import json
from pathlib import Path

import pytest
from cli import run_forked

pytest.importorskip("triton")

ROOT = Path(__file__).parents[2]
#: Launches over stock's.  The gated sum has two matrices more in each layer, and fairseq's Adam
#: launches 7 to 11 kernels for each.
MOST = {"hysan-e1": 1.07, "mma": 1.0, "hybrid-gate": 1.0}


@pytest.mark.parametrize("dtype", ("bf16", "fp16", "fp32"))
@pytest.mark.parametrize("layers", (2, pytest.param(6, marks=pytest.mark.slow)))
def test_no_more_launches_than_stock(dtype, layers, tmp_path):
    file = tmp_path / "launches.json"
    cases = MOST if layers > 2 else ("hysan-e1", "mma")  # the hybrid gate is in 2 layers of 6
    sizes = f"launches --length 30 --layers {layers} --dtype {dtype} --json {file} --cases"
    done = run_forked("benchmarks", (*sizes.split(), *cases), ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    results = json.loads(file.read_text())["results"]
    assert [one["case"] for one in results] == list(cases)
    for one in results:
        assert one["paths"] == ["fused-cuda"]
        assert one["vanilla_launches"] > 100 * layers  # of stock layers, 34 or more each way
        assert one["ratio"]["median"] <= MOST[one["case"]], one
        # fairseq tests for padding in each layer of its encoder.
        assert one["waits"] <= one["vanilla_waits"] - layers, one
