"""Writing files."""

import os
import signal
from pathlib import Path

import pytest
from refusals import check_refusals, files

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.files.writing import atomic_write, check_for_fairseq


def test_names_may_be_as_long_as_the_file_system_allows(tmp_path):
    path = tmp_path / ("n" * 252 + ".md")
    with atomic_write(path) as file:
        file.write(b"x")
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_an_incomplete_write_leaves_the_old_file_unchanged(folder):
    Path("old").write_text("kept")
    with pytest.raises(KeyboardInterrupt), atomic_write(Path("old")) as file:
        file.write(b"half of the new")
        signal.raise_signal(signal.SIGINT)  # as Ctrl-C does
    assert files() == {"old": b"kept"}


def test_a_link_stays_a_link_and_a_device_is_not_replaced(folder):
    Path("link").symlink_to("new")
    with atomic_write(Path("link")) as file:
        file.write(b"new")
    assert Path("link").is_symlink() and files() == {"new": b"new", "link": b"new"}
    os.mkfifo("pipe")
    with pytest.raises(UserError, match="not a regular file"), atomic_write(Path("pipe")):
        pass


def test_paths_that_fairseq_would_split():
    refused = {"10:30/out": "out: .*':'", "a,b/out": "out: .*','", "x" * 241: "shorter"}
    check_refusals(refused.items(), lambda path: check_for_fairseq(Path(path), ":,"))
    check_for_fairseq(Path("a,b"))  # only fairseq-preprocess splits there
