"""A row, or a result, that is wrong is one line; the others are done, and the exit status tells."""

import json
import re

import pytest
from made_runs import REFERENCES, MadeWorkspace, worse
from refusals import files
from workspaces import TABLE, with_rows

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.plan.plan import make_plan
from fairseq_hybrid_attn.lab.run.devices import Devices

BAD = {
    "typo": ({"train": {"encoder-layrs": 2}}, "train: .*unrecognized arguments: --encoder-layrs"),
    "arch": ({"train": {"arch": "nothing"}}, "train: .*invalid choice: 'nothing'"),
    "kind": ({"train": 5}, "train: 5: use a mapping"),
    "circle": ({"run": "toy/table1/circle"}, "run: goes in a circle"),
    "recipe": ({"corpus": "nothing"}, "there is no recipe 'nothing'"),
}


@pytest.fixture
def made(tmp_path):
    table = with_rows(TABLE, **{name: content for name, (content, _) in BAD.items()})
    return MadeWorkspace(tmp_path, **{"toy/table1.yaml": table})


def test_each_bad_row_is_a_line_and_the_others_stay(made, capsys):
    plan = made.plan(seeds=(1, 2))
    plan = make_plan(plan.table, plan.workspace, seeds=(1, 2))
    able, faults = plan.check(Devices("cpu"))
    good = {"plain", "mixed", "broken"}
    assert {run.cell.row for run, _ in able} == good and len(able) == 2 * len(good)
    assert not any("\n" in fault or "usage" in fault or len(fault) > 500 for fault in faults)
    for name, (_, told) in BAD.items():
        about = [fault for fault in faults if f"rows: {name}" in fault]
        if name == "recipe":
            about = [fault for fault in faults if "nothing" in fault and "recipe" in fault]
        assert len(about) == 1, (name, faults)
        assert re.search(told, about[0]), about
    assert len(faults) == len(BAD) and not capsys.readouterr().err


def test_a_dry_run_shows_all_and_ends_with_an_error(made, capsys):
    before = files(made.folder)
    with pytest.raises(UserError) as refused:
        made.hybrid("reproduce", "toy/table1", "--dry-run", "--device", "cpu")
    assert "--encoder-layrs" in str(refused.value) and "rows: kind" in str(refused.value)
    assert files(made.folder) == before
    made.hybrid("reproduce", "toy/table1", "plain", "mixed", "--dry-run", "--device", "cpu")


def test_a_table_with_bad_rows_or_a_damaged_result_is_printed(made):
    for row in ("plain", "mixed"):
        made.finish(made.run(row), worse(REFERENCES, 0.2, row))
    path = made.run("mixed").folder.result
    whole = json.loads(path.read_text())
    for content, told in (
        (json.dumps(whole)[:100], "result.json"),
        ("[]", "result.json"),
        (json.dumps({**whole, "scores": {"bleu": {"value": "high"}}}), "scores: bleu"),
        (json.dumps({**whole, "curve": [{"updates": 1, "scores": 5}]}), "curve: no. 1: scores: 5"),
    ):
        path.write_text(content)
        able, faults = made.plan(seeds=(1,)).check(Devices("cpu"))
        assert "plain" in {run.cell.row for run, _ in able}
        (fault,) = [fault for fault in faults if str(path) in fault]
        assert told in fault
        cells = made.cells("toy/table1")
        assert float(cells["plain", "bleu"]["ours"]) > 0
        for name in ("kind", "circle", "recipe", "mixed"):
            assert cells[name, "bleu"]["ours"] == "", name
