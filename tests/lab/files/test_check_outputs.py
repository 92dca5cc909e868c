"""Where results go: checked before the work."""

import os

from refusals import check_refusals

from fairseq_hybrid_attn.lab.files.writing import check_outputs, check_written


def test_outputs_overwrite_no_input_and_can_be_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("folder", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "read").write_text("kept")
    (tmp_path / "link").symlink_to("read")
    os.mkfifo("pipe")

    def check(path, other="other/new"):
        outputs = {"--data": tmp_path / path, "--more": tmp_path / other, "--none": None}
        check_outputs(outputs, [tmp_path / "read", None])

    check("new")
    cases = {
        "read": "--data .*read is one of the inputs",
        "link": "is one of the inputs",
        "folder/../read": "is one of the inputs",
        "other/../other/new": "--more .*--data writes there too",
        "folder": "is a directory",
        "pipe": "is not a regular file",
        "nowhere/new": "there is no directory .*nowhere",
    }
    check_refusals(cases.items(), check)
    assert (tmp_path / "read").read_text() == "kept" and not list((tmp_path / "other").iterdir())


def test_the_ending_of_a_name_says_what_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def check(names):
        check_written([tmp_path / name for name in names.split()], ("data", "figure"), [])

    check("x.JSON y.svg")
    cases = {"x.md": r"x\.md: .*\.json, \.png", "x": "--write", "x.json x.json": "writes there too"}
    check_refusals(cases.items(), check)
