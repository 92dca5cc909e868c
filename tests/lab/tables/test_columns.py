"""Columns that would not show the numbers that they promise are refused."""

import pytest
from workspaces import with_rows, write_configs

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.config.paper_tables import load_table

WIDE = {"run": "bleu", "score": "bleu"}
TABLE1 = {"title": "x", "extends": "toy", "columns": {"bleu": {}}, "rows": {"plain": {}}}
TABLE2 = {
    "title": "x",
    "columns": {"long": {**WIDE, "source-words": [9, None]}, "x": WIDE},
    "rows": {"plain": {"run": "toy/table1/plain"}},
}

WRONG_GROUPS = ([5], [9, 5], [5, 5], [-1, 5], "5", [None, 5])


def test_tables_that_cannot_be_shown(tmp_path):
    files = {"toy/table1.yaml": TABLE1, "toy/table2.yaml": TABLE2}
    files["toy/table3.yaml"] = {**TABLE2, "columns": {"long": {}, "x": {}}}
    configs = write_configs(tmp_path, **files)
    load_table("toy/table2", configs)
    views = "only scores of a whole"
    columns = [
        *(({**WIDE, "source-words": words}, "source-words") for words in WRONG_GROUPS),
        ({**WIDE, "train": {"dropout": 0.1}}, "must not have settings"),
        ({"score": "aer", "source-words": [0, 5]}, views),
        ({"curve": True, "source-words": [0, 5]}, views),
    ]
    row = {"run": "toy/table1/plain", "scores": {"long": "aer"}}
    for changed, message in [
        *(({"columns": {"x": column}}, message) for column, message in columns),
        ({"columns": {"x": {"curve": True}}, "transposed": True}, "one line per checkpoint"),
        (with_rows(TABLE2, plain=row), "columns: long: .* not aer of row plain"),
        ({"baseline": "toy/table3/plain"}, "not for the same sentences"),
    ]:
        write_configs(tmp_path, **{**files, "toy/table2.yaml": {**TABLE2, **changed}})
        with pytest.raises(UserError, match=message):
            for cell in load_table("toy/table2", configs).cells():
                cell.owner  # noqa: B018  which a bad row does not have
