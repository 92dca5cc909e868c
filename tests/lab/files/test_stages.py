"""Stages that are made in folders: what is made again, and interruptions."""

import json
import os

import pytest

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.files.stages import Stage, Stages


class Work:
    """Two stages: the second doubles the lines of the first."""

    def __init__(self, output):
        self.output, self.said = output, []
        self.output.mkdir(exist_ok=True)
        self.stages = Stages(output, self.said.append, output / "whole")

    def second(self, text="a", key="x"):
        def write(partial):
            (partial / "first/text").write_text(text)
            return {"length": len(text)}

        def double(partial):
            (partial / "second/text").write_text(2 * (self.output / "first/text").read_text())
            (partial / "more/deep").mkdir()
            (partial / "more/deep/text").write_text("more")

        first = Stage("first", "first", ("first",), text, write)
        return Stage("second", "second", ("second", "more"), key, double, [first])

    def ensure(self, *settings):
        """Make what is not up to date, with ``whole`` at the end; return the stages made."""
        self.said.clear()
        second = self.second(*settings)
        self.stages.clear()
        for stage in (*second.needs, second):
            self.stages.ensure(stage)
        (self.output / "whole").touch()
        return [title.removesuffix(", again") for title in self.said]


def files(folder):
    """The contents of all files by their paths, without the times in the records."""
    found = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}
    return {name: p.read_text() for name, p in found.items() if not name.startswith("stages/")}


@pytest.fixture
def work(tmp_path):
    return Work(tmp_path / "out")


def test_only_what_depends_on_a_change_is_made_again(work):
    assert work.ensure() == ["first", "second"]
    assert files(work.output) == {
        **{"first/text": "a", "second/text": "aa", "more/deep/text": "more", "whole": ""}
    }
    assert work.ensure() == []
    assert work.stages.stamp("first")["facts"] == {"length": 1}
    assert work.ensure("a", "other key") == ["second"]
    assert work.ensure("b", "other key") == ["first", "second"]
    assert files(work.output)["second/text"] == "bb"


def test_damaged_results_are_made_again(work):
    work.ensure()
    path, record = work.output / "more/deep/text", work.output / "stages/second.json"
    original = record.read_text()
    for damage in (
        lambda: path.write_text("mare"),  # of the same size
        lambda: path.write_text("more and more"),
        path.unlink,
        record.unlink,
        lambda: record.write_text(original[:-9]),
        lambda: record.write_text("[]"),
    ):
        damage()
        assert work.ensure() == ["second"]
        assert path.read_text() == "more"
    # As after a kill between two stages, and an update of a tool since.
    first = work.output / "stages/first.json"
    changed = json.loads(first.read_text())
    changed["files"]["first/text"]["sha256"] = "0" * 64
    first.write_text(json.dumps(changed))
    assert work.ensure() == ["second"]


def test_a_copy_has_other_times_and_is_equally_valid(work):
    work.ensure()
    for path in work.output.rglob("*"):
        os.utime(path, (1, 1))
    assert work.ensure() == []


def test_materials_that_were_discarded_are_made_only_when_needed(work):
    work.ensure()
    (first,) = work.second().needs
    work.stages.discard(first)
    assert not (work.output / "first").exists()
    assert not work.stages.is_outdated(work.second())
    work.said.clear()
    work.stages.ensure(work.second(key="other"))
    assert work.said == ["first", "second, again"] and (work.output / "first/text").exists()


def test_stopped_between_any_two_steps(tmp_path, monkeypatch):
    """Stopped at the first, second, ... move to its place, when made first and when made again."""
    moves = 0

    def stopping(original):
        def move(source, destination):
            nonlocal moves
            moves -= 1
            if moves == 0:
                raise KeyboardInterrupt
            return original(source, destination)

        return move

    for name in ("rename", "replace"):
        monkeypatch.setattr(os, name, stopping(getattr(os, name)))
    for again in (False, True):
        # Three folders and two records.
        for number in range(1, 6):
            work = Work(tmp_path / f"{again}{number}")
            if again:
                work.ensure("old", "old")
            moves = number
            with pytest.raises(KeyboardInterrupt):
                work.ensure()
            assert not (work.output / "whole").exists()
            assert not list(work.output.glob(".partial-*"))
            moves = 0
            work.ensure()
            assert files(work.output)["second/text"] == "aa" and work.ensure() == []


def test_disk_full_in_a_stage(tmp_path):
    def make(partial):
        raise OSError(28, "No space left on device", str(partial / "made/big"))

    stage = Stage("one", "making", ("made",), "key", make)
    with pytest.raises(UserError, match="making: .*made/big cannot be written: No space left"):
        Stages(tmp_path, print, tmp_path / "whole").ensure(stage)
    assert not list(tmp_path.iterdir())
