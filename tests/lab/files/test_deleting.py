"""One function deletes, and only within the folder that it is given."""

import ast
from pathlib import Path

import pytest

import fairseq_hybrid_attn.lab
from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.files.deleting import delete
from fairseq_hybrid_attn.lab.files.stages import Stage, Stages


@pytest.fixture
def place(tmp_path):
    for name in ("work/a/b.txt", "victim/c.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "work/link").symlink_to(tmp_path / "victim")
    return tmp_path / "work"


def test_what_is_inside_is_deleted_and_links_are_not_followed(place):
    for name in ("link", "a", "no such file"):
        delete(place / name, place)
    assert not any(place.iterdir())
    assert (place.parent / "victim/c.txt").exists()


def test_what_is_outside_is_not_deleted(place):
    outside = ["../victim", "a/../../victim", "link/c.txt", "link/../work", "..", "", "a/..", "."]
    for path in [*(place / name for name in outside), place.parent / "victim"]:
        with pytest.raises(UserError, match="where nothing is deleted"):
            delete(path, place)
    assert (place.parent / "victim/c.txt").exists() and (place / "a/b.txt").exists()


def test_a_folder_of_results_that_is_a_link_is_replaced(place):
    """The folder that it leads to stays as it is."""
    stage = Stage("s", "s", ("link",), "key", lambda partial: None)
    Stages(place, say=lambda _: None).ensure(stage)
    assert not (place / "link").is_symlink() and (place.parent / "victim/c.txt").exists()


def test_everything_in_the_laboratory_deletes_by_this_function():
    folder, found = fairseq_hybrid_attn.lab.__path__[0], set()
    for path in Path(folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in ("unlink", "rmtree", "removedirs"):
                found.add(path.name)
    # A file that is being written has another name until it is complete.
    assert found == {"deleting.py", "writing.py"}
