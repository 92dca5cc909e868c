"""Reading and writing JSON."""

import json

import pytest
from refusals import check_refusals

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.files.json_files import (
    parse_json,
    read_json,
    read_written,
    write_json,
)


def test_what_is_written_is_read_again(tmp_path):
    path = tmp_path / "x.json"
    content = {"b": [1, 0.1, None, True], "a": "日\u2028"}
    write_json(path, content)
    assert read_json(path) == parse_json(path) == content
    assert list(read_json(path)) == ["b", "a"] and "日" in path.read_text()
    write_json(path, content, sort_keys=True)
    assert list(read_json(path)) == ["a", "b"]
    write_json(path, {"file": "caf\udce9"})  # a name in Latin-1
    assert read_json(path)["file"].startswith("caf")
    assert [one.name for one in tmp_path.iterdir()] == ["x.json"]


def test_files_that_are_not_json(tmp_path):
    path = tmp_path / "x.json"
    assert read_json(path) is None
    with pytest.raises(UserError, match="x.json cannot be read"):  # the user has named it
        parse_json(path)
    for content in (b'{"a": ', b"", b'"\xe9"'):
        path.write_bytes(content)
        with pytest.raises(UserError, match="x.json"):
            read_json(path)
    path.write_text('{"a": ')
    with pytest.raises(json.JSONDecodeError):  # which the caller explains
        parse_json(path)
    for content in ("9" * 5000, "[" * 200_000):
        path.write_text(content)
        for read in (read_json, parse_json):
            with pytest.raises(UserError, match="x.json cannot be read"):
                read(path)


def test_what_a_command_has_written_has_its_keys(tmp_path):
    def read(content):
        path = tmp_path / "x.json"
        path.write_text(content)
        return read_written("--in x.json", path, "make", lambda found: found["a"] + found["b"])

    assert read('{"a": 1, "b": 2, "c": 3}')["c"] == 3
    wrong = ('{"a": 1}', '["a", "b"]', "null", '{"a": 1, "b"')
    check_refusals([(content, "--in x.json .*`make`") for content in wrong], read)
