"""A training step launches few more kernels on a GPU than stock fairseq's, counted without one."""

import json
from pathlib import Path

import pytest
from cli import run_forked

ROOT = Path(__file__).parents[2]
#: Launches over stock's.  The gated sum has two matrices more in each layer, and fairseq's Adam
#: launches 7 to 11 kernels for each.
MOST = {"hysan-e1": 1.10, "hysan-e1-sum": 1.0, "mma": 0.98, "hybrid-gate": 1.0}


@pytest.mark.parametrize("dtype", ("bf16", pytest.param("fp16", marks=pytest.mark.slow)))
def test_few_more_launches_than_stock(dtype, tmp_path):
    file = tmp_path / "launches.json"
    sizes = f"launches --length 30 --dtype {dtype} --json {file} --cases"
    done = run_forked("benchmarks", (*sizes.split(), *MOST), ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    results = json.loads(file.read_text())["results"]
    assert [one["case"] for one in results] == list(MOST)
    for one in results:
        assert one["vanilla_launches"] > 600  # of 6 + 6 stock layers, 34 or more each way
        assert one["ratio"]["median"] <= MOST[one["case"]], one
        # fairseq tests for padding in each layer of its encoder.
        assert one["waits"] <= one["vanilla_waits"] - 6, one
