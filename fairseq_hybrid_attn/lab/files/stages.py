"""Making folders stage by stage; a stage whose recorded inputs are the same is skipped.

A stage is done once its record, ``stages/NAME.json``, is written, so what was killed resumes at the
first stage without one.  The record has the stage's key (a digest of all that its result depends
on), checksums of what it was made from, and checksums of every file that it made.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import UserError
from .checksums import digest, sha256
from .deleting import delete
from .json_files import read_json, write_json

Say = Callable[[str], None]


@dataclass(frozen=True)
class Stage:
    """One step of the work.

    ``make`` is given a temporary folder that has ``makes`` as empty folders; they are then moved.
    It returns facts about the result, as plain data.
    """

    name: str  # of the record
    title: str  # for display, as in "tokenising"
    makes: tuple[str, ...]  # paths within the output folder
    key: str  # digest of everything that the result depends on
    make: Callable[[Path], dict | None]
    needs: Sequence[Stage] = ()  # whose paths it reads


@dataclass(frozen=True)
class Stages:
    """Makes stages in an output folder.

    ``say`` reports each stage when it begins.  ``whole`` is a file that marks the output as
    complete; it is removed before anything is made.
    """

    output: Path
    say: Say
    whole: Path | None = None

    def ensure(self, stage: Stage) -> dict:
        """Make a stage, and what it needs, unless it is up to date; return its facts."""
        stamp = self.stamp(stage.name)
        if stamp and not self.is_outdated(stage):
            return stamp["facts"]
        for needed in stage.needs:
            self.ensure(needed)
        self.say(stage.title + ", again" * (stamp is not None))
        try:
            if self.whole is not None:
                self._delete(self.whole)
            return self._make(stage)
        except OSError as error:
            what = error.filename2 or error.filename or self.output
            raise UserError(
                f"{stage.title}: {what} cannot be written: {error.strerror or error}"
            ) from error

    def is_outdated(self, stage: Stage) -> bool:
        """Whether a stage must be made: never made, made from other things, or damaged since."""
        stamp = self.stamp(stage.name)
        if stamp is None or stamp["key"] != stage.key:
            return True
        if not self._materials(stage).items() <= stamp["materials"].items():
            return True
        return not all(intact(self.output / name, facts) for name, facts in stamp["files"].items())

    def stamp(self, name: str) -> dict | None:
        """The record of a stage; None if it is not done, or the record is damaged."""
        try:
            stamp = read_json(self._record(name))
        except UserError:
            return None
        whole = isinstance(stamp, dict) and {"key", "materials", "files", "facts"} <= stamp.keys()
        return stamp if whole else None

    def clear(self) -> None:
        """Remove partial results, of this run or of one that was killed."""
        for path in self.output.glob(".partial-*"):
            with contextlib.suppress(OSError):  # what cannot be deleted is deleted the next time
                self._delete(path)

    def discard(self, stage: Stage) -> None:
        """Remove what a stage made and is no longer needed."""
        self._delete(self._record(stage.name))
        for path in stage.makes:
            with contextlib.suppress(OSError):
                self._delete(self.output / path)

    def _record(self, name: str) -> Path:
        return self.output / "stages" / f"{name}.json"

    def _delete(self, path: Path) -> None:
        delete(path, self.output)

    def _materials(self, stage: Stage) -> dict[str, str]:
        """A checksum of the files of each stage that a stage needs, if those still exist."""
        stamps = {needed.name: self.stamp(needed.name) for needed in stage.needs}
        return {
            name: digest({file: facts["sha256"] for file, facts in stamp["files"].items()})
            for name, stamp in stamps.items()
            if stamp
        }

    def _make(self, stage: Stage) -> dict:
        """Make a stage elsewhere, then move it.  Its record is written last."""
        record = self._record(stage.name)
        partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=self.output))
        try:
            for folder in stage.makes:
                (partial / folder).mkdir(parents=True)
            facts = stage.make(partial) or {}
            files = describe(partial, stage.makes)
            record.parent.mkdir(exist_ok=True)  # first: it shows that the folder is ours
            self._delete(record)
            for folder in stage.makes:
                self._delete(self.output / folder)
                os.rename(partial / folder, self.output / folder)
        finally:
            self.clear()
        stamp = {"key": stage.key, "materials": self._materials(stage), "files": files}
        write_json(record, {**stamp, "facts": facts}, sort_keys=True)
        return facts


def describe(root: Path, paths: Sequence[str]) -> dict[str, dict]:
    """Flush every file in ``paths`` to disk; return its checksum, size and time."""
    files = {}
    for name in paths:
        inside = sorted((root / name).rglob("*")) if (root / name).is_dir() else [root / name]
        for path in inside:
            if path.is_file():
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
                status = path.stat()
                files[path.relative_to(root).as_posix()] = {
                    "sha256": sha256(path),
                    "size": status.st_size,
                    "mtime_ns": status.st_mtime_ns,
                }
    return files


def intact(path: Path, facts: dict) -> bool:
    """Whether a file is unchanged; its content is read only if its time differs."""
    try:
        status = path.stat()
    except OSError:
        return False
    if status.st_size != facts["size"]:
        return False
    return status.st_mtime_ns == facts["mtime_ns"] or sha256(path) == facts["sha256"]
